//! The ready order: lanes, and the trees that they stand in (I4).
//!
//! A lane's `cursor` splits its tasks: each ready task that ranks before it is on the board; what
//! ranks at or behind it may be known to the table only. A complete lane's cursor is `Rank::END`.

use crate::board::Board;
use crate::board::notify::NotifyState;
use crate::containers::list::Link;
use crate::containers::pool::{Chain, NIL, Node};
use crate::containers::treap::{self, Links, TreapNodes};
use crate::layout::names::{ACTION_MAX, Name, QUEUE_MAX, hash};
use crate::layout::rank::Rank;
use crate::layout::slot::State;

/// A queue's name and an action's, with their hashes.
#[derive(Clone, Copy, Debug)]
pub struct LaneName<'a> {
    pub queue: &'a [u8],
    pub action: &'a [u8],
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Queue {
    pub(crate) chain: Chain,
    pub(crate) entry: u32,
    /// The tree of lanes that have something, the one with the best front first.
    pub(crate) fronts: u32,
    pub(crate) lanes: u32,
    /// In the entry's list of queues with news.
    pub(crate) link: Link,
    pub(crate) news: NotifyState,
    pub(crate) name: Name<QUEUE_MAX>,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Lane {
    pub(crate) cursor: Rank,
    /// The lowest rank that was left to the table since the refill under way began.
    pub(crate) left: Rank,
    pub(crate) chain: Chain,
    by_front: Links,
    by_length: Links,
    pub(crate) queue: u32,
    /// The tree of queued slots, and its first.
    pub(crate) root: u32,
    pub(crate) first: u32,
    pub(crate) counts: Counts,
    /// The process that refills the lane; 0: nobody.
    pub(crate) refiller: i32,
    /// A number that no other lane bore, even at the same place.
    pub(crate) lane_id: u32,
    pub(crate) used: bool,
    action: Name<ACTION_MAX>,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Counts {
    pub(crate) queued: u32,
    /// Slots of this lane, whatever their state.
    pub(crate) slots: u32,
}

impl Counts {
    /// How a lane sorts among all by length: the longest is last, one that could go is first.
    fn length(self, refilled: bool) -> (u32, u32) {
        (self.queued, if self.queued == 0 { self.slots + u32::from(refilled) } else { 0 })
    }
}

impl Lane {
    pub fn is_used(&self) -> bool {
        self.used
    }

    pub fn action(&self) -> &[u8] {
        self.action.as_bytes()
    }

    fn length(&self) -> (u32, u32) {
        self.counts.length(self.refiller != 0)
    }
}

impl Board<'_> {
    /// A place that `clear` made unused still holds what stood there.
    pub(crate) fn is_lane(&self, lane: u32) -> bool {
        lane < self.lanes.used() && self.lanes[lane].used
    }

    pub(crate) fn find_queue(&self, entry: u32, queue: &[u8]) -> Option<u32> {
        self.queues.find(hash(entry, queue), |it| it.entry == entry && it.name.as_bytes() == queue)
    }

    pub(crate) fn find_lane(&self, queue: u32, action: &[u8]) -> Option<u32> {
        self.lanes.find(hash(queue, action), |it| it.queue == queue && it.action() == action)
    }

    pub(crate) fn lane(&mut self, entry: u32, name: LaneName) -> Option<u32> {
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
            None => self.queues.add(
                hash(entry, name.queue),
                Queue {
                    chain: Chain::NONE,
                    entry,
                    fronts: NIL,
                    lanes: 0,
                    link: Link::NONE,
                    news: NotifyState::Idle,
                    name: Name::new(name.queue),
                },
            )?,
        };
        let lane_id = self.next_generation();
        let lane = self.lanes.add(
            hash(queue, name.action),
            Lane {
                cursor: Rank::END,
                left: Rank::END,
                chain: Chain::NONE,
                by_front: Links::NONE,
                by_length: Links::NONE,
                queue,
                root: NIL,
                first: NIL,
                counts: Counts { queued: 0, slots: 0 },
                refiller: 0,
                lane_id,
                used: true,
                action: Name::new(name.action),
            },
        )?;
        if self.queues[queue].lanes == 0 && self.queues[queue].news != NotifyState::Idle {
            self.head.parked -= 1;
        }
        self.queues[queue].lanes += 1;
        self.measure(lane);
        Some(lane)
    }

    /// Forgets a lane that has no slots, to make room for another: its tasks are left to the table.
    pub(crate) fn spill_lane(&mut self) -> Option<()> {
        let lengths = self.head.lengths;
        let lane = treap::first(&mut ByLength(self), lengths);
        if lane == NIL || self.lanes[lane].counts.slots > 0 || self.lanes[lane].refiller != 0 {
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

    pub(crate) fn forget_lane(&mut self, lane: u32) {
        if self.lanes[lane].counts.slots > 0 {
            return;
        }
        self.unlist(lane);
        self.unmeasure(lane);
        let queue = self.lanes[lane].queue;
        self.lanes[lane].used = false;
        self.lanes.free(lane);
        self.queues[queue].lanes -= 1;
        if self.queues[queue].lanes == 0 {
            self.release_queue(queue);
        }
    }

    /// Queues a slot that stands in no tree.
    pub(crate) fn enqueue(&mut self, at: u32) {
        let (lane, rank) = (self.slots[at].lane, self.slots[at].rank());
        self.slots[at].state = State::Queued;
        let leads = rank < self.front(lane);
        if leads {
            self.unlist(lane);
        }
        let root = self.lanes[lane].root;
        self.lanes[lane].root = treap::insert(&mut ByRank(self), root, at);
        let first = self.lanes[lane].first;
        if first == NIL || rank < self.slots[first].rank() {
            self.lanes[lane].first = at;
        }
        self.resize(lane, 1, 0);
        if leads {
            self.list(lane);
        }
    }

    /// Takes a queued slot out of its lane's order; the caller gives it its next state.
    pub(crate) fn dequeue(&mut self, at: u32) {
        let lane = self.slots[at].lane;
        let leads = self.lanes[lane].first == at;
        if leads {
            self.unlist(lane);
        }
        let root = self.lanes[lane].root;
        let root = treap::remove(&mut ByRank(self), root, at);
        self.lanes[lane].root = root;
        if leads {
            let first = treap::first(&mut ByRank(self), root);
            self.lanes[lane].first = first;
        }
        self.resize(lane, -1, 0);
        if leads {
            self.list(lane);
        }
    }

    /// One slot of the lane is gone.
    pub(crate) fn shrink(&mut self, lane: u32) {
        self.resize(lane, 0, -1);
        self.release_lane(lane);
    }

    /// The rank of the lane's next task, on the board or, at the best, in the table.
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
        Some(treap::first(&mut ByFront(self), root)).filter(|lane| *lane != NIL)
    }

    /// Lanes with nothing to offer stand in no queue's tree.
    pub(crate) fn list(&mut self, lane: u32) {
        if self.front(lane) != Rank::END {
            let queue = self.lanes[lane].queue;
            let root = self.queues[queue].fronts;
            self.queues[queue].fronts = treap::insert(&mut ByFront(self), root, lane);
        }
    }

    pub(crate) fn unlist(&mut self, lane: u32) {
        if self.front(lane) != Rank::END {
            let queue = self.lanes[lane].queue;
            let root = self.queues[queue].fronts;
            self.queues[queue].fronts = treap::remove(&mut ByFront(self), root, lane);
        }
    }

    /// Changes the lane's counts of queued slots and of slots in all.
    pub(crate) fn resize(&mut self, lane: u32, queued: i32, slots: i32) {
        let before = self.lanes[lane].length();
        let mut after = self.lanes[lane].counts;
        after.queued = after.queued.wrapping_add_signed(queued);
        after.slots = after.slots.wrapping_add_signed(slots);
        if after.length(self.lanes[lane].refiller != 0) == before {
            self.lanes[lane].counts = after;
        } else {
            self.unmeasure(lane);
            self.lanes[lane].counts = after;
            self.measure(lane);
        }
    }

    pub(crate) fn longest_lane(&mut self) -> Option<u32> {
        let lengths = self.head.lengths;
        Some(treap::last(&mut ByLength(self), lengths)).filter(|lane| *lane != NIL)
    }

    pub(crate) fn measure(&mut self, lane: u32) {
        let lengths = self.head.lengths;
        self.head.lengths = treap::insert(&mut ByLength(self), lengths, lane);
    }

    pub(crate) fn unmeasure(&mut self, lane: u32) {
        let lengths = self.head.lengths;
        self.head.lengths = treap::remove(&mut ByLength(self), lengths, lane);
    }
}

pub(crate) struct ByRank<'b, 'a>(pub(crate) &'b mut Board<'a>);

impl TreapNodes for ByRank<'_, '_> {
    fn seed(&self) -> u32 {
        self.0.head.seed
    }
    fn links(&mut self, slot: u32) -> &mut Links {
        &mut self.0.slots[slot].links
    }
    fn before(&self, a: u32, b: u32) -> bool {
        self.0.slots[a].rank() < self.0.slots[b].rank()
    }
}

pub(crate) struct ByFront<'b, 'a>(pub(crate) &'b mut Board<'a>);

impl TreapNodes for ByFront<'_, '_> {
    fn seed(&self) -> u32 {
        self.0.head.seed
    }
    fn links(&mut self, lane: u32) -> &mut Links {
        &mut self.0.lanes[lane].by_front
    }
    fn before(&self, a: u32, b: u32) -> bool {
        (self.0.front(a), a) < (self.0.front(b), b)
    }
}

pub(crate) struct ByLength<'b, 'a>(pub(crate) &'b mut Board<'a>);

impl TreapNodes for ByLength<'_, '_> {
    fn seed(&self) -> u32 {
        self.0.head.seed
    }
    fn links(&mut self, lane: u32) -> &mut Links {
        &mut self.0.lanes[lane].by_length
    }
    fn before(&self, a: u32, b: u32) -> bool {
        (self.0.lanes[a].length(), a) < (self.0.lanes[b].length(), b)
    }
}

impl Node for Lane {
    fn chain(&mut self) -> &mut Chain {
        &mut self.chain
    }
    fn chain_ref(&self) -> &Chain {
        &self.chain
    }
}

impl Node for Queue {
    fn chain(&mut self) -> &mut Chain {
        &mut self.chain
    }
    fn chain_ref(&self) -> &Chain {
        &self.chain
    }
}
