//! Offering: a task that becomes ready is put into its lane, in place of the tail of the longest
//! one if the board is full, or is left to the table (I4).

use crate::board::Board;
use crate::board::lanes::{ByRank, Need};
use crate::containers::treap;
use crate::layout::names::LaneName;
use crate::layout::nodes::NIL;
use crate::layout::queue::Coverage;
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
    /// It is left to the table: a refill or a search will find it.
    LeftToTable,
}

impl Board<'_> {
    /// Offers a ready task whose own lease length is `timeout`, or zero. An upsert: a task that has
    /// a slot already, in whatever state, stays as it is (I3).
    pub fn offer(&mut self, entry: u32, name: LaneName, rank: Rank, timeout: Micros) -> Offered {
        if let Some(at) = self.find_slot(entry, rank.id) {
            self.slots[at].flags.set(Flag::Reoffered, true);
            return Offered::Known;
        }
        let Some(lane) = self.lane_to_keep(entry, name, rank.priority) else {
            self.wake_for_table(entry, name);
            return Offered::LeftToTable;
        };
        let offered = if rank >= self.lanes[lane].cursor {
            self.leave_to_table(lane, rank);
            Offered::LeftToTable
        } else {
            self.insert_slot(entry, lane, rank, timeout)
        };
        self.note_ready(lane);
        offered
    }

    /// The lane that keeps tasks of a priority; `None`: a search of the table finds them.
    pub(crate) fn lane_to_keep(
        &mut self,
        entry: u32,
        name: LaneName,
        priority: u32,
    ) -> Option<u32> {
        let queue = self.find_queue(entry, name.queue);
        if queue.is_some_and(|queue| self.queues[queue].coverage == Coverage::Partial) {
            return None;
        }
        self.find_or_add_lane(entry, name, priority)
    }

    /// Notes where the table has a task's row, if the task is on the board.
    pub fn note_row(&mut self, entry: u32, id: Id, row: RowHint) {
        if let Some(at) = self.find_slot(entry, id) {
            self.slots[at].row = row;
        }
    }

    /// Makes sure that a task has a slot, even one that its lane has not come to, or, where the
    /// board does not cover the queue, without its lane. Returns the slot's index; `None` when no
    /// slot can be made, since all are pinned. The caller pins the slot at once, or calls
    /// `release_unpinned`.
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
        if self.slots.is_full() {
            self.longest_lane().and_then(|longest| self.evict_tail(longest))?;
        }
        if let Some(lane) = self.lane_to_keep(entry, name, rank.priority) {
            let group = self.lanes[lane].turns.group;
            return self.add_slot(entry, lane, group, rank, timeout);
        }
        // The number of slots alone limits how many are pinned.
        let priority = rank.priority;
        let head = self.find_or_add_head(entry, name.queue, name.action, priority, Need::Held)?;
        let queue = self.lanes[head].queue;
        let group = match name.group {
            None => NIL,
            Some(hash) => self.find_or_add_group(queue, hash).expect("a record for each slot"),
        };
        let order = self.lanes[head].order;
        let lane = self.find_lane(queue, name.action, order, group).unwrap_or(head);
        self.add_slot(entry, lane, group, rank, timeout)
    }

    /// Makes a slot for a task and queues it, if need be in place of the tail of the longest lane.
    pub(crate) fn insert_slot(
        &mut self,
        entry: u32,
        lane: u32,
        rank: Rank,
        timeout: Micros,
    ) -> Offered {
        let has_room = !self.slots.is_full() || self.evict_for(lane, rank);
        let group = self.lanes[lane].turns.group;
        let added = has_room.then(|| self.add_slot(entry, lane, group, rank, timeout)).flatten();
        if added.is_some() {
            Offered::Queued
        } else {
            self.leave_to_table(lane, rank);
            Offered::LeftToTable
        }
    }

    /// Makes a slot and queues it in a lane, or in the head of its lane that is not there.
    fn add_slot(
        &mut self,
        entry: u32,
        lane: u32,
        group: u32,
        rank: Rank,
        timeout: Micros,
    ) -> Option<u32> {
        let slot = Slot::new(lane, group, rank, timeout);
        let at = self.slots.add(self.id_hash(entry, rank.id), slot)?;
        if group != NIL {
            self.groups[group].slots += 1;
        }
        self.slots[at].generation = self.next_generation();
        self.change_counts(lane, 0, 1);
        self.enqueue(at);
        Some(at)
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
        let (rank, since) = (self.slots[tail].rank(), self.slots[tail].aged_since());
        self.leave_to_table(lane, rank);
        if self.lanes[lane].cursor == rank {
            // Else lanes with more first tasks than there are slots would evict each other's for
            // ever: a task that is thought to be older than it is would come first.
            self.lanes[lane].cursor_since = since;
        }
        self.drop_slot(tail);
        Some(())
    }

    fn tail(&mut self, lane: u32) -> Option<u32> {
        let root = self.lanes[lane].root;
        treap::last(&mut ByRank(self), root)
    }

    /// Leaves all tasks from `rank` on to the table.
    pub(crate) fn leave_to_table(&mut self, lane: u32, rank: Rank) {
        let leads = rank < self.front(lane);
        if leads {
            self.unlink_front(lane);
        }
        let it = &mut self.lanes[lane];
        if rank < it.cursor {
            (it.cursor, it.cursor_since) = (rank, rank.created);
        }
        it.left_to_table = it.left_to_table.min(rank);
        if leads {
            self.link_front(lane);
        }
    }
}
