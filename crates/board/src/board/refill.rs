//! Refilling a lane from the table, one refiller at a time, from where the lane stopped (I4).

use crate::board::Board;
use crate::board::offers::Offered;
use crate::layout::lane::{AtCursor, LaneRef, Order, Spot};
use crate::layout::names::{ACTION_MAX, GroupHash, Name};
use crate::layout::nodes::NIL;
use crate::layout::rank::Rank;
use crate::time::Micros;

/// A lane whose next task has to be read from the table.
#[derive(Clone, Copy, Debug)]
pub struct NeedsRefill {
    /// The lane's index.
    pub lane: u32,
    /// Where in the table's order to read on.
    pub cursor: Rank,
    /// The lane's action.
    pub action: Name<ACTION_MAX>,
    /// Which tasks it has, and their order.
    pub order: Order,
    /// The group of its tasks; `None`: they are in no group.
    pub group: Option<GroupHash>,
    pub(crate) lane_id: u32,
    pub(crate) head: LaneRef,
}

/// Groups that are to be read from the table.
#[derive(Clone, Copy, Debug)]
pub struct NeedsGroups {
    /// The index of the head of their lanes.
    pub lane: u32,
    /// Where in the order of hashes to read on.
    pub from: GroupHash,
    /// The groups' action.
    pub action: Name<ACTION_MAX>,
    /// Which pass it is, of those of the queue.
    pub pass: u64,
    pub(crate) head: LaneRef,
}

impl NeedsGroups {
    /// The lane that wakes processes for these groups.
    pub fn lane_ref(&self) -> LaneRef {
        self.head
    }
}

impl NeedsRefill {
    /// The lane that wakes processes for its tasks.
    pub fn lane_ref(&self) -> LaneRef {
        self.head
    }
}

impl Board<'_> {
    /// Whether no task can be queued: no slot is free, and no queued task can be evicted.
    pub fn is_leased_out(&mut self) -> bool {
        self.slots.is_full() && self.queued_in_longest() == 0
    }

    /// Whether no lane can be made: none is free, and each has a slot that is held.
    pub fn is_out_of_lanes(&self) -> bool {
        self.lanes.is_full() && self.registered().iter().all(|entry| entry.idle_len == 0)
    }

    /// How many tasks a refill could queue: the free slots, and half of the longest lane's.
    pub fn room(&mut self) -> u32 {
        self.slots.capacity() - self.slots.live() + self.queued_in_longest() / 2
    }

    fn queued_in_longest(&mut self) -> u32 {
        self.longest_lane().map_or(0, |longest| self.lanes[longest].counts.queued)
    }

    /// Makes the caller the only process that refills this lane; false when another one does, or
    /// the lane has changed since.
    pub fn begin_refill(&mut self, wanted: &NeedsRefill, refiller: i32) -> bool {
        if !self.is_refilled_by(wanted.lane, 0) {
            return false;
        }
        let lane = &mut self.lanes[wanted.lane];
        if lane.lane_id != wanted.lane_id || lane.cursor != wanted.cursor {
            return false;
        }
        lane.left_to_table = Rank::END;
        self.set_refiller(wanted.lane, refiller);
        true
    }

    /// Queues tasks read from the table, in order, each with its lease length (zero: none of its
    /// own). False when the board has no room for the rest, or the lane is no longer the
    /// refiller's.
    pub fn refill(
        &mut self,
        entry: u32,
        lane: u32,
        refiller: i32,
        tasks: &[(Rank, Micros)],
    ) -> bool {
        self.is_refilled_by(lane, refiller)
            && !self.is_outdated(lane)
            && tasks.iter().all(|&(rank, timeout)| match self.find_slot(entry, rank.id) {
                Some(at) => {
                    if self.is_outdated(self.slots[at].lane) {
                        self.change_lane(entry, at);
                    }
                    true
                }
                None => {
                    let spot = Spot { lane, head: NIL };
                    self.insert_slot(entry, spot, rank, timeout) == Offered::Queued
                }
            })
    }

    /// Ends a refill that read everything before `cursor` (`Rank::END`: there is nothing more).
    /// Tasks that were left to the table meanwhile move the cursor back to the first of them.
    pub fn end_refill(&mut self, lane: u32, refiller: i32, cursor: Rank) {
        if !self.is_refilled_by(lane, refiller) {
            return;
        }
        self.unlink_front(lane);
        let it = &mut self.lanes[lane];
        let before = it.cursor;
        it.cursor = cursor.min(it.left_to_table);
        it.cursor_since = it.cursor.created;
        let is_known = it.cursor == before && it.at_cursor != AtCursor::Unread;
        if self.is_line(lane) && !is_known {
            self.note_at_cursor(lane, AtCursor::Unread, 0);
        } else {
            self.link_front(lane);
        }
        self.set_refiller(lane, 0);
        if self.is_line(lane) {
            // It wakes for the action of its next task from now on.
            self.note_ready(lane);
        }
        self.forget_outdated(self.queues[self.lanes[lane].queue].entry, lane);
        if self.is_lane(lane) {
            self.release_lane(lane);
        }
    }

    /// Gives up a refill: the lane is to be refilled as before.
    pub fn abandon_refill(&mut self, lane: u32, refiller: i32) {
        if self.is_refilled_by(lane, refiller) {
            self.end_reading(lane);
        }
    }

    pub(crate) fn is_refilled_by(&self, lane: u32, refiller: i32) -> bool {
        self.is_lane(lane) && self.lanes[lane].refiller == refiller
    }

    pub(crate) fn set_refiller(&mut self, lane: u32, refiller: i32) {
        self.change(lane, self.lanes[lane].counts, refiller);
    }
}
