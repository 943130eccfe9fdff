//! The ready order of one action of one queue, of its tasks of one group, or of one priority.

use crate::layout::names::{ACTION_MAX, Name};
use crate::layout::nodes::{Link, NIL, TreapLinks};
use crate::layout::rank::Rank;
use crate::time::Wall;

/// The most queued slots that a lane may have to be spilled (I8).
const SPILLED_SLOTS_MAX: u32 = 16;

/// A lane. Its cursor splits its tasks: each ready task that ranks before the cursor is on the
/// board; a task that ranks at or behind it may be known to the table only. A complete lane's
/// cursor is `Rank::END`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Lane {
    pub(crate) cursor: Rank,
    /// Since when the task at the cursor ages, or earlier.
    pub(crate) cursor_since: Wall,
    /// The lowest rank that was left to the table since the refill under way began.
    pub(crate) left_to_table: Rank,
    /// Of a lane that has something: in the queue's tree, or, of a group's lane, in its head's.
    pub(crate) by_front: TreapLinks,
    /// In the tree of all lanes.
    pub(crate) by_length: TreapLinks,
    /// In the entry's list of idle lanes.
    pub(crate) idle_link: Link,
    pub(crate) queue: u32,
    /// The tree of queued slots.
    pub(crate) root: u32,
    /// The first of the queued slots.
    pub(crate) first: u32,
    pub(crate) counts: LaneCounts,
    pub(crate) turns: LaneTurns,
    pub(crate) wakes: LaneWakes,
    /// The process that refills the lane; 0: none.
    pub(crate) refiller: i32,
    /// A number that no other lane had, not even one at the same index.
    pub(crate) lane_id: u32,
    pub(crate) used: bool,
    pub(crate) order: Order,
    pub(crate) action: Name<ACTION_MAX>,
}

/// Which tasks a lane has, and their order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Those of an action and group, by priority, then by age.
    Priority,
    /// Those of an action, group and priority, by age.
    Level(u32),
}

/// A lane, as long as its index has the same one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct LaneRef {
    pub(crate) lane: u32,
    pub(crate) lane_id: u32,
    pub(crate) queue: u32,
}

impl LaneRef {
    /// No lane.
    pub const NONE: LaneRef = LaneRef { lane: NIL, lane_id: 0, queue: NIL };
}

/// A lane's part in the turns of groups. The lane of the tasks without a group is the *head* of the
/// lanes of its action's groups, and stays as long as there are any. Without groups it is only
/// that.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LaneTurns {
    /// The group whose lane it is; `NIL`: it is a head.
    pub(crate) group: u32,
    /// The head of a group's lane; `NIL`: it is a head.
    pub(crate) head: u32,
    /// In the list of its group's lanes, or of its queue's heads.
    pub(crate) sibling: Link,
    /// Of a head: the tree of its groups' lanes that have something, by turn.
    pub(crate) root: u32,
    /// The first one in that tree.
    pub(crate) first: u32,
    /// How many lanes it is the head of.
    pub(crate) lanes: u32,
    /// How many of their slots are queued.
    pub(crate) queued: u32,
}

impl LaneTurns {
    /// A lane of tasks without a group, beside no group's.
    pub const NONE: LaneTurns = LaneTurns {
        group: NIL,
        head: NIL,
        sibling: Link::NONE,
        root: NIL,
        first: NIL,
        lanes: 0,
        queued: 0,
    };
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

impl LaneCounts {
    /// Slots that cannot be evicted: reserved, leased, ending or withheld.
    pub(crate) fn pinned(self) -> u32 {
        self.slots - self.queued
    }
}

/// How far a lane has come with waking processes that wait for its work.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LaneWakes {
    /// The last process that had joined its wait lists when the lane got its newest task. Processes
    /// that joined later looked for themselves.
    pub(crate) until: u64,
    /// A node of the wait list: no waiter up to it would own the lane's action. `NIL`: begin at the
    /// front.
    pub(crate) passed: u32,
    /// How many waiters are to be woken at once.
    pub(crate) owed: u32,
    /// When the waiter at `passed` joined: if it has left since, begin at the front.
    pub(crate) passed_joined: u64,
    /// In the database's list of paced or of owing lanes.
    pub(crate) link: Link,
    pub(crate) state: WakeState,
    /// No notification round has come since the lane got its newest task.
    pub(crate) fresh: bool,
}

/// Which list of lanes that wake waiters a lane is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum WakeState {
    /// None: all waiters that it concerns were woken.
    Idle,
    /// Each notification round wakes one more waiter while the lane has something.
    Paced,
    /// It owes wake-ups: a hold of the lock ended before enough waiters were looked at.
    Owing,
}

impl LaneWakes {
    /// Nothing to wake.
    pub const NONE: LaneWakes = LaneWakes {
        until: 0,
        passed: NIL,
        owed: 0,
        passed_joined: 0,
        link: Link::NONE,
        state: WakeState::Idle,
        fresh: false,
    };
}

impl Lane {
    /// The lane's action.
    pub fn action(&self) -> &[u8] {
        self.action.as_bytes()
    }

    /// Whether the lane can be spilled in one step (I8): its tasks are then known to the table
    /// only.
    pub(crate) fn is_idle(&self) -> bool {
        self.counts.pinned() == 0
            && self.counts.queued <= SPILLED_SLOTS_MAX
            && self.refiller == 0
            && self.turns.lanes == 0
    }
}
