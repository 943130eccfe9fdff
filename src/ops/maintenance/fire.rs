//! Firing: the clock makes tasks ready whose time has come.

use crate::pg::datum::{self, BIGINT, TIMESTAMPTZ, UUID, UUIDS};
use crate::pg::spi::statement;
use crate::pg::time;
use crate::pg::uuid::Uuid;
use crate::shmem::database::Database;
use crate::shmem::xact::{self, Change};
use crate::storage::rows::{BoardKey, LIVE, LOCK_FREE, id_at, ids, ids_of, session};
use pgrx::pg_sys::Datum;
use std::collections::HashSet;

statement!(DUE, "maintenance/due", [TIMESTAMPTZ, UUID, TIMESTAMPTZ, BIGINT]);
statement!(FIRE, "maintenance/fire", [UUIDS, TIMESTAMPTZ, TIMESTAMPTZ]);

/// A place in the due order: when, on the wall clock, and which task.
pub type DueKey = (i64, Uuid);

/// What falls due from a mark on until a time, at most so many; and when the next does after that.
pub fn read(db: &Database, from: DueKey, until: i64, most: usize) -> (Vec<DueKey>, Option<i64>) {
    let session = session(db);
    let rows = session.run(
        &DUE,
        &[
            Some(Datum::from(from.0)),
            Some(from.1.datum()),
            Some(Datum::from(until)),
            Some(Datum::from(most as i64)),
        ],
    );
    let (mut due, mut next) = (Vec::with_capacity(rows.len()), None);
    for row in 0..rows.len() {
        let at = datum::number(rows.get(row, 1));
        match rows.get(row, 0) {
            Some(_) => due.push((at, id_at(&rows, row, 0))),
            None => next = Some(at),
        }
    }
    (due, next)
}

/// Makes tasks ready that are due; never waits for a row. Returns those that somebody holds.
pub fn fire(db: &Database, wanted: &[Uuid], until: i64) -> Vec<Uuid> {
    let session = session(db);
    let free = ids_of(&session, &LOCK_FREE, wanted.iter().copied());
    let rows = session.run(
        &FIRE,
        &[ids(free.iter().copied()), Some(Datum::from(until)), Some(Datum::from(time::now().wall))],
    );
    let fired =
        (0..rows.len()).map(|row| BoardKey::at(&rows, row, 1, id_at(&rows, row, 0)).offer());
    xact::at_commit(db, fired.map(Change::Offer));
    if free.len() == wanted.len() {
        return Vec::new();
    }
    let free: HashSet<Uuid> = free.into_iter().collect();
    ids_of(&session, &LIVE, wanted.iter().copied().filter(|id| !free.contains(id)))
}
