//! The functions that the statements of a search call: what may be owned.

use crate::api::fcinfo::{Call, sql_functions};
use crate::error::Result;
use crate::ops::supply::search;
use crate::shmem::on_board::current_database;
use crate::storage::rows::is_own;
use pgrx::pg_sys::Datum;

sql_functions!(may_own, group_may_run);

/// `_may_own(task, writer) → boolean`
///
/// Takes the id of a ready task, and the `xmin` of its row. Returns whether nothing holds the task,
/// and this transaction did not make it ready.
fn may_own(call: &mut Call) -> Result<Option<Datum>> {
    let task = call.uuid(0, "task")?;
    let is_free = !is_own(call.datum(1)) && search::is_free(&current_database(), task);
    Ok(Some(Datum::from(is_free)))
}

/// `_group_may_run(queue, group) → boolean`
///
/// Takes the name of a queue, and the hash of a group of it. Returns whether this transaction may
/// own one more task of the group.
fn group_may_run(call: &mut Call) -> Result<Option<Datum>> {
    let (queue, group) = (call.text(0, "queue")?, call.uuid(1, "group")?);
    let may_run = search::group_may_run(&current_database(), &queue, group.0);
    Ok(Some(Datum::from(may_run)))
}
