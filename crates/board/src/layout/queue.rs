//! A queue that has lanes or settings, or is to be announced, its groups, and those that are to be
//! looked at.

use crate::layout::names::{GroupHash, Name, QUEUE_MAX};
use crate::layout::nodes::{Link, ListHead, TreapLinks};
use crate::time::{Micros, Monotonic};

/// A queue.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Queue {
    /// The index of its database's entry.
    pub(crate) entry: u32,
    /// The tree of heads that have something, the one with the next task first.
    pub(crate) fronts: u32,
    /// How many lanes it has.
    pub(crate) lanes: u32,
    /// How many groups it has.
    pub(crate) groups: u32,
    /// The number of the last turn that a group of it had, or was given when it came.
    pub(crate) last_turn: u64,
    /// Where in the order of hashes the groups go on that were found by a search of the table.
    pub(crate) next_group: GroupHash,
    /// Of its tasks without a group.
    pub(crate) turns: GroupTurns,
    /// How many of its slots are queued.
    pub(crate) queued: u32,
    /// How many of its slots are reserved or leased, those included that a transaction in flight
    /// ends.
    pub(crate) running: u32,
    /// A number that no other queue had. It changes when a slot goes that a transaction in flight
    /// was about to end.
    pub(crate) epoch: u32,
    /// How many transactions in flight are about to change its settings.
    pub(crate) pins: u32,
    /// The last process that had joined its wait lists when the queue last got something to hand
    /// out. Processes that joined later looked for themselves.
    pub(crate) until: u64,
    /// In the database's list of queues to be announced.
    pub(crate) link: Link,
    /// Whether it is in the list of those to be announced.
    pub(crate) to_announce: bool,
    pub(crate) coverage: Coverage,
    pub(crate) settings: QueueSettings,
    pub(crate) permits: Permits,
    /// Empty: the record is free.
    pub(crate) name: Name<QUEUE_MAX>,
}

/// Whether the board has all lanes of a queue that the table has ready tasks for (I4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Coverage {
    /// It has.
    Whole,
    /// A survey is bringing them; what commits meanwhile makes its lane. Callers search the table.
    Resuming,
    /// It has not: callers search the table.
    Partial,
}

/// A group that has lanes or slots.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Group {
    pub(crate) hash: GroupHash,
    pub(crate) turns: GroupTurns,
    pub(crate) queue: u32,
    /// How many slots name it.
    pub(crate) slots: u32,
}

/// The turns of a group, or of the tasks of a queue that are in none.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct GroupTurns {
    /// The number of its last turn; the group with the least one is next.
    pub(crate) last: u64,
    /// Its lanes.
    pub(crate) lanes: ListHead,
    /// How many of its slots are reserved or leased, those included that a transaction in flight
    /// ends.
    pub(crate) running: u32,
    /// A number that no other group had. It changes when a slot goes that a transaction in flight
    /// was about to end.
    pub(crate) epoch: u32,
    /// As many run as may: its lanes are in no tree.
    pub(crate) parked: bool,
}

impl GroupTurns {
    /// Of no lanes.
    pub const NONE: GroupTurns =
        GroupTurns { last: 0, lanes: ListHead::EMPTY, running: 0, epoch: 0, parked: false };
}

/// The settings of a queue that the board needs.
#[derive(Clone, Copy, PartialEq, Debug)]
#[repr(C)]
pub struct QueueSettings {
    /// Of two settings of one queue the one with the higher version counts; 0: it has none.
    pub version: u64,
    /// The length of leases for which neither the claim nor the task has one; zero: none.
    pub timeout: Micros,
    /// How many tasks may be handed out in a second; zero: any number.
    pub max_per_second: f64,
    /// A ready task gains a point of priority per such interval; zero: none.
    pub aging: Micros,
    /// How many tasks may be ready before submitting more is refused; zero: any number.
    pub max_ready: u64,
    /// How many tasks may run at once; zero: any number.
    pub max_running: u32,
    /// How many tasks of one group may run at once; zero: any number.
    pub max_running_per_group: u32,
    /// The queue hands out nothing.
    pub paused: bool,
    /// The queue hands out tasks while only critical queues do.
    pub critical: bool,
    /// A completed task is deleted as it is returned.
    pub discards: bool,
}

impl QueueSettings {
    /// A queue without settings.
    pub const NONE: QueueSettings = QueueSettings {
        version: 0,
        timeout: Micros::ZERO,
        max_per_second: 0.0,
        aging: Micros::ZERO,
        max_ready: 0,
        max_running: 0,
        max_running_per_group: 0,
        paused: false,
        critical: false,
        discards: false,
    };
}

/// The permits to hand out tasks of a queue with a `max_per_second`: a token bucket.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Permits {
    /// How many there were at `counted_at`. Less than one: the queue hands out nothing.
    pub(crate) count: f64,
    pub(crate) counted_at: Monotonic,
    /// When there is one again, while the scheduler is to release the queue then.
    pub(crate) next_at: Monotonic,
    /// In the database's tree of queues that the scheduler is to release.
    pub(crate) links: TreapLinks,
    /// It is in that tree.
    pub(crate) awaited: bool,
}

impl Permits {
    /// An empty bucket.
    pub const NONE: Permits = Permits {
        count: 0.0,
        counted_at: Monotonic(0),
        next_at: Monotonic::NEVER,
        links: TreapLinks::NONE,
        awaited: false,
    };
}

/// A group that is to be looked at, until the scheduler has done so.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct GroupNote {
    pub(crate) hash: GroupHash,
    /// In the database's list of notes.
    pub(crate) link: Link,
    pub(crate) entry: u32,
    /// Another number after each time that the group was noted.
    pub(crate) generation: u32,
    /// Whether it is a group; else the tasks of the queue that are in none.
    pub(crate) is_group: bool,
    pub(crate) queue: Name<QUEUE_MAX>,
}

impl GroupNote {
    /// The queue's name.
    pub fn queue(&self) -> &[u8] {
        self.queue.as_bytes()
    }

    /// The group; `None`: the tasks of the queue that are in none.
    pub fn group(&self) -> Option<GroupHash> {
        self.is_group.then_some(self.hash)
    }
}
