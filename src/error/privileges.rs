//! Errors of privileges, all 42501. `asking` is the role that lacks one. It is not the current role
//! where the tables are open: there, that is their owner.

use crate::error::report::Error;
use crate::pg::datum;
use crate::pg::named::role;
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

/// The call that would allow it: a grant of the first of the words on a queue to a role.
fn ask_for(role: Oid, queue: &str, mut words: impl Iterator<Item = &'static str>) -> String {
    let role = role::name(role).map_or(String::new(), |it| it.to_string_lossy().into());
    let [queue, role] = [queue, &*role].map(|it: &str| it.replace('\'', "''"));
    let word = words.next().unwrap_or_default();
    format!("Ask the extension's owner to call scylla.grant('{queue}', '{role}', '{{{word}}}').")
}

/// A role that has none of the privileges on any queue.
pub fn denied_everywhere(asking: Oid, words: impl Iterator<Item = &'static str> + Clone) -> Error {
    denied("permission denied for extension \"scylla\"")
        .detail(format!("The call needs the {} on a queue.", any_of(words.clone())))
        .hint(ask_for(asking, "...", words))
}

/// A role without a privilege on all queues.
pub fn denied_on_all(asking: Oid, words: impl Iterator<Item = &'static str> + Clone) -> Error {
    let needed = any_of(words.clone());
    denied("permission denied for extension \"scylla\"")
        .detail(format!("The call needs the {needed} on all queues, which is queue \"*\"."))
        .hint(ask_for(asking, "*", words))
}

/// A call that only the owner of the extension may make.
pub fn not_owner() -> Error {
    denied("must be owner of extension scylla")
}

/// A role without a privilege on a queue.
pub fn denied_on_queue(
    asking: Oid,
    queue: &[u8],
    words: impl Iterator<Item = &'static str> + Clone,
) -> Error {
    let queue = datum::printable(queue);
    denied(format!("permission denied for queue \"{queue}\""))
        .detail(format!("The call needs the {} on the queue.", any_of(words.clone())))
        .hint(ask_for(asking, &queue, words))
}

/// A role without a privilege on the queue of a task. `queue`: that queue; `None`: the role may not
/// know it.
pub fn denied_on_task(
    asking: Oid,
    id: Uuid,
    queue: Option<&[u8]>,
    words: impl Iterator<Item = &'static str> + Clone,
) -> Error {
    let needed = any_of(words.clone());
    let error = denied(format!("permission denied for task {id}"));
    match queue.map(datum::printable) {
        Some(queue) => error
            .detail(format!("The call needs the {needed} on the task's queue, \"{queue}\"."))
            .hint(ask_for(asking, &queue, words)),
        None => error
            .detail(format!("The call needs the {needed} on the task's queue."))
            .hint(ask_for(asking, "...", words)),
    }
}

/// A message of another role, and no privilege to cancel it.
pub fn denied_on_message(asking: Oid, queue: &[u8], id: &[u8]) -> Error {
    let [queue, id] = [queue, id].map(datum::printable);
    denied(format!("permission denied for message \"{id}\" of queue \"{queue}\""))
        .detail("Another role has sent it, and the call needs the privilege \"cancel\".")
        .hint(ask_for(asking, &queue, ["cancel"].into_iter()))
}

/// A schedule of another role, and no privilege to change it. `queue`: its queue; `None`: the role
/// may not know it.
pub fn denied_on_schedule(asking: Oid, name: &[u8], queue: Option<&[u8]>) -> Error {
    let name = datum::printable(name);
    let error = denied(format!("permission denied for schedule \"{name}\""));
    let needed = "Another role owns it, and the call needs the privilege \"manage\" on its queue";
    let manage = ["manage"].into_iter();
    match queue.map(datum::printable) {
        Some(queue) => {
            error.detail(format!("{needed}, \"{queue}\".")).hint(ask_for(asking, &queue, manage))
        }
        None => error.detail(format!("{needed}.")).hint(ask_for(asking, "...", manage)),
    }
}

/// A role that was dropped.
pub fn no_such_role(role: Oid) -> Error {
    let role = role.to_u32();
    Error::new(
        PgSqlErrorCode::ERRCODE_UNDEFINED_OBJECT,
        format!("role with OID {role} does not exist"),
    )
}
