//! The ready order: lanes, and the trees that they are in (I4).

use crate::board::Board;
use crate::containers::hash::hash;
use crate::containers::treap::{self, TreapNodes};
use crate::layout::lane::{Lane, LaneCounts, LaneWakes};
use crate::layout::names::{LaneName, Name};
use crate::layout::nodes::{Chain, Link, NIL, TreapLinks};
use crate::layout::queue::Queue;
use crate::layout::rank::Rank;
use crate::layout::slot::State;

impl LaneCounts {
    /// How a lane sorts among all by length: the longest is last, one that may be spilled is first.
    fn length(self, refilled: bool) -> (u32, u32) {
        (self.queued, if self.queued == 0 { self.slots + u32::from(refilled) } else { 0 })
    }
}

impl Lane {
    fn length(&self) -> (u32, u32) {
        self.counts.length(self.refiller != 0)
    }
}

impl Board<'_> {
    /// Whether there is a lane at an index.
    pub(crate) fn is_lane(&self, lane: u32) -> bool {
        // A lane that `clear` made unused still has the fields that it had.
        lane < self.lanes.end() && self.lanes[lane].used
    }

    pub(crate) fn find_queue(&self, entry: u32, queue: &[u8]) -> Option<u32> {
        self.queues.find(hash(entry, queue), |it| it.entry == entry && it.name.as_bytes() == queue)
    }

    pub(crate) fn find_lane(&self, queue: u32, action: &[u8]) -> Option<u32> {
        self.lanes.find(hash(queue, action), |it| it.queue == queue && it.action() == action)
    }

    /// A lane, made if it is new, if need be in place of one without slots; `None`: no place is
    /// left.
    pub(crate) fn find_or_add_lane(&mut self, entry: u32, name: LaneName) -> Option<u32> {
        let queue = self.find_queue(entry, name.queue);
        if let Some(lane) = queue.and_then(|queue| self.find_lane(queue, name.action)) {
            return Some(lane);
        }
        if self.lanes.is_full() {
            self.spill_lane()?;
        }
        // Spilling may have freed the queue that was found.
        let queue = match self.find_queue(entry, name.queue) {
            Some(queue) => queue,
            None => self.add_queue(entry, name.queue)?,
        };
        let lane_id = self.next_generation();
        let lane = self.lanes.add(
            hash(queue, name.action),
            Lane {
                cursor: Rank::END,
                left_to_table: Rank::END,
                chain: Chain::NONE,
                by_front: TreapLinks::NONE,
                by_length: TreapLinks::NONE,
                queue,
                root: NIL,
                first: NIL,
                counts: LaneCounts { queued: 0, slots: 0 },
                wakes: LaneWakes::NONE,
                refiller: 0,
                lane_id,
                used: true,
                action: Name::new(name.action),
            },
        )?;
        if self.queues[queue].lanes == 0 && self.queues[queue].to_announce {
            self.globals.parked -= 1;
        }
        self.queues[queue].lanes += 1;
        self.link_length(lane);
        Some(lane)
    }

    fn add_queue(&mut self, entry: u32, name: &[u8]) -> Option<u32> {
        self.queues.add(
            hash(entry, name),
            Queue {
                chain: Chain::NONE,
                entry,
                fronts: NIL,
                lanes: 0,
                link: Link::NONE,
                to_announce: false,
                name: Name::new(name),
            },
        )
    }

    /// Forgets a lane that has no slots, to make room for another: its tasks are left to the table.
    pub(crate) fn spill_lane(&mut self) -> Option<()> {
        let lengths = self.globals.lengths;
        let lane = treap::first(&mut ByLength(self), lengths)?;
        if self.lanes[lane].counts.slots > 0 || self.lanes[lane].refiller != 0 {
            return None;
        }
        let entry = self.queues[self.lanes[lane].queue].entry;
        self.entry_mut(entry).lanes_spilled += 1;
        self.forget_lane(lane);
        Some(())
    }

    /// Frees a lane that nothing refers to and that the table has nothing for.
    pub(crate) fn release_lane(&mut self, lane: u32) {
        let it = &self.lanes[lane];
        if it.counts.slots == 0 && it.cursor == Rank::END && it.refiller == 0 {
            self.forget_lane(lane);
        }
    }

    /// Frees a lane that has no slots.
    pub(crate) fn forget_lane(&mut self, lane: u32) {
        if self.lanes[lane].counts.slots > 0 {
            return;
        }
        self.unlink_front(lane);
        self.unlink_length(lane);
        self.forget_wakes(lane);
        let queue = self.lanes[lane].queue;
        self.lanes[lane].used = false;
        self.lanes.free(lane);
        self.queues[queue].lanes -= 1;
        if self.queues[queue].lanes == 0 {
            self.release_queue(queue);
        }
    }

    /// Queues a slot that is in no tree.
    pub(crate) fn enqueue(&mut self, at: u32) {
        let (lane, rank) = (self.slots[at].lane, self.slots[at].rank());
        self.slots[at].state = State::Queued;
        let leads = rank < self.front(lane);
        if leads {
            self.unlink_front(lane);
        }
        let root = self.lanes[lane].root;
        self.lanes[lane].root = treap::insert(&mut ByRank(self), root, at);
        let first = self.lanes[lane].first;
        if first == NIL || rank < self.slots[first].rank() {
            self.lanes[lane].first = at;
        }
        self.change_counts(lane, 1, 0);
        if leads {
            self.link_front(lane);
        }
    }

    /// Takes a queued slot out of its lane's order; the caller gives it its next state.
    pub(crate) fn dequeue(&mut self, at: u32) {
        let lane = self.slots[at].lane;
        let leads = self.lanes[lane].first == at;
        if leads {
            self.unlink_front(lane);
        }
        let root = self.lanes[lane].root;
        let root = treap::remove(&mut ByRank(self), root, at);
        self.lanes[lane].root = root;
        if leads {
            let first = treap::first(&mut ByRank(self), root);
            self.lanes[lane].first = first.unwrap_or(NIL);
        }
        self.change_counts(lane, -1, 0);
        if leads {
            self.link_front(lane);
        }
    }

    /// Counts a slot of the lane that was freed.
    pub(crate) fn note_slot_freed(&mut self, lane: u32) {
        self.change_counts(lane, 0, -1);
        self.release_lane(lane);
    }

    /// The rank of the lane's next task, or the lowest that a task in the table may have.
    /// `Rank::END`: the lane has nothing.
    pub(crate) fn front(&self, lane: u32) -> Rank {
        let it = &self.lanes[lane];
        match it.first {
            NIL => it.cursor,
            first => it.cursor.min(self.slots[first].rank()),
        }
    }

    /// The queue's lane with the best front.
    pub(crate) fn best_lane(&mut self, queue: u32) -> Option<u32> {
        let root = self.queues[queue].fronts;
        treap::first(&mut ByFront(self), root)
    }

    /// Puts a lane into its queue's tree, if it has something.
    pub(crate) fn link_front(&mut self, lane: u32) {
        if self.front(lane) != Rank::END {
            let queue = self.lanes[lane].queue;
            let root = self.queues[queue].fronts;
            self.queues[queue].fronts = treap::insert(&mut ByFront(self), root, lane);
        }
    }

    /// Takes a lane out of its queue's tree, before its front changes.
    pub(crate) fn unlink_front(&mut self, lane: u32) {
        if self.front(lane) != Rank::END {
            let queue = self.lanes[lane].queue;
            let root = self.queues[queue].fronts;
            self.queues[queue].fronts = treap::remove(&mut ByFront(self), root, lane);
        }
    }

    /// Changes the lane's counts of queued slots and of slots in all.
    pub(crate) fn change_counts(&mut self, lane: u32, queued: i32, slots: i32) {
        let before = self.lanes[lane].length();
        let mut after = self.lanes[lane].counts;
        after.queued = after.queued.wrapping_add_signed(queued);
        after.slots = after.slots.wrapping_add_signed(slots);
        if after.length(self.lanes[lane].refiller != 0) == before {
            self.lanes[lane].counts = after;
        } else {
            self.unlink_length(lane);
            self.lanes[lane].counts = after;
            self.link_length(lane);
        }
    }

    pub(crate) fn longest_lane(&mut self) -> Option<u32> {
        let lengths = self.globals.lengths;
        treap::last(&mut ByLength(self), lengths)
    }

    /// Puts a lane into the tree of all lanes.
    pub(crate) fn link_length(&mut self, lane: u32) {
        let lengths = self.globals.lengths;
        self.globals.lengths = treap::insert(&mut ByLength(self), lengths, lane);
    }

    /// Takes a lane out of the tree of all lanes, before its length changes.
    pub(crate) fn unlink_length(&mut self, lane: u32) {
        let lengths = self.globals.lengths;
        self.globals.lengths = treap::remove(&mut ByLength(self), lengths, lane);
    }
}

/// The queued slots of a lane, best rank first.
pub(crate) struct ByRank<'b, 'a>(pub(crate) &'b mut Board<'a>);

impl TreapNodes for ByRank<'_, '_> {
    fn seed(&self) -> u32 {
        self.0.globals.seed
    }
    fn links(&mut self, slot: u32) -> &mut TreapLinks {
        &mut self.0.slots[slot].links
    }
    fn before(&self, a: u32, b: u32) -> bool {
        self.0.slots[a].rank() < self.0.slots[b].rank()
    }
}

/// The lanes of a queue that have something, best front first.
pub(crate) struct ByFront<'b, 'a>(pub(crate) &'b mut Board<'a>);

impl TreapNodes for ByFront<'_, '_> {
    fn seed(&self) -> u32 {
        self.0.globals.seed
    }
    fn links(&mut self, lane: u32) -> &mut TreapLinks {
        &mut self.0.lanes[lane].by_front
    }
    fn before(&self, a: u32, b: u32) -> bool {
        (self.0.front(a), a) < (self.0.front(b), b)
    }
}

/// All lanes, the longest last.
pub(crate) struct ByLength<'b, 'a>(pub(crate) &'b mut Board<'a>);

impl TreapNodes for ByLength<'_, '_> {
    fn seed(&self) -> u32 {
        self.0.globals.seed
    }
    fn links(&mut self, lane: u32) -> &mut TreapLinks {
        &mut self.0.lanes[lane].by_length
    }
    fn before(&self, a: u32, b: u32) -> bool {
        (self.0.lanes[a].length(), a) < (self.0.lanes[b].length(), b)
    }
}
