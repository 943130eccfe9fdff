//! A queue that has lanes, or is to be announced.

use crate::layout::names::{Name, QUEUE_MAX};
use crate::layout::nodes::{Chain, Link};

/// A queue.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Queue {
    pub(crate) chain: Chain,
    /// The index of its database's entry.
    pub(crate) entry: u32,
    /// The tree of lanes that have something, the one with the best front first.
    pub(crate) fronts: u32,
    /// How many lanes it has.
    pub(crate) lanes: u32,
    /// In the database's list of queues to be announced.
    pub(crate) link: Link,
    /// Whether it is in that list.
    pub(crate) to_announce: bool,
    pub(crate) name: Name<QUEUE_MAX>,
}
