//! What the declaration of an SQL function says beside its arguments.

use crate::storage::privileges::Privileges;

/// The line above the declaration of a function in `sql/schema`, and the function's name.
pub struct Declaration {
    /// As messages show it: `scylla.submit()`.
    pub name: &'static str,
    pub needs: Needs,
    pub queue: NamedQueue,
    pub writes: Writes,
    /// It is refused on a standby.
    pub on_primary: bool,
    /// A procedure that ends its transaction.
    pub at_top_level: bool,
}

/// What a call needs before its arguments are read.
#[derive(Clone, Copy)]
pub enum Needs {
    /// Nothing: any role may call.
    Nothing,
    /// One of these privileges on each queue that the call is about, which the body checks. Here:
    /// on any queue at all.
    On(Privileges),
    /// One of these privileges on all queues.
    OnAll(Privileges),
    /// To be a superuser, or a member of the role that owns the extension.
    Ownership,
}

/// The queue that a call names, for the error of a role that has no privilege at all.
#[derive(Clone, Copy)]
pub enum NamedQueue {
    /// The argument of this number; they count from 0.
    Argument(usize),
    /// That of the task that this argument names.
    Task(usize),
    /// That of the SQL commands.
    Sql,
    None,
}

/// Whether a call changes something.
#[derive(Clone, Copy)]
pub enum Writes {
    No,
    Always,
    /// Not where the argument of this number is true.
    Unless(usize),
}
