//! Errors of tasks: conflicts, dependencies, leases and statuses. They name the task.

use crate::error::report::Error;
use crate::pg::datum;
use crate::pg::time;
use crate::pg::uuid::Uuid;
use board::Micros;
use pgrx::prelude::*;

/// How many tasks of a cycle an error lists.
const LISTED_MAX: usize = 10;

fn wrong_state(message: String) -> Error {
    Error::new(PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, message)
}

fn in_use(message: String) -> Error {
    Error::new(PgSqlErrorCode::ERRCODE_OBJECT_IN_USE, message)
}

/// An id that no task has.
pub fn no_such_task(id: Uuid) -> Error {
    Error::new(PgSqlErrorCode::ERRCODE_NO_DATA_FOUND, format!("task {id} does not exist"))
}

/// A page behind a task that is not in the list.
pub fn not_in_list(id: Uuid, status: &str) -> Error {
    wrong_state(format!("task {id} is not settled"))
        .detail(format!("A list of tasks with status \"{status}\" does not have it."))
        .hint("Pass the id of the last task of the page before.")
}

/// An id that a live or settled task has.
pub fn duplicate_id(id: Uuid) -> Error {
    Error::new(PgSqlErrorCode::ERRCODE_UNIQUE_VIOLATION, format!("task {id} already exists"))
        .constraint(c"task_pkey")
}

/// A key that a live task has. `holder`: that task; `None`: the caller may not look at it.
pub fn duplicate_key(queue: &[u8], key: &[u8], holder: Option<Uuid>, is_live: bool) -> Error {
    let [queue, key] = [queue, key].map(datum::printable);
    let error = Error::new(
        PgSqlErrorCode::ERRCODE_UNIQUE_VIOLATION,
        format!("key \"{key}\" already exists in queue \"{queue}\""),
    );
    let (detail, hint) = match is_live {
        true => (
            "holds it",
            "Set on_conflict to \"ignore\" to get that task, or to \"replace\" to cancel it.",
        ),
        false => {
            ("has settled, and keeps it", "Set on_conflict to \"ignore\" to get that task's id.")
        }
    };
    let error = match holder {
        Some(holder) => error.detail(format!("Task {holder} {detail}.")),
        None => error,
    };
    error.constraint(c"task_key").hint(hint)
}

/// A key of two elements of an array.
pub fn repeated_key(queue: &[u8], key: &[u8]) -> Error {
    let [queue, key] = [queue, key].map(datum::printable);
    Error::new(
        PgSqlErrorCode::ERRCODE_UNIQUE_VIOLATION,
        format!("key \"{key}\" specified more than once for queue \"{queue}\""),
    )
    .constraint(c"task_key")
}

/// The task to replace is running. `None`: the caller may not look at it.
pub fn not_replaceable(holder: Option<Uuid>) -> Error {
    let task = holder.map_or("the task".to_owned(), |id| format!("task {id}"));
    in_use(format!("cannot replace {task} because it is running"))
}

/// A settled task keeps its key for some time (`unique_for`).
pub fn keeps_its_key(holder: Option<Uuid>) -> Error {
    let task = holder.map_or("the task".to_owned(), |id| format!("task {id}"));
    in_use(format!("cannot replace {task} because it has settled and keeps its key"))
}

/// Dependencies in a cycle: each task waits for the next one, and the last for the first.
pub fn cycle(tasks: &[Uuid]) -> Error {
    let error =
        Error::new(PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE, "dependency cycle detected");
    let [first, others @ ..] = tasks else { return error };
    let listed: Vec<String> = others.iter().take(LISTED_MAX).map(Uuid::to_string).collect();
    let through = match others.len() - listed.len() {
        _ if others.is_empty() => String::new(),
        0 => format!(" through {}", listed.join(", ")),
        more => format!(" through {} and {more} more", listed.join(", ")),
    };
    error.detail(format!("Task {first} depends on itself{through}."))
}

/// A token of a lease that has ended.
pub fn stale_token(id: Uuid) -> Error {
    in_use(format!("the token is not valid for task {id}"))
        .detail("The lease has ended. The task is ready, or another worker owns it.")
}

/// A token of an ownership whose transaction has not ended, in another process.
pub fn still_reserved(id: Uuid, process: i32) -> Error {
    in_use(format!("the token is not valid yet for task {id}"))
        .detail(format!("The transaction of process {process} that owned the task has not committed."))
        .hint("Commit that transaction before you return the task, or turn autocommit on in the connection that owns tasks.")
}

/// A token that another call is using.
pub fn being_returned(id: Uuid) -> Error {
    in_use(format!("task {id} is already being returned"))
        .detail("Another transaction, or an earlier call of this one, used the same token.")
}

/// A task whose status does not allow the call.
pub fn wrong_status(id: Uuid, status: &str) -> Error {
    wrong_state(format!("task {id} is {status}"))
}

/// Waiting for a task that was submitted without `post_result`.
pub fn no_result(id: Uuid) -> Error {
    wrong_state(format!("cannot wait for the result of task {id}"))
        .detail("The task was submitted without post_result.")
        .hint("Submit the task with post_result => true.")
}

/// A row that another transaction changed, in the words that PostgreSQL uses for any table.
/// `change`: `update` or `delete`.
pub fn changed_meanwhile(change: &str) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
        format!("could not serialize access due to concurrent {change}"),
    )
}

/// A warning: the scheduler cannot write the row of a task, and tries it again later.
pub fn quarantined(duty: &str, id: Uuid, pause: Micros) -> Error {
    Error::new(PgSqlErrorCode::ERRCODE_WARNING, format!("scylla could not {duty} task {id}"))
        .detail(format!("The scheduler tries again in {}.", time::humanize(pause)))
}
