//! The functions that the statements of a search call: what may be owned.

use crate::api::call::Call;
use crate::api::call::declared::*;
use crate::error::Result;
use crate::ops::supply::search;
use crate::storage::rows::is_own;
use crate::xact::on_board::current_database;
use pgrx::pg_sys::Datum;

sql_functions!(
    MayOwn => may_own,
    GroupMayRun => group_may_run,
);

/// Takes the id of a ready task, and the `xmin` of its row. Returns whether nothing holds the task,
/// and this transaction did not make it ready.
fn may_own(_: &mut Call, args: MayOwn) -> Result<Option<Datum>> {
    let task = args.task.required()?;
    let is_free = !is_own(args.writer.datum()) && search::is_free(&current_database(), task);
    Ok(Some(Datum::from(is_free)))
}

/// Takes the name of a queue, and the hash of a group of it. Returns whether this transaction may
/// own one more task of the group.
fn group_may_run(_: &mut Call, args: GroupMayRun) -> Result<Option<Datum>> {
    let (queue, group) = (args.queue.required()?, args.group_hash.required()?);
    let may_run = search::group_may_run(&current_database(), &queue, group.0);
    Ok(Some(Datum::from(may_run)))
}
