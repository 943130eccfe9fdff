//! The ready order: lanes, and the trees that they are in (I4).
//!
//! A queue's lanes are on the board as long as there is room for all of them. When a lane finds no
//! place, or gives way to another queue's lane, the board no longer covers the queue. Callers then
//! search the table. The queue's lanes stay until they give way, too. A survey brings them back
//! once there is room.

use crate::board::Board;
use crate::containers::hash::{hash, mix};
use crate::containers::list::{self, ListNodes};
use crate::containers::pool::Pool;
use crate::containers::treap::{self, TreapNodes};
use crate::layout::lane::{Lane, LaneCounts, LaneTurns, LaneWakes, Order, WakeState};
use crate::layout::names::{LaneName, Name};
use crate::layout::nodes::{Link, NIL, TreapLinks};
use crate::layout::queue::Coverage;
use crate::layout::rank::Rank;
use crate::layout::slot::State;

/// How many idle lanes are looked at to find the one that gives way (I8).
const SPILL_TRIES: u32 = 8;

/// Whether a lane is needed at all costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// To keep ready tasks, which the table has, too: no larger queue gives way for it, none
    /// smaller.
    Cache,
    /// For a slot that is to be pinned: its number is limited by that of the slots.
    Held,
}

fn lane_hash(queue: u32, action: &[u8], order: Order, group: u32) -> u32 {
    let order = match order {
        Order::Priority => 0,
        Order::Level(priority) => mix(priority),
    };
    hash(queue ^ order ^ group.wrapping_add(1).rotate_left(16), action)
}

impl Board<'_> {
    /// Whether there is a lane at an index.
    pub(crate) fn is_lane(&self, lane: u32) -> bool {
        // A lane that `clear` made unused still has the fields that it had.
        lane < self.lanes.end() && self.lanes[lane].used
    }

    /// The head of an action's lanes.
    pub(crate) fn find_head(&self, queue: u32, action: &[u8], order: Order) -> Option<u32> {
        self.find_lane(queue, action, order, NIL)
    }

    /// The lane of a group by its index, or of the tasks without one.
    pub(crate) fn find_lane(
        &self,
        queue: u32,
        action: &[u8],
        order: Order,
        group: u32,
    ) -> Option<u32> {
        self.lanes.find(lane_hash(queue, action, order, group), |it| {
            it.queue == queue
                && it.order == order
                && it.turns.group == group
                && it.action() == action
        })
    }

    pub(crate) fn find_lane_named(&self, queue: u32, name: LaneName, priority: u32) -> Option<u32> {
        let group = match name.group {
            None => NIL,
            Some(group) => self.find_group(queue, group)?,
        };
        self.find_lane(queue, name.action, self.order(queue, priority), group)
    }

    /// The lane of tasks of a priority, made if it is new, if need be in place of an idle one;
    /// `None`: no place is left, so the board does not cover the queue.
    pub(crate) fn find_or_add_lane(
        &mut self,
        entry: u32,
        name: LaneName,
        priority: u32,
    ) -> Option<u32> {
        if let Some(queue) = self.find_queue(entry, name.queue)
            && let Some(lane) = self.find_lane_named(queue, name, priority)
        {
            return Some(lane);
        }
        let lane = self.add_lane_named(entry, name, priority);
        if lane.is_none() {
            self.note_uncovered(entry, name.queue);
        }
        lane
    }

    fn add_lane_named(&mut self, entry: u32, name: LaneName, priority: u32) -> Option<u32> {
        let head = self.find_or_add_head(entry, name.queue, name.action, priority, Need::Cache)?;
        let Some(hash) = name.group else { return Some(head) };
        // It stays from now on.
        self.change_lanes_below(head, 1);
        let own = self.queues[self.lanes[head].queue].lanes;
        let lane = self.make_room_for_lane(entry, own, Need::Cache);
        let lane = lane.and_then(|()| {
            let Lane { queue, action, order, .. } = self.lanes[head];
            let group = self.find_or_add_group(queue, hash)?;
            self.add_lane(entry, queue, action.as_bytes(), order, group, head)
        });
        if lane.is_none() {
            self.change_lanes_below(head, -1);
            self.release_lane(head);
        }
        lane
    }

    /// The head of the lanes of an action, and of a priority in a queue that ages.
    pub(crate) fn find_or_add_head(
        &mut self,
        entry: u32,
        name: &[u8],
        action: &[u8],
        priority: u32,
        need: Need,
    ) -> Option<u32> {
        // Kept while another lane gives way, which may have been its last one.
        let queue = self.find_or_add_queue(entry, name)?;
        if let Some(head) = self.find_head(queue, action, self.order(queue, priority)) {
            return Some(head);
        }
        let own = self.queues[queue].lanes;
        self.change_need(queue, |it| it.lanes += 1);
        let room = self.make_room_for_lane(entry, own, need);
        let head = room.and_then(|()| {
            self.add_lane(entry, queue, action, self.order(queue, priority), NIL, NIL)
        });
        self.change_need(queue, |it| it.lanes -= 1);
        head
    }

    fn add_lane(
        &mut self,
        entry: u32,
        queue: u32,
        action: &[u8],
        order: Order,
        group: u32,
        head: u32,
    ) -> Option<u32> {
        let turns = LaneTurns { group, head, ..LaneTurns::NONE };
        let lane_id = self.next_generation();
        let lane = self.lanes.add(
            lane_hash(queue, action, order, group),
            Lane {
                cursor: Rank::END,
                cursor_since: Rank::END.created,
                left_to_table: Rank::END,
                by_front: TreapLinks::NONE,
                by_length: TreapLinks::NONE,
                idle_link: Link::NONE,
                queue,
                root: NIL,
                first: NIL,
                counts: LaneCounts { queued: 0, slots: 0 },
                turns,
                wakes: LaneWakes::NONE,
                refiller: 0,
                lane_id,
                used: true,
                order,
                action: Name::new(action),
            },
        )?;
        self.change_need(queue, |it| it.lanes += 1);
        self.join_group(lane);
        // While the group had no lane its limit may have changed.
        self.park_or_unpark(queue, group);
        self.link_length(lane);
        self.push_idle(entry, lane);
        Some(lane)
    }

    /// Spills an idle lane if there is no room for another one of a queue that has `own`: of the
    /// database that has the most idle ones, the first of a queue that the board does not cover,
    /// else one of the queue that has the most. `None`: no lane gives way.
    fn make_room_for_lane(&mut self, entry: u32, own: u32, need: Need) -> Option<()> {
        if !self.lanes.is_full() {
            return Some(());
        }
        let victim = self.most_idle(entry)?;
        let (mut lane, mut best) = (self.entry(victim).idle.first, None);
        for _ in 0..SPILL_TRIES {
            if lane == NIL {
                break;
            }
            let Lane { queue, idle_link, .. } = self.lanes[lane];
            let it = &self.queues[queue];
            let size = if it.coverage == Coverage::Partial { u32::MAX } else { it.lanes };
            if best.is_none_or(|(most, _)| size > most) {
                best = Some((size, lane));
            }
            lane = idle_link.next;
        }
        let (size, lane) = best?;
        (need == Need::Held || size > own).then(|| self.spill_lane(lane))
    }

    /// The database that has the most idle lanes; if others have as many, `entry`.
    fn most_idle(&self, entry: u32) -> Option<u32> {
        let idle = |it: &u32| (self.entry(*it).idle_len, *it == entry);
        (0..self.registered().len() as u32).max_by_key(idle)
    }

    /// Leaves all tasks of an idle lane to the table, and frees the lane.
    fn spill_lane(&mut self, lane: u32) {
        let queue = self.lanes[lane].queue;
        self.set_coverage(queue, Coverage::Partial);
        let Lane { wakes, action, .. } = self.lanes[lane];
        self.drop_queued(lane, u32::MAX);
        if self.is_lane(lane) {
            self.forget_lane(lane);
        }
        if wakes.state != WakeState::Idle {
            self.wake_beside_lanes(queue, Some(action.as_bytes()));
        }
    }

    /// Drops at most so many queued slots of a lane of a queue that the board does not cover;
    /// returns how many it dropped.
    fn drop_queued(&mut self, lane: u32, most: u32) -> u32 {
        // An incomplete lane stays until it is forgotten.
        self.leave_to_table(lane, self.first_rank(lane));
        let mut dropped = 0;
        // With its last slot an outdated lane goes.
        while self.is_lane(lane) && self.lanes[lane].first != NIL && dropped < most {
            self.drop_slot(self.lanes[lane].first);
            dropped += 1;
        }
        dropped
    }

    /// Frees the lanes, among `count` indexes from `from` on, of queues that the board does not
    /// cover, as far as they can go. Returns where to go on, or `None` at the end. Slots with a
    /// valid token go only if `all` are to.
    pub fn shed_lanes(&mut self, entry: u32, from: u32, count: u32, all: bool) -> Option<u32> {
        let mut left = count;
        let to = self.lanes.end();
        for lane in from..to {
            if left == 0 {
                return Some(lane);
            }
            left -= 1;
            let is_meant = self.is_lane(lane) && {
                let it = &self.queues[self.lanes[lane].queue];
                it.entry == entry && it.coverage == Coverage::Partial
            };
            if !is_meant || self.lanes[lane].refiller != 0 {
                continue;
            }
            let (first, turns) = (self.lanes[lane].first, self.lanes[lane].turns);
            if !all && first != NIL && self.slots[first].has_token() && turns.head == NIL {
                // A look at each slot would take too long: those behind it wait as well.
                continue;
            }
            left -= self.drop_queued(lane, left);
            if self.is_lane(lane) {
                if self.lanes[lane].first != NIL {
                    return Some(lane);
                }
                self.forget_lane(lane);
            }
        }
        None
    }

    /// Frees a lane that nothing refers to and that the table has nothing for, or whose tasks
    /// belong in others by now.
    pub(crate) fn release_lane(&mut self, lane: u32) {
        let it = &self.lanes[lane];
        let is_over = it.cursor == Rank::END || self.is_outdated(lane);
        if is_over && it.counts.slots == 0 && it.refiller == 0 {
            self.forget_lane(lane);
        }
    }

    /// Frees a lane that has no slots and is no other lane's head; then its head, if nothing needs
    /// that any more.
    pub(crate) fn forget_lane(&mut self, lane: u32) {
        if self.lanes[lane].counts.slots > 0 || self.lanes[lane].turns.lanes > 0 {
            return;
        }
        self.unlink_front(lane);
        self.unlink_length(lane);
        self.forget_wakes(lane);
        let queue = self.lanes[lane].queue;
        if self.lanes[lane].is_idle() {
            self.remove_idle(lane);
        }
        let head = self.leave_group(lane);
        self.lanes[lane].used = false;
        self.lanes.free(lane);
        self.change_need(queue, |it| it.lanes -= 1);
        match head {
            Some(head)
                if self.queues[queue].coverage == Coverage::Partial
                    && self.lanes[head].refiller == 0
                    && self.lanes[head].first == NIL =>
            {
                self.forget_lane(head);
            }
            Some(head) => self.release_lane(head),
            None => {}
        }
    }

    /// Queues a slot that is in no tree.
    pub(crate) fn enqueue(&mut self, at: u32) {
        let (lane, rank) = (self.slots[at].lane, self.slots[at].rank());
        self.set_state(at, State::Queued);
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

    /// Takes a queued slot out of its lane's order; the caller gives it its next state. From now on
    /// it needs the head only: the lane may go while the slot is pinned.
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
        self.move_slot(at, self.head_of(lane));
    }

    /// Makes a slot that is in no lane's order one of another lane.
    pub(crate) fn move_slot(&mut self, at: u32, to: u32) {
        let from = std::mem::replace(&mut self.slots[at].lane, to);
        if from != to {
            self.change_counts(to, 0, 1);
            self.note_slot_freed(from);
        }
    }

    /// Counts a slot of the lane that was freed, or has moved.
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

    /// As `front`, of the lane that tasks of a priority are in, if there is one.
    pub fn front_of(&self, entry: u32, name: LaneName, priority: u32) -> Option<Rank> {
        let queue = self.find_queue(entry, name.queue)?;
        self.find_lane_named(queue, name, priority).map(|lane| self.front(lane))
    }

    /// The queue's head with the next task.
    pub(crate) fn best_head(&mut self, queue: u32) -> Option<u32> {
        let root = self.queues[queue].fronts;
        treap::first(&mut ByFront(self), root)
    }

    /// Puts a lane into its trees, if it has something.
    pub(crate) fn link_front(&mut self, lane: u32) {
        let head = self.head_of(lane);
        if head != lane && self.is_listed(lane) {
            self.unlink_head(head);
            self.link_turn(lane);
            self.link_head(head);
        } else if head == lane {
            self.link_head(head);
        }
    }

    /// Takes a lane out of its trees, before its front changes.
    pub(crate) fn unlink_front(&mut self, lane: u32) {
        let head = self.head_of(lane);
        if head != lane && self.is_listed(lane) {
            self.unlink_head(head);
            self.unlink_turn(lane);
            self.link_head(head);
        } else if head == lane {
            self.unlink_head(head);
        }
    }

    pub(crate) fn link_head(&mut self, head: u32) {
        if self.has_next(head) {
            let queue = self.lanes[head].queue;
            let root = self.queues[queue].fronts;
            self.queues[queue].fronts = treap::insert(&mut ByFront(self), root, head);
        }
    }

    pub(crate) fn unlink_head(&mut self, head: u32) {
        if self.has_next(head) {
            let queue = self.lanes[head].queue;
            let root = self.queues[queue].fronts;
            self.queues[queue].fronts = treap::remove(&mut ByFront(self), root, head);
        }
    }

    /// Changes the lane's counts of queued slots and of slots in all.
    pub(crate) fn change_counts(&mut self, lane: u32, queued: i32, slots: i32) {
        let queue = &mut self.queues[self.lanes[lane].queue];
        queue.queued = queue.queued.wrapping_add_signed(queued);
        let mut counts = self.lanes[lane].counts;
        counts.queued = counts.queued.wrapping_add_signed(queued);
        counts.slots = counts.slots.wrapping_add_signed(slots);
        let head = self.lanes[lane].turns.head;
        if head != NIL {
            let below = &mut self.lanes[head].turns.queued;
            *below = below.wrapping_add_signed(queued);
        }
        self.change(lane, counts, self.lanes[lane].refiller);
    }

    /// Changes the fields of a lane that its length and its idleness depend on.
    pub(crate) fn change(&mut self, lane: u32, counts: LaneCounts, refiller: i32) {
        let it = &self.lanes[lane];
        let (before, was_idle) = (it.counts, it.is_idle());
        let moves = counts.queued != before.queued;
        if moves {
            self.unlink_length(lane);
        }
        let it = &mut self.lanes[lane];
        (it.counts, it.refiller) = (counts, refiller);
        let (is_idle, queue) = (it.is_idle(), it.queue);
        if moves {
            self.link_length(lane);
        }
        let entry = self.entry_mut(self.queues[queue].entry);
        entry.pinned = entry.pinned + counts.pinned() - before.pinned();
        if was_idle != is_idle {
            self.note_idleness(lane, was_idle);
        }
    }

    /// Notes that a lane may have become idle, or ceased to be.
    pub(crate) fn note_idleness(&mut self, lane: u32, was_idle: bool) {
        match (was_idle, self.lanes[lane].is_idle()) {
            (true, false) => self.remove_idle(lane),
            (false, true) => self.push_idle(self.queues[self.lanes[lane].queue].entry, lane),
            _ => {}
        }
    }

    /// Adds a lane to the end of its database's list of idle ones.
    fn push_idle(&mut self, entry: u32, lane: u32) {
        let entry = &mut self.globals.entries[entry as usize];
        entry.idle_len += 1;
        list::push(&mut Idle(&mut self.lanes), &mut entry.idle, lane);
    }

    /// Takes a lane out of its database's list of idle ones.
    fn remove_idle(&mut self, lane: u32) {
        let entry = self.queues[self.lanes[lane].queue].entry;
        let entry = &mut self.globals.entries[entry as usize];
        entry.idle_len -= 1;
        list::remove(&mut Idle(&mut self.lanes), &mut entry.idle, lane);
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

/// The lanes, as their databases' lists of idle ones link them.
pub(crate) struct Idle<'p, 'a>(pub(crate) &'p mut Pool<'a, Lane>);

impl ListNodes for Idle<'_, '_> {
    fn link(&mut self, lane: u32) -> &mut Link {
        &mut self.0[lane].idle_link
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

/// The heads of a queue that have something, the one with the next task first.
pub(crate) struct ByFront<'b, 'a>(pub(crate) &'b mut Board<'a>);

impl TreapNodes for ByFront<'_, '_> {
    fn seed(&self) -> u32 {
        self.0.globals.seed
    }
    fn links(&mut self, lane: u32) -> &mut TreapLinks {
        &mut self.0.lanes[lane].by_front
    }
    fn before(&self, a: u32, b: u32) -> bool {
        self.0.is_head_before(a, b)
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
        (self.0.lanes[a].counts.queued, a) < (self.0.lanes[b].counts.queued, b)
    }
}
