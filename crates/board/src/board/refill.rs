//! Refilling a lane from the table, one refiller at a time, from where the lane stopped (I4).

use crate::board::Board;
use crate::board::offers::Offered;
use crate::layout::lane::{LaneRef, Order};
use crate::layout::names::{ACTION_MAX, GroupHash, Name};
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

impl NeedsRefill {
    /// The lane that wakes processes for its tasks.
    pub fn lane_ref(&self) -> LaneRef {
        self.head
    }
}

impl Board<'_> {
    /// How many tasks a refill could queue: the free slots, and half of the longest lane's.
    pub fn room(&mut self) -> u32 {
        let longest = self.longest_lane().map_or(0, |lane| self.lanes[lane].counts.queued);
        self.slots.capacity() - self.slots.live() + longest / 2
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
            && tasks.iter().all(|&(rank, timeout)| {
                self.find_slot(entry, rank.id).is_some()
                    || self.insert_slot(entry, lane, rank, timeout) == Offered::Queued
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
        it.cursor = cursor.min(it.left_to_table);
        it.cursor_since = it.cursor.created;
        self.link_front(lane);
        self.set_refiller(lane, 0);
        self.release_lane(lane);
    }

    /// Gives up a refill: the lane is to be refilled as before.
    pub fn abandon_refill(&mut self, lane: u32, refiller: i32) {
        if self.is_refilled_by(lane, refiller) {
            self.set_refiller(lane, 0);
            self.release_lane(lane);
        }
    }

    fn is_refilled_by(&self, lane: u32, refiller: i32) -> bool {
        self.is_lane(lane) && self.lanes[lane].refiller == refiller
    }

    fn set_refiller(&mut self, lane: u32, refiller: i32) {
        self.change(lane, self.lanes[lane].counts, refiller);
    }
}
