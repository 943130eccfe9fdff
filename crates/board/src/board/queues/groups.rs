//! Groups: of the tasks of one priority, each group of a queue gets a turn after the other.
//!
//! A group has a lane of its own for each action, beside the lane of the tasks without a group,
//! which is the *head* of these lanes. The head's tree has those that have something, the next one
//! first; the queue's tree has the heads. A task that is handed out is a turn of its group in all
//! of its lanes: the group moves behind all others, and a group that is new comes last. Tasks
//! without a group are one group. A queue without groups has heads only, and no turns.
//!
//! A group of which as many tasks run as may is *parked*: its lanes are in no tree until a place comes
//! free, so that it costs the others nothing.
//!
//! In a queue with aging lanes have one priority each, and age alone decides between them.

use crate::board::Board;
use crate::board::leases::Next;
use crate::board::queues::limits::GroupPlace;
use crate::containers::hash::hash;
use crate::containers::list::{self, ListNodes};
use crate::containers::pool::Pool;
use crate::containers::treap::{self, TreapNodes};
use crate::layout::lane::{Lane, Order, UNREAD};
use crate::layout::names::GroupHash;
use crate::layout::nodes::{Chain, Link, NIL, TreapLinks};
use crate::layout::queue::{Group, GroupTurns};
use crate::layout::rank::Rank;
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
        let group = Group { hash, turns, chain: Chain::NONE, queue };
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

    pub(crate) fn turns(&self, lane: u32) -> &GroupTurns {
        let Lane { queue, turns, .. } = &self.lanes[lane];
        match turns.group {
            NIL => &self.queues[*queue].turns,
            group => &self.groups[group].turns,
        }
    }

    pub(crate) fn turns_of(&mut self, lane: u32) -> &mut GroupTurns {
        let Lane { queue, turns, .. } = &self.lanes[lane];
        match turns.group {
            NIL => &mut self.queues[*queue].turns,
            group => &mut self.groups[group].turns,
        }
    }

    /// Notes that a lane is one of its group's, and of its head's if it has one.
    pub(crate) fn join_group(&mut self, lane: u32) {
        if self.lanes[lane].order == Order::Head {
            return;
        }
        let mut lanes = self.turns_of(lane).lanes;
        list::push(&mut Siblings(&mut self.lanes), &mut lanes, lane);
        self.turns_of(lane).lanes = lanes;
    }

    /// Takes a lane that is about to be freed from its group, which is freed with its last lane, and
    /// from its head. Returns the head.
    pub(crate) fn leave_group(&mut self, lane: u32) -> Option<u32> {
        if self.lanes[lane].order == Order::Head {
            return None;
        }
        let mut lanes = self.turns_of(lane).lanes;
        list::remove(&mut Siblings(&mut self.lanes), &mut lanes, lane);
        self.turns_of(lane).lanes = lanes;
        let Lane { queue, turns, .. } = self.lanes[lane];
        if turns.group == NIL {
            return None;
        }
        if lanes.first == NIL {
            self.groups.free(turns.group);
            self.queues[queue].groups -= 1;
        }
        if self.is_line(lane) {
            return None;
        }
        self.change_lanes_below(turns.head, -1);
        Some(turns.head)
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
        let Lane { order, turns, .. } = &self.lanes[lane];
        if *order == Order::Line { turns.head == UNREAD } else { turns.group == NIL }
    }

    /// The head of a lane, which may be itself.
    pub(crate) fn head_of(&self, lane: u32) -> u32 {
        match self.lanes[lane].turns.head {
            NIL | UNREAD => lane,
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
        if self.is_line(lane) {
            return self.lanes[lane].turns.head != NIL;
        }
        self.front(lane) != Rank::END && !self.turns(lane).parked
    }

    /// Whether a head, or a lane that it heads, has something that may be handed out.
    pub(crate) fn has_next(&self, head: u32) -> bool {
        if self.is_line(head) {
            return self.is_head(head);
        }
        let it = &self.lanes[head];
        self.is_listed(head) || it.turns.first != NIL || it.pass.open
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
        let turn = if is_level { 0 } else { self.turns(lane).last };
        let front = self.front(lane);
        let priority = if self.is_line(lane) { self.line_priority(lane) } else { front.priority };
        // Beside each other while the queue begins or ceases to age, the two kinds are not compared.
        (Reverse(priority), is_level, turn, front, lane)
    }

    /// The key of what comes next in a head: a task, or the groups of its pass, which had their last
    /// turns before it began. Their priority is taken to be that of the task, or of what was read last.
    pub(crate) fn head_key(&self, head: u32) -> LaneKey {
        let next = self.next_below(head);
        let pass = &self.lanes[head].pass;
        let task = (next != head || self.is_listed(head)).then(|| self.lane_key(next));
        match task {
            Some(task) if !pass.open || pass.later > 0 => task,
            None if !pass.open => self.lane_key(head),
            _ => {
                let priority = task.map_or(Reverse(pass.priority), |task| task.0);
                (priority, false, pass.begun, Rank::FIRST, head)
            }
        }
    }

    /// Whether a head is before another one.
    pub(crate) fn is_head_before(&self, a: u32, b: u32) -> bool {
        let (one, other) = (&self.lanes[a], &self.lanes[b]);
        let is_plain = [one, other].iter().all(|it| it.turns.first == NIL && !it.pass.open);
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

    /// Notes that a task of a lane is handed out: its group has had its turn.
    pub(crate) fn take_turn(&mut self, lane: u32) {
        let queue = self.lanes[lane].queue;
        if self.queues[queue].groups == 0 && self.queues[queue].passes == 0 {
            return;
        }
        let turn = self.next_turn(queue);
        self.queues[queue].last_had = turn;
        self.set_turn(lane, turn);
        self.turns_of(lane).had_turn = true;
    }

    /// Changes the number of a group's last turn.
    pub(crate) fn set_turn(&mut self, lane: u32, turn: u64) {
        let first = self.turns_of(lane).lanes.first;
        self.each_of_group(first, Board::unlink_front);
        self.turns_of(lane).last = turn;
        self.each_of_group(first, Board::link_front);
    }

    fn each_of_group(&mut self, first: u32, mut change: impl FnMut(&mut Self, u32)) {
        let mut lane = first;
        while lane != NIL {
            change(self, lane);
            lane = self.lanes[lane].turns.sibling.next;
        }
    }

    /// Whether as many tasks of a lane's group run as may.
    pub(crate) fn is_group_full(&self, lane: u32) -> bool {
        let most = self.queues[self.lanes[lane].queue].settings.max_running_per_group;
        most > 0 && self.turns(lane).running >= most
    }

    /// Changes how many tasks of a lane's group run.
    pub(crate) fn change_running(&mut self, lane: u32, by: i32) {
        let turns = self.turns_of(lane);
        turns.running = turns.running.wrapping_add_signed(by);
        self.park_or_unpark(lane);
    }

    /// Parks the group of a lane if as many of its tasks run as may, and takes it up again if not:
    /// then a process is woken for what it has.
    pub(crate) fn park_or_unpark(&mut self, lane: u32) {
        let is_full = self.is_group_full(lane);
        if is_full == self.turns(lane).parked {
            return;
        }
        let first = self.turns(lane).lanes.first;
        self.each_of_group(first, Board::unlink_front);
        self.turns_of(lane).parked = is_full;
        let mut best = None;
        self.each_of_group(first, |it, lane| {
            it.link_front(lane);
            if it.is_listed(lane) {
                best = best.into_iter().chain([(it.lane_key(lane), lane)]).min();
            }
        });
        let queue = self.lanes[lane].queue;
        if let Some((_, best)) = best
            && !self.is_limited(queue)
            && self.free_places(queue) > 0
        {
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
                let (action, has_next) = match self.is_line(lane).then(|| self.listing(lane)) {
                    None => (Some(it.action()), self.front(lane) != Rank::END),
                    Some(UNREAD) => (None, true),
                    Some(NIL) => (None, false),
                    Some(head) => (Some(self.lanes[head].action()), true),
                };
                let is_asked = action
                    .is_none_or(|action| actions.is_none_or(|actions| actions.contains(&action)));
                if is_asked && has_next {
                    best = best.into_iter().chain([(self.lane_key(lane), lane)]).min();
                }
                lane = it.turns.sibling.next;
            }
        }
        best.map_or(Next::Empty, |(_, lane)| self.next_in_lane(lane))
    }

    /// The place that a slot has, or had, in its group.
    pub(crate) fn group_place(&self, lane: u32) -> GroupPlace {
        let Lane { queue, turns, .. } = &self.lanes[lane];
        GroupPlace { queue: *queue, group: turns.group, epoch: self.turns(lane).epoch }
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
