//! Taking commands: the scheduler owns the best tasks of the queue `sql`, and reads what they run.

use crate::error::{self, Result};
use crate::ops::lease::own::own_tasks;
use crate::ops::sql::{QUEUE, WORKER, rights};
use crate::pg::datum::{self, UUID, UUIDS};
use crate::pg::spi::statement;
use crate::pg::uuid::{Uuid, token_hash};
use crate::shmem::database::Database;
use crate::storage::rows::{ids_of, session};
use board::{Micros, NEVER, TokenHash};
use pgrx::pg_sys::Oid;

statement!(COMMAND, "sql/command", [UUID]);
statement!(LIVE, "sql/live", [UUIDS]);

/// Owns up to `most` tasks; their leases do not expire. Returns their ids and the
/// hashes of their tokens.
pub fn own(db: &Database, most: usize) -> Vec<(Uuid, TokenHash)> {
    let mut owned = Vec::with_capacity(most);
    let owning = own_tasks(db, WORKER, QUEUE, most, None, Some(NEVER), |it| {
        owned.push((it.id, token_hash(it.token)));
    });
    error::unwrap_or_raise(owning);
    owned
}

/// What a process needs to know of a command.
pub struct Command {
    pub role: Oid,
    pub database: Oid,
    pub text: Vec<u8>,
    /// `None`: no limit.
    pub timeout: Option<Micros>,
}

/// The command of a task, or why it may not run now; `None`: the task is not live any more.
pub fn read(db: &Database, id: Uuid) -> Option<Result<Command>> {
    let session = session(db);
    let rows = session.run(&COMMAND, &[Some(id.datum())]);
    if rows.len() == 0 {
        return None;
    }
    let value = |column| rows.get(0, column);
    let role = datum::oid(value(0));
    let name = datum::optional_text(value(1));
    let database =
        rights::check_role(role).and_then(|()| rights::find_database(name.as_deref(), role));
    Some(database.map(|database| Command {
        role,
        database,
        text: datum::text(value(2)),
        timeout: value(3).map(|it| datum::interval_length(Some(it))),
    }))
}

/// Which of some tasks are live commands.
pub fn live(db: &Database, wanted: &[Uuid]) -> Vec<Uuid> {
    ids_of(&session(db), &LIVE, wanted.iter().copied())
}
