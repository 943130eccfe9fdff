//! The runs of schedules of SQL commands, as the schema `cron` shows them. The view that does reads
//! no table itself: roles that may delete its rows could lock what it reads.

use crate::extension::database::Database;
use crate::ops::query::inspect;
use crate::ops::sql::command;
use crate::pg::datum::{self, OID};
use crate::pg::uuid::Uuid;
use crate::storage::rows::{id_at, session};
use board::Lease;
use pgrx::pg_sys::{Datum, Oid};

const RUNS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/queries/cron/runs.sql"));

/// Shows the runs to `show`, each as a row: id, schedule, role, database, command, status,
/// owned_at, updated, errors, history, result, and the process that runs it. `role`: whose; `None`:
/// of all roles.
pub fn runs(db: &Database, role: Option<Oid>, mut show: impl FnMut([Option<Datum>; 12])) {
    let session = session(db);
    session.read_text(RUNS.as_bytes(), &[OID], &[role.map(Datum::from)], |rows| {
        for row in 0..rows.len() {
            let [id, schedule, role, database, command, updated, owned_at] =
                [0, 1, 2, 3, 4, 5, 6].map(|column| rows.get(row, column));
            let [errors, history, result, settled] =
                [7, 8, 9, 10].map(|column| rows.get(row, column));
            let (status, owned_at, pid) = match settled {
                Some(_) => (settled, owned_at, None),
                None => {
                    let id = id_at(rows, row, 0);
                    let since = inspect::leases(db, Some(id)).pop().and_then(|(it, _)| since(&it));
                    let word = if since.is_some() { "running" } else { "ready" };
                    (Some(datum::varlena(word.as_bytes())), since, pid(db, id))
                }
            };
            show([
                id, schedule, role, database, command, status, owned_at, updated, errors, history,
                result, pid,
            ]);
        }
        true
    });
}

/// Since when the server runs a command; `None`: it is about to.
fn since(lease: &Lease) -> Option<Datum> {
    let [_, since, ..] = inspect::columns(lease);
    since
}

fn pid(db: &Database, id: Uuid) -> Option<Datum> {
    command::pid(db, id).map(Datum::from)
}
