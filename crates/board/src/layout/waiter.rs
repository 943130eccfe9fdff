//! A process that waits, and a settled task that is to be announced.

use crate::layout::lane::LaneRef;
use crate::layout::nodes::Link;
use crate::layout::rank::Id;

/// How many queues a process may wait for at once.
pub const MAX_WAIT_QUEUES: usize = 16;

/// How many nodes of wait lists a process has: one for each queue, and one for its worker.
pub(crate) const WAIT_NODES: usize = MAX_WAIT_QUEUES + 1;

/// A process that waits for work of queues or for the end of a task. A process waits for one of
/// these at a time, so that its waiter has the process's own index.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Waiter {
    /// The actions that it would own.
    pub(crate) filter: ActionFilter,
    /// When it joined its wait lists: a number that grows with each process that does.
    pub(crate) joined: u64,
    /// The lane that it was woken for, as long as it has not looked since.
    pub(crate) woken_for: LaneRef,
    /// In the list of signalled waiters.
    pub(crate) link: Link,
    /// The index of its database's entry.
    pub(crate) entry: u32,
    /// How many wait lists it joins; zero: it waits for nothing.
    pub(crate) wait_lists: u32,
    pub(crate) state: WaiterState,
    /// Whether it waits for work, or for the end of a task.
    pub(crate) for_work: bool,
    /// Whether its last wait list is that of its worker.
    pub(crate) for_worker: bool,
    /// A lease of its worker ended without the worker, which was not told yet.
    pub(crate) signalled: bool,
}

/// What a waiter does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum WaiterState {
    /// It does not wait.
    Idle,
    /// It is in its wait lists.
    Waiting,
    /// It was woken; its process's latch is to be set.
    Signalled,
    /// Its process's latch was set, and it does not wait again yet.
    Woken,
}

/// Some actions, as a bit set of their hashes: an action that is not among them may seem to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct ActionFilter(pub(crate) u128);

/// A waiter's node in the wait list of one queue, of its worker, or of one task.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct WaitNode {
    pub(crate) link: Link,
    /// The hash of the queue's name, of the worker's, or of the task's id. Different ones that have
    /// the same hash share their list: a process may be woken for the wrong one.
    pub(crate) hash: u32,
}

impl Waiter {
    /// A process that does not wait.
    pub const IDLE: Waiter = Waiter {
        filter: ActionFilter(0),
        joined: 0,
        woken_for: LaneRef::NONE,
        link: Link::NONE,
        entry: 0,
        wait_lists: 0,
        state: WaiterState::Idle,
        for_work: false,
        for_worker: false,
        signalled: false,
    };
}

impl WaitNode {
    /// In no wait list.
    pub const NONE: WaitNode = WaitNode { link: Link::NONE, hash: 0 };
}

/// A settled task that is to be announced.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Notice {
    pub(crate) id: Id,
    /// In the database's list of notices.
    pub(crate) link: Link,
}
