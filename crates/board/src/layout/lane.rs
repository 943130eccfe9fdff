//! The ready order of one action of one queue.

use crate::layout::names::{ACTION_MAX, Name};
use crate::layout::nodes::{Chain, TreapLinks};
use crate::layout::rank::Rank;

/// A lane. Its cursor splits its tasks: each ready task that ranks before the cursor is on the
/// board; a task that ranks at or behind it may be known to the table only. A complete lane's
/// cursor is `Rank::END`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Lane {
    pub(crate) cursor: Rank,
    /// The lowest rank that was left to the table since the refill under way began.
    pub(crate) left_to_table: Rank,
    pub(crate) chain: Chain,
    /// In the queue's tree of lanes that have something.
    pub(crate) by_front: TreapLinks,
    /// In the tree of all lanes.
    pub(crate) by_length: TreapLinks,
    pub(crate) queue: u32,
    /// The tree of queued slots.
    pub(crate) root: u32,
    /// The first of the queued slots.
    pub(crate) first: u32,
    pub(crate) counts: LaneCounts,
    /// The process that refills the lane; 0: none.
    pub(crate) refiller: i32,
    /// A number that no other lane had, not even one at the same index.
    pub(crate) lane_id: u32,
    pub(crate) used: bool,
    pub(crate) action: Name<ACTION_MAX>,
}

/// How many slots a lane has.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LaneCounts {
    /// Slots that are queued.
    pub(crate) queued: u32,
    /// Slots in all states.
    pub(crate) slots: u32,
}

impl Lane {
    /// The lane's action.
    pub fn action(&self) -> &[u8] {
        self.action.as_bytes()
    }
}
