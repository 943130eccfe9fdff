//! `add_dependencies`, `delete_tasks` and `task_id`.

use crate::api::call::Call;
use crate::api::call::declared::*;
use crate::api::validate;
use crate::error::Result;
use crate::ops::dependencies::add;
use crate::ops::finish::delete;
use crate::ops::submit::keys;
use crate::pg::uuid::Uuid;
use crate::storage::privileges::Privileges;
use crate::storage::rows::distinct;
use crate::xact::on_board::current_database;
use pgrx::pg_sys::Datum;

sql_functions!(
    AddDependencies => add_dependencies,
    DeleteTasks => delete_tasks,
    TaskId => task_id,
);

/// Takes two arrays of ids of the same length, `after` and `run`, and makes each task of `run` wait
/// for the one at the same position in `after`. Returns the number of new edges.
fn add_dependencies(call: &mut Call, args: AddDependencies) -> Result<Option<Datum>> {
    let (after, run) = (args.after.uuids()?, args.run.uuids()?);
    validate::same_length(("after", &after), ("run", &run))?;
    let edges: Vec<(Uuid, Uuid)> = after.into_iter().zip(run).collect();
    let tasks = distinct(edges.iter().map(|(_, task)| *task));
    let predecessors: Vec<Uuid> = edges.iter().map(|(after, _)| *after).collect();
    call.authorize_tasks(&tasks)?;
    call.authorize_tasks_with(Privileges::SUBMIT, &tasks)?;
    call.authorize_tasks(&predecessors)?;
    let authorize = |id: Uuid, queue: &[u8]| {
        call.authorize_found(id, queue)?;
        match tasks.binary_search(&id) {
            Ok(_) => call.authorize_found_with(Privileges::SUBMIT, id, queue),
            Err(_) => Ok(()),
        }
    };
    let added = add::add(&current_database(), &edges, authorize)?;
    Ok(Some(Datum::from(added as i32)))
}

/// Takes an array of ids, and deletes these tasks and the dependents that then have nothing to wait
/// for. Returns the number of deleted tasks.
fn delete_tasks(call: &mut Call, args: DeleteTasks) -> Result<Option<Datum>> {
    let ids = args.ids.uuids()?;
    call.authorize_tasks(&ids)?;
    // Dependents may be in other queues.
    let authorize = |id: Uuid, queue: &[u8]| call.authorize_found(id, queue);
    let deleted = delete::delete(&current_database(), &ids, authorize)?;
    Ok(Some(Datum::from(deleted as i32)))
}

/// Takes a queue and a key. Returns the id of the unfinished task that has the key, or null.
fn task_id(call: &mut Call, args: TaskId) -> Result<Option<Datum>> {
    let queue = validate::queue(args.queue.required()?)?;
    call.authorize(&queue)?;
    let key = validate::key(args.key.required()?)?;
    Ok(keys::task_id(&current_database(), &queue, &key).map(Uuid::datum))
}
