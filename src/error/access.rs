//! Errors of privileges, all 42501.

use crate::error::report::Error;
use crate::pg::datum;
use crate::pg::uuid::Uuid;
use pgrx::pg_sys::Oid;
use pgrx::prelude::*;

fn denied(message: impl Into<String>) -> Error {
    Error::new(PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE, message)
}

/// The privileges of which one is needed, as in `privilege "submit" or "cancel"`.
fn any_of(words: impl Iterator<Item = &'static str>) -> String {
    let words: Vec<String> = words.map(|word| format!("\"{word}\"")).collect();
    format!("privilege {}", words.join(" or "))
}

/// A role that has none of the privileges on any queue.
pub fn denied_everywhere(words: impl Iterator<Item = &'static str>) -> Error {
    let words = any_of(words);
    denied("permission denied for extension \"scylla\"")
        .detail(format!("The call needs the {words} on a queue."))
}

/// A role without a privilege on all queues.
pub fn denied_on_all(words: impl Iterator<Item = &'static str>) -> Error {
    let words = any_of(words);
    denied("permission denied for extension \"scylla\"")
        .detail(format!("The call needs the {words} on all queues, which is queue \"*\"."))
}

/// A call that only the owner of the extension may make.
pub fn not_owner() -> Error {
    denied("must be owner of extension scylla")
}

/// A role without a privilege on a queue.
pub fn denied_on_queue(queue: &[u8], words: impl Iterator<Item = &'static str>) -> Error {
    let (queue, words) = (datum::printable(queue), any_of(words));
    denied(format!("permission denied for queue \"{queue}\""))
        .detail(format!("The call needs the {words} on the queue."))
}

/// A role without a privilege on the queue of a task. The queue is not named.
pub fn denied_on_task(id: Uuid, words: impl Iterator<Item = &'static str>) -> Error {
    let words = any_of(words);
    denied(format!("permission denied for task {id}"))
        .detail(format!("The call needs the {words} on the task's queue."))
}

/// A message of another role, and no privilege to cancel it.
pub fn denied_on_message(id: &[u8]) -> Error {
    let id = datum::printable(id);
    denied(format!("permission denied for message \"{id}\""))
        .detail("Another role has sent it, and the call needs the privilege \"cancel\".")
}

/// A schedule of another role, and no privilege to change it.
pub fn denied_on_schedule(name: &[u8]) -> Error {
    let name = datum::printable(name);
    denied(format!("permission denied for schedule \"{name}\""))
        .detail("Another role owns it, and the call needs the privilege \"manage\" on its queue.")
}

/// A role that was dropped.
pub fn no_such_role(role: Oid) -> Error {
    let role = role.to_u32();
    Error::new(
        PgSqlErrorCode::ERRCODE_UNDEFINED_OBJECT,
        format!("role with OID {role} does not exist"),
    )
}
