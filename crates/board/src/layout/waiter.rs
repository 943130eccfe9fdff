//! A process that waits.

use crate::layout::names::{Name, QUEUE_MAX};
use crate::layout::nodes::Link;
use crate::layout::rank::Id;

/// A process that waits for work of a queue or for the end of a task. A process waits for one thing
/// at a time, so that its waiter has the process's own index.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Waiter {
    /// The task; 0: it waits for work.
    pub(crate) id: Id,
    /// In its line, or in the list of signalled waiters.
    pub(crate) link: Link,
    /// The index of its database's entry.
    pub(crate) entry: u32,
    pub(crate) hash: u32,
    pub(crate) state: WaiterState,
    /// The queue; empty: it waits for the end of a task.
    pub(crate) queue: Name<QUEUE_MAX>,
}

/// What a waiter does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum WaiterState {
    /// It does not wait.
    Idle,
    /// It is in line.
    Waiting,
    /// It was woken; its process's latch is to be set.
    Signalled,
    /// Its process's latch was set, and it does not wait again yet.
    Woken,
}

impl Waiter {
    /// A process that does not wait.
    pub const IDLE: Waiter = Waiter {
        id: 0,
        link: Link::NONE,
        entry: 0,
        hash: 0,
        state: WaiterState::Idle,
        queue: Name::EMPTY,
    };
}
