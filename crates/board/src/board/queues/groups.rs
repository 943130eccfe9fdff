//! Groups: among tasks of one priority, the groups of a queue have their turns one after the other.
//!
//! A group has a lane of its own for each action. The lane of the tasks without a group is the
//! *head* of these lanes. The head's tree has the lanes that have something, the next one first;
//! the queue's tree has the heads. When a task is handed out, its group moves behind all others, in
//! all of its lanes. A new group comes last. Tasks without a group are one group. A queue without
//! groups has heads only, and no turns.
//!
//! A group that runs as many tasks as it may is *parked*: its lanes are in no tree until a place
//! comes free, so it costs the others nothing.
//!
//! In a queue with aging each lane has one priority, and age alone decides between lanes. Where the
//! board does not cover a queue, the search of the table gives groups their turns.

use crate::board::Board;
use crate::board::leases::Next;
use crate::board::queues::limits::GroupPlace;
use crate::containers::hash::hash;
use crate::containers::list::{self, ListNodes};
use crate::containers::pool::Pool;
use crate::containers::treap::{self, TreapNodes};
use crate::layout::lane::{Lane, Order};
use crate::layout::names::GroupHash;
use crate::layout::nodes::{Link, ListHead, NIL, TreapLinks};
use crate::layout::queue::{Coverage, Group, GroupTurns};
use crate::layout::rank::Rank;
use crate::layout::slot::Slot;
use std::cmp::Reverse;

/// What decides between lanes of a queue; less is sooner.
pub(crate) type LaneKey = (Reverse<u32>, bool, u64, Rank, u32);

fn group_hash(queue: u32, group: GroupHash) -> u32 {
    hash(queue, &group.to_ne_bytes())
}

impl Board<'_> {
    pub(crate) fn find_group(&self, queue: u32, group: GroupHash) -> Option<u32> {
        self.groups.find(group_hash(queue, group), |it| it.queue == queue && it.hash == group)
    }

    /// A group, made if it is new. Its turn comes after those of all others then.
    pub(crate) fn find_or_add_group(&mut self, queue: u32, hash: GroupHash) -> Option<u32> {
        if let Some(group) = self.find_group(queue, hash) {
            return Some(group);
        }
        let last = self.next_turn(queue);
        let epoch = self.next_generation();
        let turns = GroupTurns { last, epoch, ..GroupTurns::NONE };
        let group = Group { hash, turns, queue, slots: 0 };
        let group = self.groups.add(group_hash(queue, hash), group)?;
        self.queues[queue].groups += 1;
        Some(group)
    }

    pub(crate) fn next_turn(&mut self, queue: u32) -> u64 {
        let it = &mut self.queues[queue];
        it.last_turn += 1;
        it.last_turn
    }

    /// The hash of a lane's group; `None`: its tasks are in no group.
    pub(crate) fn group_of_lane(&self, lane: u32) -> Option<GroupHash> {
        let group = self.lanes[lane].turns.group;
        (group != NIL).then(|| self.groups[group].hash)
    }

    /// The turns of a group, or of the tasks of a queue that are in none.
    pub(crate) fn turns(&self, queue: u32, group: u32) -> &GroupTurns {
        match group {
            NIL => &self.queues[queue].turns,
            group => &self.groups[group].turns,
        }
    }

    /// As `turns`, to change them.
    pub(crate) fn turns_mut(&mut self, queue: u32, group: u32) -> &mut GroupTurns {
        match group {
            NIL => &mut self.queues[queue].turns,
            group => &mut self.groups[group].turns,
        }
    }

    /// As `turns`, of a lane's group.
    pub(crate) fn turns_of(&self, lane: u32) -> &GroupTurns {
        let Lane { queue, turns, .. } = &self.lanes[lane];
        self.turns(*queue, turns.group)
    }

    /// Notes that a lane is one of its group's.
    pub(crate) fn join_group(&mut self, lane: u32) {
        self.change_group_lanes(lane, |nodes, lanes| list::push(nodes, lanes, lane));
    }

    /// Takes a lane that is about to be freed from its group, and from its head. Returns the head.
    pub(crate) fn leave_group(&mut self, lane: u32) -> Option<u32> {
        self.change_group_lanes(lane, |nodes, lanes| list::remove(nodes, lanes, lane));
        let turns = self.lanes[lane].turns;
        if turns.group == NIL {
            return None;
        }
        self.release_group(turns.group);
        self.change_lanes_below(turns.head, -1);
        Some(turns.head)
    }

    fn change_group_lanes(&mut self, lane: u32, change: impl FnOnce(&mut Siblings, &mut ListHead)) {
        let Lane { queue, turns, .. } = self.lanes[lane];
        let mut lanes = self.turns(queue, turns.group).lanes;
        change(&mut Siblings(&mut self.lanes), &mut lanes);
        self.turns_mut(queue, turns.group).lanes = lanes;
    }

    /// Notes that a slot of a group was freed.
    pub(crate) fn leave_slots(&mut self, group: u32) {
        if group != NIL {
            self.groups[group].slots -= 1;
            self.release_group(group);
        }
    }

    /// Frees a group that has neither lanes nor slots.
    fn release_group(&mut self, group: u32) {
        let Group { queue, slots, turns, .. } = self.groups[group];
        if slots == 0 && turns.lanes.first == NIL {
            self.groups.free(group);
            self.queues[queue].groups -= 1;
        }
    }

    /// Changes how many lanes a head has.
    pub(crate) fn change_lanes_below(&mut self, head: u32, by: i32) {
        let was_idle = self.lanes[head].is_idle();
        let lanes = &mut self.lanes[head].turns.lanes;
        *lanes = lanes.wrapping_add_signed(by);
        self.note_idleness(head, was_idle);
    }

    /// Whether a queue has tasks of groups on the board.
    pub fn has_groups(&self, queue: u32) -> bool {
        self.queues[queue].groups > 0
    }

    /// Whether processes are woken for a lane itself.
    pub(crate) fn is_head(&self, lane: u32) -> bool {
        self.lanes[lane].turns.head == NIL
    }

    /// The head of a lane, which may be itself.
    pub(crate) fn head_of(&self, lane: u32) -> u32 {
        match self.lanes[lane].turns.head {
            NIL => lane,
            head => head,
        }
    }

    /// How many slots are queued in a head and in the lanes that it heads.
    pub(crate) fn queued_below(&self, head: u32) -> u32 {
        let it = &self.lanes[head];
        it.counts.queued + it.turns.queued
    }

    /// Whether a lane has something that its group may hand out: it is in its tree.
    pub(crate) fn is_listed(&self, lane: u32) -> bool {
        self.front(lane) != Rank::END && !self.turns_of(lane).parked
    }

    /// Whether a head, or a lane that it heads, has something that may be handed out.
    pub(crate) fn has_next(&self, head: u32) -> bool {
        self.is_listed(head) || self.lanes[head].turns.first != NIL
    }

    /// Of a head and the lanes that it heads, the one with the next task. The head, if none has
    /// anything.
    pub(crate) fn next_below(&self, head: u32) -> u32 {
        match self.lanes[head].turns.first {
            NIL => head,
            first if !self.is_listed(head) => first,
            first if self.lane_key(first) < self.lane_key(head) => first,
            _ => head,
        }
    }

    pub(crate) fn lane_key(&self, lane: u32) -> LaneKey {
        let is_level = matches!(self.lanes[lane].order, Order::Level(_));
        let turn = if is_level { 0 } else { self.turns_of(lane).last };
        let front = self.front(lane);
        // Beside each other while the queue begins or ceases to age, the two kinds are not
        // compared.
        (Reverse(front.priority), is_level, turn, front, lane)
    }

    /// The key of what comes next in a head.
    pub(crate) fn head_key(&self, head: u32) -> LaneKey {
        self.lane_key(self.next_below(head))
    }

    /// Whether a head is before another one.
    pub(crate) fn is_head_before(&self, a: u32, b: u32) -> bool {
        let (one, other) = (&self.lanes[a], &self.lanes[b]);
        let is_plain = one.turns.first == NIL && other.turns.first == NIL;
        let is_level = |lane: &Lane| matches!(lane.order, Order::Level(_));
        if is_plain && is_level(one) == is_level(other) {
            (self.front(a), a) < (self.front(b), b)
        } else {
            self.head_key(a) < self.head_key(b)
        }
    }

    /// Puts a group's lane that has something into its head's tree; the head is in no tree.
    pub(crate) fn link_turn(&mut self, lane: u32) {
        let head = self.lanes[lane].turns.head;
        let root = self.lanes[head].turns.root;
        let root = treap::insert(&mut ByTurn(self), root, lane);
        self.set_turns(head, root);
    }

    /// Takes a group's lane out of its head's tree; the head is in no tree.
    pub(crate) fn unlink_turn(&mut self, lane: u32) {
        let head = self.lanes[lane].turns.head;
        let root = self.lanes[head].turns.root;
        let root = treap::remove(&mut ByTurn(self), root, lane);
        self.set_turns(head, root);
    }

    fn set_turns(&mut self, head: u32, root: u32) {
        let first = treap::first(&mut ByTurn(self), root).unwrap_or(NIL);
        let turns = &mut self.lanes[head].turns;
        (turns.root, turns.first) = (root, first);
    }

    /// Notes that a task of a group is handed out: the group has had its turn.
    pub(crate) fn take_turn(&mut self, queue: u32, group: u32) {
        if self.queues[queue].groups > 0 {
            let turn = self.next_turn(queue);
            let first = self.turns(queue, group).lanes.first;
            self.each_of_group(first, Board::unlink_front);
            self.turns_mut(queue, group).last = turn;
            self.each_of_group(first, Board::link_front);
        }
    }

    fn each_of_group(&mut self, first: u32, mut change: impl FnMut(&mut Self, u32)) {
        let mut lane = first;
        while lane != NIL {
            change(self, lane);
            lane = self.lanes[lane].turns.sibling.next;
        }
    }

    /// Whether as many tasks of a group run as may.
    pub(crate) fn is_group_full(&self, queue: u32, group: u32) -> bool {
        let most = self.queues[queue].settings.max_running_per_group;
        most > 0 && self.turns(queue, group).running >= most
    }

    /// Changes how many tasks of a group run.
    pub(crate) fn change_running(&mut self, queue: u32, group: u32, by: i32) {
        let turns = self.turns_mut(queue, group);
        turns.running = turns.running.wrapping_add_signed(by);
        self.park_or_unpark(queue, group);
    }

    /// Parks a group if as many of its tasks run as may, and takes it up again if not: then a
    /// process is woken for what it has.
    pub(crate) fn park_or_unpark(&mut self, queue: u32, group: u32) {
        let is_full = self.is_group_full(queue, group);
        if is_full == self.turns(queue, group).parked {
            return;
        }
        let first = self.turns(queue, group).lanes.first;
        self.each_of_group(first, Board::unlink_front);
        self.turns_mut(queue, group).parked = is_full;
        let mut best = None;
        self.each_of_group(first, |it, lane| {
            it.link_front(lane);
            if it.is_listed(lane) {
                best = best.into_iter().chain([(it.lane_key(lane), lane)]).min();
            }
        });
        if is_full || self.is_limited(queue) || self.free_places(queue) == 0 {
            // A place of the queue that comes free wakes a process.
        } else if self.queues[queue].coverage != Coverage::Whole {
            self.wake_beside_lanes(queue, None);
        } else if let Some((_, best)) = best {
            self.wake_for(best, 1);
            self.note_to_announce(queue);
        }
    }

    /// The lane that has the next task in groups which are full, where a transaction that asks ends
    /// leases itself: each group's place, and how many it makes free.
    pub fn next_in_freed(
        &self,
        queue: Option<u32>,
        actions: Option<&[&[u8]]>,
        freed: &[(GroupPlace, u32)],
    ) -> Next {
        let mut best: Option<(LaneKey, u32)> = None;
        for (place, count) in freed.iter().filter(|it| Some(it.0.queue) == queue) {
            let Some(turns) = self.turns_at(*place) else { continue };
            let most = self.queues[place.queue].settings.max_running_per_group;
            if most > 0 && turns.running.saturating_sub(*count) >= most {
                continue;
            }
            let mut lane = turns.lanes.first;
            while lane != NIL {
                let it = &self.lanes[lane];
                let is_asked = actions.is_none_or(|actions| actions.contains(&it.action()));
                if is_asked && self.front(lane) != Rank::END {
                    best = best.into_iter().chain([(self.lane_key(lane), lane)]).min();
                }
                lane = it.turns.sibling.next;
            }
        }
        best.map_or(Next::Empty, |(_, lane)| self.next_in_lane(lane))
    }

    /// The place that a slot has, or had, in its group.
    pub(crate) fn group_place(&self, slot: &Slot) -> GroupPlace {
        let queue = self.lanes[slot.lane].queue;
        GroupPlace { queue, group: slot.group, epoch: self.turns(queue, slot.group).epoch }
    }

    /// The group of a place, unless a place of it was overtaken since.
    fn turns_at(&self, place: GroupPlace) -> Option<&GroupTurns> {
        let turns = match place.group {
            NIL => &self.queues[place.queue].turns,
            group if group < self.groups.end() => &self.groups[group].turns,
            _ => return None,
        };
        (turns.epoch == place.epoch).then_some(turns)
    }
}

/// The lanes, as the lists of their groups link them.
pub(crate) struct Siblings<'p, 'a>(pub(crate) &'p mut Pool<'a, Lane>);

impl ListNodes for Siblings<'_, '_> {
    fn link(&mut self, lane: u32) -> &mut Link {
        &mut self.0[lane].turns.sibling
    }
}

/// The lanes of a head that have something, the next one first.
pub(crate) struct ByTurn<'b, 'a>(pub(crate) &'b mut Board<'a>);

impl TreapNodes for ByTurn<'_, '_> {
    fn seed(&self) -> u32 {
        self.0.globals.seed
    }
    fn links(&mut self, lane: u32) -> &mut TreapLinks {
        &mut self.0.lanes[lane].by_front
    }
    fn before(&self, a: u32, b: u32) -> bool {
        self.0.lane_key(a) < self.0.lane_key(b)
    }
}
