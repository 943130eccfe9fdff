//! What the server lacks to serve a task, for want of background workers; and the warnings that say
//! so.

use crate::error;
use crate::extension::database::Database;
use crate::pg::process;
use crate::shmem::schedulers;
use crate::shmem::segment::sql_records;
use crate::shmem::sql_record::QUEUE;
use pgrx::PgLogLevel;

/// What is missing.
#[derive(Clone, Copy)]
pub enum Lack {
    Scheduler,
    SqlProcess,
    /// `scylla.sql_workers` is 0.
    SqlWorkers,
}

/// What a task of the queue lacks; `None`: nothing, as far as it is known.
pub fn lack(db: &Database, queue: &[u8]) -> Option<Lack> {
    let is_sql = queue == QUEUE;
    if process::is_in_recovery() {
        None
    } else if is_sql && sql_records().is_empty() {
        Some(Lack::SqlWorkers)
    } else if schedulers::lacks_process(db.key().0) {
        Some(Lack::Scheduler)
    } else {
        (is_sql && schedulers::lacks_sql_process()).then_some(Lack::SqlProcess)
    }
}

/// Warns of what is missing.
pub fn warn(db: &Database, lack: Lack) {
    match lack {
        Lack::Scheduler => error::no_scheduler(&db.database_name()),
        Lack::SqlProcess => error::no_sql_process(),
        Lack::SqlWorkers => error::sql_is_off(),
    }
    .report(PgLogLevel::WARNING);
}

/// Warns of what a task of the queue lacks.
pub fn warn_of(db: &Database, queue: &[u8]) {
    if let Some(lack) = lack(db, queue) {
        warn(db, lack);
    }
}
