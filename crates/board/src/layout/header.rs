//! What a board has once: the heads of its pools, and its globals.

use crate::layout::entry::{DatabaseEntry, MAX_DATABASES};
use crate::layout::nodes::{ListHead, PoolHead};
use crate::layout::stats::Recount;

/// The part of a board before its slices.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Header {
    pub(crate) pools: PoolHeads,
    pub(crate) globals: Globals,
}

/// The heads of the pools.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PoolHeads {
    pub(crate) slots: PoolHead,
    pub(crate) lanes: PoolHead,
    pub(crate) queues: PoolHead,
    pub(crate) groups: PoolHead,
    pub(crate) notices: PoolHead,
    pub(crate) notes: PoolHead,
    pub(crate) stats: PoolHead,
    pub(crate) workers: PoolHead,
}

/// What concerns all of a board.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Globals {
    /// The tree of all lanes by length, the longest last.
    pub(crate) lengths: u32,
    /// The last number given to a ticket or a lane.
    pub(crate) generation: u32,
    /// A random number that users do not know.
    pub(crate) seed: u32,
    /// How many queues that are not needed are kept to be announced.
    pub(crate) unneeded: u32,
    /// How many queues have settings, or are about to get some.
    pub(crate) configured: u32,
    /// How many queues refuse more ready tasks than `max_ready`.
    pub(crate) refusing: u32,
    /// How many queues run the tasks of each group in their order.
    pub(crate) ordering: u32,
    /// How many processes wait.
    pub(crate) waiting: u32,
    /// The number of the process that joined its wait lists last.
    pub(crate) joined: u64,
    /// Waiters that were woken and whose latches are to be set.
    pub(crate) signalled: ListHead,
    /// How many of the entries were ever used since the board was cleared.
    pub(crate) registered: u32,
    /// The recount under way.
    pub(crate) recount: Recount,
    pub(crate) entries: [DatabaseEntry; MAX_DATABASES],
}
