//! Offering: a task that becomes ready is put into its lane, in place of the tail of the longest
//! one if the board is full, or is left to the table (I4).

use crate::board::Board;
use crate::board::lanes::ByRank;
use crate::containers::treap;
use crate::layout::lane::{AtCursor, Order, Spot};
use crate::layout::names::LaneName;
use crate::layout::nodes::NIL;
use crate::layout::rank::{Id, Rank};
use crate::layout::slot::{Flag, RowHint, Slot};
use crate::time::Micros;

/// What became of a task that was offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offered {
    /// It is in its lane.
    Queued,
    /// It had a slot already.
    Known,
    /// It is left to the table: a refill will find it.
    LeftToTable,
}

impl Board<'_> {
    /// Offers a ready task whose own lease length is `timeout`, or zero. An upsert: a task that has
    /// a slot already, in whatever state, stays as it is (I3).
    pub fn offer(&mut self, entry: u32, name: LaneName, rank: Rank, timeout: Micros) -> Offered {
        if let Some(at) = self.find_slot(entry, rank.id) {
            self.slots[at].flags.set(Flag::Reoffered, true);
            self.wake_in_line(at);
            return Offered::Known;
        }
        if let Some(head) = self.leave_to_pass(entry, name, rank.priority) {
            self.note_ready(head);
            return Offered::LeftToTable;
        }
        let Some(spot) = self.find_or_add_spot(entry, name, rank.priority) else {
            self.note_spilled(entry);
            self.wake_for_table(entry, name);
            return Offered::LeftToTable;
        };
        let (lane, place) = (spot.lane, self.place_in(spot.lane, rank));
        let offered = if place >= self.lanes[lane].cursor {
            self.leave_to_table(lane, place);
            Offered::LeftToTable
        } else {
            self.insert_slot(entry, spot, rank, timeout)
        };
        self.note_ready(lane);
        self.release_spot(spot);
        offered
    }

    /// Notes where the table has a task's row, if the task is on the board.
    pub fn note_row(&mut self, entry: u32, id: Id, row: RowHint) {
        if let Some(at) = self.find_slot(entry, id) {
            self.slots[at].row = row;
        }
    }

    /// Makes sure that a task has a slot, even one that its lane has not come to. Returns the
    /// slot's index; `None` when no slot can be made, since all are leased.
    pub fn ensure_slot(
        &mut self,
        entry: u32,
        name: LaneName,
        rank: Rank,
        timeout: Micros,
    ) -> Option<u32> {
        if let Some(at) = self.find_slot(entry, rank.id) {
            return Some(at);
        }
        let spot = self.find_or_add_spot(entry, name, rank.priority)?;
        if self.slots.is_full() {
            let evicted = self.longest_lane().and_then(|longest| self.evict_tail(longest));
            if evicted.is_none() {
                self.release_spot(spot);
                self.release_lane(spot.lane);
                return None;
            }
        }
        self.insert_slot(entry, spot, rank, timeout);
        self.release_spot(spot);
        self.find_slot(entry, rank.id)
    }

    /// Makes a slot for a task and queues it, if need be in place of the tail of the longest lane.
    pub(crate) fn insert_slot(
        &mut self,
        entry: u32,
        spot: Spot,
        rank: Rank,
        timeout: Micros,
    ) -> Offered {
        let (lane, place) = (spot.lane, self.place_in(spot.lane, rank));
        if self.slots.is_full() && !self.evict_for(lane, place) {
            self.leave_to_table(lane, place);
            return Offered::LeftToTable;
        }
        let slot = Slot { head: spot.head, ..Slot::new(lane, rank, timeout) };
        let Some(at) = self.slots.add(self.id_hash(entry, rank.id), slot) else {
            self.leave_to_table(lane, place);
            return Offered::LeftToTable;
        };
        if spot.head != NIL {
            self.change_lanes_below(spot.head, 1);
        }
        self.slots[at].generation = self.next_generation();
        self.change_counts(lane, 0, 1);
        self.enqueue(at);
        Offered::Queued
    }

    /// Frees one slot for `rank`; false when it ranks behind all that is queued, or all is leased.
    fn evict_for(&mut self, lane: u32, rank: Rank) -> bool {
        let own = self.lanes[lane].counts.queued;
        let longer = self.longest_lane().filter(|other| self.lanes[*other].counts.queued > own);
        let victim = longer.unwrap_or(lane);
        if victim == lane && self.tail(lane).is_none_or(|tail| self.slots[tail].rank() < rank) {
            return false;
        }
        self.evict_tail(victim).is_some()
    }

    /// Leaves the last queued task of a lane to the table; `None`: none is queued.
    fn evict_tail(&mut self, lane: u32) -> Option<()> {
        let tail = self.tail(lane)?;
        let Slot { priority, head, .. } = self.slots[tail];
        let (rank, since) = (self.slots[tail].rank(), self.slots[tail].aged_since());
        let at_cursor =
            if self.slots[tail].waits() { AtCursor::Waits } else { AtCursor::Ready(head) };
        if head != NIL {
            self.change_lanes_below(head, 1);
        }
        self.leave_to_table(lane, rank);
        if self.lanes[lane].cursor == rank {
            // Else lanes with more first tasks than there are slots would evict each other's for
            // ever: a task that is thought to be older than it is would come first.
            self.lanes[lane].cursor_since = since;
        }
        self.drop_slot(tail);
        if head != NIL {
            if self.lanes[lane].cursor == rank {
                // As it is known, the line need not be read for workers of other actions.
                self.note_at_cursor(lane, at_cursor, priority);
            }
            self.release_head(head);
        }
        Some(())
    }

    fn tail(&mut self, lane: u32) -> Option<u32> {
        let root = self.lanes[lane].root;
        treap::last(&mut ByRank(self), root)
    }

    /// The place of a task in a lane.
    fn place_in(&self, lane: u32, rank: Rank) -> Rank {
        if self.is_line(lane) { rank.in_line() } else { rank }
    }

    /// Leaves all tasks from `rank` on to the table.
    pub(crate) fn leave_to_table(&mut self, lane: u32, rank: Rank) {
        let is_known = self.lanes[lane].at_cursor != AtCursor::Unread;
        let forgets = is_known && rank <= self.lanes[lane].cursor;
        let front = self.front(lane);
        // Of the first task of a line less is known once it is left to the table.
        let leads = rank < front || forgets || rank == front && self.is_line(lane);
        if leads {
            self.unlink_front(lane);
        }
        let it = &mut self.lanes[lane];
        if rank < it.cursor {
            (it.cursor, it.cursor_since) = (rank, rank.created);
        }
        it.left_to_table = it.left_to_table.min(rank);
        if forgets {
            return self.note_at_cursor(lane, AtCursor::Unread, 0);
        }
        if leads {
            self.link_front(lane);
        }
    }

    /// Marks one lane as known to the table only, from its first task on (rebuild, refresh). False
    /// when there is no place for the lane.
    pub fn survey(&mut self, entry: u32, name: LaneName) -> bool {
        self.survey_from(entry, name, Rank::FIRST)
    }

    /// As `survey`, from a rank on: each ready task before it has, or had a moment ago, a slot.
    pub fn survey_from(&mut self, entry: u32, name: LaneName, from: Rank) -> bool {
        let is_level = |queue| matches!(self.order(queue, 0), Order::Level(_));
        if self.find_queue(entry, name.queue).is_some_and(is_level) {
            // The caller's snapshot is from before the queue began to age. It surveys again.
            self.note_spilled(entry);
            return true;
        }
        self.mark(entry, name, 0, from)
    }

    /// As `survey`, of a queue whose tasks gain priority with time: for the tasks of one priority,
    /// from the first one on.
    pub fn survey_level(&mut self, entry: u32, name: LaneName, priority: u32) -> bool {
        self.mark(entry, name, priority, Rank::FIRST)
    }

    fn mark(&mut self, entry: u32, name: LaneName, priority: u32, from: Rank) -> bool {
        match self.find_or_add_lane(entry, name, priority) {
            Some(lane) => {
                // Its limit may have been changed in the table.
                self.park_or_unpark(lane);
                let from = if self.is_line(lane) { Rank::FIRST } else { from };
                self.leave_to_table(lane, from.max(self.first_rank(lane)));
                self.note_ready(lane);
                true
            }
            None => {
                self.note_spilled(entry);
                false
            }
        }
    }
}
