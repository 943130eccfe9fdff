//! The symbols of functions that have grown since a release. A database whose extension is still of
//! that release has functions that call them.

use crate::api::fcinfo::{Call, sql_functions};
use crate::error::{self, Result};
use crate::shmem::on_board::current_database;
use pgrx::pg_sys::Datum;

sql_functions!(
    outdated as "submit",
    outdated as "submit_many",
    outdated as "own_tasks",
    outdated as "own_task",
    outdated as "register_worker",
    outdated as "schedule",
    outdated as "alter_schedule",
    outdated as "run_sql",
    outdated as "schedule_sql",
    outdated as "queue_stats"
);

/// Any arguments. Tells to update the extension.
fn outdated(_call: &mut Call) -> Result<Option<Datum>> {
    // Raises the error where the extension is of another version.
    current_database();
    Err(error::outdated_function())
}
