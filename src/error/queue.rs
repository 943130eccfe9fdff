//! Errors of queues. They name the queue.

use crate::error::context::closed;
use crate::error::report::Error;
use crate::pg::datum;
use board::Blocked;
use pgrx::prelude::*;

fn wrong_state(message: String) -> Error {
    Error::new(PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, message)
}

fn limit_exceeded(message: String) -> Error {
    Error::new(PgSqlErrorCode::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED, message)
}

pub fn no_such_queue(queue: &[u8]) -> Error {
    let queue = datum::printable(queue);
    Error::new(PgSqlErrorCode::ERRCODE_NO_DATA_FOUND, format!("queue \"{queue}\" does not exist"))
        .detail("A queue exists when it has settings, or has had a task.")
}

/// A queue that is to be dropped, while workers own tasks of it.
pub fn queue_runs(queue: &[u8]) -> Error {
    let queue = datum::printable(queue);
    wrong_state(format!("cannot drop queue \"{queue}\" because tasks of it are running")).hint(
        "Pause the queue and wait until they are returned, or cancel them with scylla.cancel_matching().",
    )
}

/// The worker is asked to stop, and owns nothing more.
pub fn worker_drains(worker: &[u8]) -> Error {
    wrong_state(format!("worker \"{}\" drains", datum::printable(worker)))
        .detail("scylla.drain_worker() has asked it to stop.")
}

/// Why a queue does not hand out the task that the caller asks for.
pub fn blocked(why: Blocked, queue: &[u8], database: &str) -> Error {
    let queue = datum::printable(queue);
    match why {
        Blocked::Closed => closed(database),
        Blocked::Paused => wrong_state(format!("queue \"{queue}\" is paused"))
            .hint("Use scylla.resume() if it should hand out tasks."),
        Blocked::NotCritical => wrong_state(format!("queue \"{queue}\" is not critical"))
            .detail("Only critical queues hand out tasks.")
            .hint("Use scylla.critical_only(false) if all queues should hand out tasks."),
        Blocked::MaxRunning(_) => wrong_state(format!("queue \"{queue}\" has reached its limit"))
            .detail("As many of its tasks run as max_running allows."),
        Blocked::MaxRunningPerGroup(_) => {
            wrong_state(format!("a group of queue \"{queue}\" has reached its limit"))
                .detail("As many of its tasks run as max_running_per_group allows.")
        }
        Blocked::MaxPerSecond => wrong_state(format!("queue \"{queue}\" has reached its limit"))
            .detail("It has handed out as many tasks as max_per_second allows by now."),
    }
}

/// A task behind others of its group is not handed out.
pub fn not_next(queue: &[u8]) -> Error {
    let queue = datum::printable(queue);
    wrong_state(format!("the task is not the next one of its group in queue \"{queue}\"")).detail(
        "With max_running_per_group 1 the tasks of a group run in the order of their submission.",
    )
}

pub fn queue_full(queue: &[u8]) -> Error {
    let queue = datum::printable(queue);
    limit_exceeded(format!("queue \"{queue}\" is full"))
        .detail("It would have more ready tasks than max_ready allows.")
        .hint("Submit again when workers have owned some, or raise max_ready with scylla.configure_queue().")
}

pub fn too_many_queues() -> Error {
    limit_exceeded("too many queues have settings".to_owned()).detail(most_queues())
}

/// A warning: settings of the table for which the board has no room.
pub fn settings_not_loaded(count: usize) -> Error {
    limit_exceeded(format!("could not load the settings of {count} queues")).detail(most_queues())
}

fn most_queues() -> String {
    format!("A server keeps the settings of at most {} queues.", board::MAX_CONFIGURED)
}
