//! Errors of the schema `pgmq`, and of its queues and messages.

use crate::error::report::Error;
use crate::pg::datum;
use crate::pg::uuid::Uuid;
use pgrx::prelude::*;

fn invalid(message: impl Into<String>) -> Error {
    Error::new(PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE, message)
}

/// As pgmq, which has a table for each queue.
pub fn no_such_message_queue(queue: &[u8]) -> Error {
    let queue = datum::printable(queue);
    let message = format!("queue \"{queue}\" does not exist in the schema pgmq");
    Error::new(PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE, message)
        .hint("Use pgmq.create() to create it.")
}

pub fn bad_message_queue(name: &[u8]) -> Error {
    let name = datum::printable(name);
    invalid(format!("queue name contains invalid characters: \"{name}\""))
        .detail("A name contains no $, ;, -- and '.")
}

pub fn message_queue_too_long() -> Error {
    invalid("queue name is too long, maximum length is 47 characters")
}

/// A queue that is not of the schema pgmq has tasks that are no messages.
pub fn queue_has_tasks(queue: &[u8]) -> Error {
    let queue = datum::printable(queue);
    Error::new(
        PgSqlErrorCode::ERRCODE_DUPLICATE_OBJECT,
        format!("queue \"{queue}\" already exists outside of the schema pgmq"),
    )
    .detail("Its tasks are no messages.")
    .hint("Choose another name.")
}

pub fn pgmq_is_installed() -> Error {
    Error::new(PgSqlErrorCode::ERRCODE_DUPLICATE_OBJECT, "extension \"pgmq\" is installed")
        .hint("Rename or drop it first.")
}

/// The id that a caller gives to a task could be that of a message.
pub fn id_of_message(id: Uuid) -> Error {
    invalid(format!("id {id} is reserved for messages of the schema pgmq"))
        .hint("Choose an id of version 4 or 7.")
}

/// A message of a queue has the id of another queue's message.
pub fn message_of_other_queue(id: Uuid) -> Error {
    let message = format!("task {id} is a message of another queue");
    Error::new(PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE, message)
}

/// A batch without a message.
pub fn no_messages() -> Error {
    invalid("msgs cannot be NULL or empty")
}

pub fn headers_differ(headers: usize, msgs: usize) -> Error {
    invalid(format!("headers array length ({headers}) must match msgs array length ({msgs})"))
}

/// A text that is no routing key, or no pattern. `what`: as in `is empty`.
pub fn bad_topic(argument: &str, topic: &[u8], what: &str) -> Error {
    let topic = datum::printable(topic);
    invalid(format!("invalid {argument}: \"{topic}\"")).detail(format!("It {what}."))
}

pub fn notifies_not(queue: &[u8]) -> Error {
    let queue = datum::printable(queue);
    Error::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("queue \"{queue}\" sends no notifications"),
    )
    .hint("Use pgmq.enable_notify_insert() first.")
}

/// There is nothing to import.
pub fn no_pgmq_table(table: &[u8]) -> Error {
    let table = datum::printable(table);
    let message = format!("table pgmq.{table} does not exist");
    Error::new(PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE, message)
        .hint("Import a queue before the schema of pgmq is dropped.")
}

/// The progress of an import, for a notice.
pub fn messages_imported(count: i64, table: &[u8]) -> Error {
    let table = datum::printable(table);
    let message = format!("moved {count} messages of pgmq.{table}");
    Error::new(PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION, message)
}
