//! The ready order: lanes, and the trees that they are in (I4).

use crate::board::Board;
use crate::containers::hash::{hash, mix};
use crate::containers::list::{self, ListNodes};
use crate::containers::pool::Pool;
use crate::containers::treap::{self, TreapNodes};
use crate::layout::lane::{
    AtCursor, Lane, LaneCounts, LaneTurns, LaneWakes, Order, Pass, Spot, WakeState,
};
use crate::layout::names::{GroupHash, LaneName, Name};
use crate::layout::nodes::{Chain, Link, NIL, TreapLinks};
use crate::layout::queue::Queue;
use crate::layout::rank::Rank;
use crate::layout::slot::State;
use crate::layout::waiter::ActionFilter;

/// The most queued slots that a lane may have to be spilled (I8), and how many lanes are tried to
/// find one that has no more. The board has four slots per lane.
const SPILLED_SLOTS_MAX: u32 = 16;
const SPILL_TRIES: u32 = 8;

fn lane_hash(queue: u32, action: &[u8], order: Order, group: u32) -> u32 {
    let order = match order {
        Order::Priority => 0,
        Order::Level(priority) => mix(priority),
        Order::Line => mix(NIL),
        Order::Head => mix(NIL - 1),
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
        match self.order(queue, priority) {
            Order::Line => self.find_lane(queue, b"", Order::Line, group),
            order => self.find_lane(queue, name.action, order, group),
        }
    }

    /// Where a task of a priority belongs. As `find_or_add_lane`.
    pub(crate) fn find_or_add_spot(
        &mut self,
        entry: u32,
        name: LaneName,
        priority: u32,
    ) -> Option<Spot> {
        match self.find_queue(entry, name.queue) {
            Some(queue) if self.keeps_order(queue) => self.find_or_add_in_line(entry, queue, name),
            _ => {
                let lane = self.find_or_add_lane(entry, name, priority)?;
                Some(Spot { lane, head: NIL })
            }
        }
    }

    /// The lane of tasks of a priority, made if it is new, if need be in place of an idle one;
    /// `None`: no place is left.
    pub(crate) fn find_or_add_lane(
        &mut self,
        entry: u32,
        name: LaneName,
        priority: u32,
    ) -> Option<u32> {
        if let Some(queue) = self.find_queue(entry, name.queue) {
            if let Some(lane) = self.find_lane_named(queue, name, priority) {
                return Some(lane);
            }
            if self.keeps_order(queue) {
                return self.find_or_add_line(entry, queue, name);
            }
        }
        let Some(hash) = name.group else {
            if self.lanes.is_full() {
                self.make_room_for_lane(entry)?;
            }
            // Spilling may have freed the queue that was found.
            let queue = self.find_or_add_queue(entry, name.queue)?;
            let order = self.order(queue, priority);
            return self.add_lane(entry, queue, name.action, order, NIL, NIL);
        };
        let head = self.find_or_add_lane(entry, LaneName { group: None, ..name }, priority)?;
        let lane = self.add_lane_below(entry, head, hash)?;
        if self.lanes[head].pass.open {
            self.leave_to_table(lane, self.first_rank(lane));
        }
        Some(lane)
    }

    /// Makes a group's lane below its head; `None`: no place is left.
    pub(crate) fn add_lane_below(&mut self, entry: u32, head: u32, hash: GroupHash) -> Option<u32> {
        // It stays from now on.
        self.change_lanes_below(head, 1);
        let lane = if self.lanes.is_full() { self.make_room_for_lane(entry) } else { Some(()) };
        let lane = lane.and_then(|()| {
            let Lane { queue, action, order, .. } = self.lanes[head];
            let group = self.find_or_add_group(queue, hash)?;
            self.add_lane(entry, queue, action.as_bytes(), order, group, head)
        });
        if lane.is_none() {
            self.leave_group_to_table(head, hash);
            self.change_lanes_below(head, -1);
            self.release_lane(head);
        }
        lane
    }

    pub(crate) fn add_lane(
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
                chain: Chain::NONE,
                by_front: TreapLinks::NONE,
                by_length: TreapLinks::NONE,
                idle_link: Link::NONE,
                queue,
                root: NIL,
                first: NIL,
                counts: LaneCounts { queued: 0, slots: 0 },
                turns,
                pass: Pass::NONE,
                wakes: LaneWakes::NONE,
                refiller: 0,
                lane_id,
                used: true,
                order,
                at_cursor: AtCursor::Unread,
                cursor_priority: 0,
                action: Name::new(action),
            },
        )?;
        self.change_need(queue, |it| it.lanes += 1);
        self.join_group(lane);
        self.link_length(lane);
        self.entry_mut(entry).lanes += 1;
        self.push_idle(lane, false);
        Some(lane)
    }

    /// Spills an idle lane, so that `entry` can have another: of the database that has the most
    /// idle ones, the one that is idle longest. `None`: no lane can be spilled.
    pub(crate) fn make_room_for_lane(&mut self, entry: u32) -> Option<()> {
        let victim = self.most_idle(entry)?;
        // Without the lane of a pass its groups come after all that the board knows.
        let (mut last, mut last_of_all) = (None, None);
        for _ in 0..SPILL_TRIES {
            let lane = Some(self.entry(victim).idle.first).filter(|lane| *lane != NIL)?;
            if self.lanes[lane].counts.queued <= SPILLED_SLOTS_MAX {
                match self.keeps_turns_without(lane) {
                    _ if self.lanes[lane].pass.open => last_of_all = Some(lane),
                    Some(false) => last = Some(lane),
                    _ => {
                        self.spill_lane(lane);
                        return Some(());
                    }
                }
            }
            self.remove_idle(lane);
            self.push_idle(lane, false);
        }
        last.or(last_of_all).map(|lane| self.spill_lane(lane))
    }

    /// The database that has the most idle lanes; if others have as many, `entry`.
    pub(crate) fn most_idle(&self, entry: u32) -> Option<u32> {
        let idle = |it: &u32| (self.entry(*it).idle_len, *it == entry);
        (0..self.registered().len() as u32).max_by_key(idle)
    }

    /// The idle lane that would be the first to go for one of `entry`.
    pub(crate) fn first_to_go(&self, entry: u32) -> Option<u32> {
        let victim = self.most_idle(entry)?;
        Some(self.entry(victim).idle.first).filter(|lane| *lane != NIL)
    }

    /// Leaves all tasks of an idle lane to the table, and frees the lane.
    fn spill_lane(&mut self, lane: u32) {
        // An incomplete lane stays until it is forgotten.
        self.leave_to_table(lane, self.first_rank(lane));
        while self.lanes[lane].first != NIL {
            self.drop_slot(self.lanes[lane].first);
        }
        let Lane { queue, wakes, action, order, .. } = self.lanes[lane];
        let Queue { entry, name, chain, .. } = self.queues[queue];
        let group = self.group_of_lane(lane);
        let head = self.head_of(lane);
        if group.is_none_or(|group| !self.leave_group_to_table(head, group)) {
            self.note_spilled(entry);
        }
        self.forget_lane(lane);
        if wakes.state != WakeState::Idle && order == Order::Line {
            self.wake_without_lane(entry, chain.hash, ActionFilter::ANY);
        } else if wakes.state != WakeState::Idle {
            // That one finds the lane again, which goes on with waking.
            let lane = LaneName { queue: name.as_bytes(), action: action.as_bytes(), group: None };
            self.wake_for_table(entry, lane);
        }
    }

    /// Frees a lane that nothing refers to and that the table has nothing for.
    pub(crate) fn release_lane(&mut self, lane: u32) {
        let it = &self.lanes[lane];
        if it.counts.slots == 0 && it.cursor == Rank::END && it.refiller == 0 && !it.pass.open {
            self.forget_lane(lane);
        }
    }

    /// Frees a lane that has no slots and is no other lane's head; then its head, if nothing needs
    /// that any more.
    pub(crate) fn forget_lane(&mut self, lane: u32) {
        if self.lanes[lane].counts.slots > 0 || self.lanes[lane].turns.lanes > 0 {
            return;
        }
        self.close_pass(lane);
        self.unlink_front(lane);
        self.unlink_length(lane);
        self.forget_wakes(lane);
        let Lane { queue, at_cursor, .. } = self.lanes[lane];
        if self.lanes[lane].is_idle() {
            self.remove_idle(lane);
        }
        let entry = self.queues[queue].entry;
        self.entry_mut(entry).lanes -= 1;
        let head = self.leave_group(lane);
        self.lanes[lane].used = false;
        self.lanes.free(lane);
        if let AtCursor::Ready(head) = at_cursor {
            self.release_head(head);
        }
        self.change_need(queue, |it| it.lanes -= 1);
        if let Some(head) = head {
            self.forget_outdated(entry, head);
            if self.is_lane(head) {
                self.release_lane(head);
            }
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

    /// The head after another one, which has something.
    pub(crate) fn next_head(&mut self, queue: u32, head: u32) -> Option<u32> {
        let root = self.queues[queue].fronts;
        treap::next(&mut ByFront(self), root, head)
    }

    /// Puts a lane into its trees, if it has something.
    pub(crate) fn link_front(&mut self, lane: u32) {
        if self.is_line(lane) {
            return self.link_line(lane);
        }
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
        if self.is_line(lane) {
            return self.unlink_line(lane);
        }
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
        if head != NIL && !self.is_line(lane) {
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
        entry.held = entry.held + counts.held() - before.held();
        if was_idle != is_idle {
            self.note_idleness(lane, was_idle);
        }
    }

    /// Notes that a lane may have become idle, or ceased to be.
    pub(crate) fn note_idleness(&mut self, lane: u32, was_idle: bool) {
        match (was_idle, self.lanes[lane].is_idle()) {
            (true, false) => self.remove_idle(lane),
            (false, true) => self.push_idle(lane, self.keeps_turns_without(lane) == Some(true)),
            _ => {}
        }
    }

    /// Adds a lane to its database's list of idle ones: at the end, or in front, if it is to give way.
    fn push_idle(&mut self, lane: u32, gives_way: bool) {
        let entry = self.queues[self.lanes[lane].queue].entry;
        let entry = &mut self.globals.entries[entry as usize];
        entry.idle_len += 1;
        let push = if gives_way { list::push_front } else { list::push };
        push(&mut Idle(&mut self.lanes), &mut entry.idle, lane);
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
