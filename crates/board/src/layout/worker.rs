//! A worker of one queue.

use crate::layout::names::{Name, QUEUE_MAX, WORKER_MAX};
use crate::layout::nodes::{Link, TreapLinks};
use crate::time::{Micros, Monotonic, Wall};

/// How long a worker without leases is shown after it was last seen.
const SHOWN: Micros = Micros::from_secs(3_600);

/// As `SHOWN`, of a worker in no queue.
const SHOWN_IN_NO_QUEUE: Micros = Micros::from_secs(60);

/// A worker of one queue, or of no queue, from its first call on. There are as many records as
/// slots, so that each lease has one.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Worker {
    /// The index of its database's entry.
    pub(crate) entry: u32,
    /// The tree of its reserved and leased slots by deadline, the first to expire first.
    pub(crate) leases: u32,
    /// The first of these.
    pub(crate) first: u32,
    /// How many slots are its: those with a token of this worker that is valid.
    pub(crate) slots: u32,
    /// When the first of its leases expires.
    pub(crate) next_expiry: Monotonic,
    /// In the database's timer while it has a tree.
    pub(crate) by_expiry: TreapLinks,
    /// In the database's list of idle workers while it has no slots.
    pub(crate) idle_link: Link,
    /// When it last called.
    pub last_seen: Wall,
    /// How many of its slots are reserved or leased, those included that a transaction in flight
    /// ends.
    pub running: u32,
    /// It is asked to stop, and owns nothing more. Of the record in no queue.
    pub draining: bool,
    /// A lease ended without the worker, which was not told yet. Of the record in no queue.
    pub(crate) signalled: bool,
    /// The worker's name. Empty: the record is free.
    pub name: Name<WORKER_MAX>,
    /// The queue's name. Empty: the record is about the worker in no queue.
    pub queue: Name<QUEUE_MAX>,
}

impl Worker {
    /// Whether it is shown no longer.
    pub fn is_forgotten(&self, now: Wall) -> bool {
        let shown = if self.queue.as_bytes().is_empty() { SHOWN_IN_NO_QUEUE } else { SHOWN };
        self.running == 0 && self.last_seen + shown <= now
    }
}
