//! Aging: in a queue with this setting a ready task gains priority with time.
//!
//! Within one priority age never changes the order, so each lane of such a queue has the tasks of
//! one action and one priority only. Its first task competes with those of the other priorities,
//! each raised by its age at the moment of the call: nothing is sorted again as time passes. Most
//! tasks of a lane may be known to the table only.

use crate::board::Board;
use crate::board::lanes::ByFront;
use crate::containers::treap;
use crate::layout::lane::{Order, Spot};
use crate::layout::names::LaneName;
use crate::layout::nodes::NIL;
use crate::layout::queue::Queue;
use crate::layout::rank::{Id, Rank};
use crate::layout::slot::{Flag, State};
use crate::time::{Micros, Wall};
use std::cmp::Reverse;

/// A lane's front as it competes with those of other priorities; less is sooner.
type AgedFront = (Reverse<i64>, Wall, Id);

/// The most points of priority that a task gains.
const GAIN_MAX: i64 = 255;

impl Queue {
    /// Whether its tasks gain priority with time.
    fn ages(&self) -> bool {
        self.settings.aging > Micros::ZERO
    }

    /// A priority, raised by the age of a task that has been ready, or could have been, since then.
    fn raised(&self, priority: u32, since: Wall, now: Wall) -> i64 {
        let age = now.0.saturating_sub(since.0);
        i64::from(priority) + (age / self.settings.aging.0).clamp(0, GAIN_MAX)
    }
}

impl Board<'_> {
    /// Whether a queue's tasks gain priority with time: finding the next one then takes a step for
    /// each priority.
    pub fn ages(&self, queue: u32) -> bool {
        self.queues[queue].ages()
    }

    /// The order of the lane that takes a queue's tasks of a priority.
    pub(crate) fn order(&self, queue: u32, priority: u32) -> Order {
        if self.keeps_order(queue) {
            Order::Line
        } else if self.ages(queue) {
            Order::Level(priority)
        } else {
            Order::Priority
        }
    }

    /// Before every task of a lane.
    pub(crate) fn first_rank(&self, lane: u32) -> Rank {
        match self.lanes[lane].order {
            Order::Level(priority) => Rank { priority, ..Rank::FIRST },
            Order::Line => Rank::FIRST.in_line(),
            Order::Priority | Order::Head => Rank::FIRST,
        }
    }

    /// Notes since when a queued task ages, if that is later than its submission. Not if a worker
    /// owned it since it got its slot: its age counts from its submission then.
    pub fn note_age(&mut self, entry: u32, id: Id, since: Wall) {
        let Some(at) = self.find_slot(entry, id) else { return };
        let slot = &mut self.slots[at];
        let is_fresh = slot.state == State::Queued && slot.claimed_by == 0 && !slot.has_token();
        if is_fresh {
            slot.since_at = since;
            slot.flags.set(Flag::AgesLater, since > slot.created);
        }
    }

    /// The lane of a queue that ages which has the next task, of any action or of some.
    pub(crate) fn best_aged_lane(
        &mut self,
        queue: u32,
        actions: Option<&[&[u8]]>,
        now: Wall,
    ) -> Option<u32> {
        let fronts = self.queues[queue].fronts;
        let mut best: Option<(AgedFront, u32)> = None;
        let mut next = treap::first(&mut ByFront(self), fronts);
        while let Some(first) = next {
            let level = self.front(self.next_below(first)).priority;
            // No task of this priority or a lower one can have gained enough.
            if best
                .is_some_and(|((Reverse(priority), ..), _)| i64::from(level) + GAIN_MAX < priority)
            {
                break;
            }
            let head = match actions {
                None => Some(first),
                Some(actions) => (actions.iter())
                    .filter_map(|action| self.find_head(queue, action, Order::Level(level)))
                    .filter(|head| self.has_next(*head))
                    .min_by_key(|head| self.head_key(*head)),
            };
            let lane = head.map(|head| self.next_below(head));
            let rival = lane.map(|lane| (self.aged_front(lane, now), lane));
            best = best.into_iter().chain(rival).min();
            let Some(priority) = level.checked_sub(1) else { break };
            let below = Rank { priority, ..Rank::FIRST };
            next = treap::seek(&mut ByFront(self), fronts, |it, head| {
                it.0.front(it.0.next_below(head)) < below
            });
        }
        best.map(|(_, lane)| lane)
    }

    /// A lane's front, raised by its age. That of a task which only the table knows is no more than
    /// a bound, until the lane is refilled.
    fn aged_front(&self, lane: u32, now: Wall) -> AgedFront {
        let front = self.front(lane);
        (Reverse(self.raised(lane, front.priority, now)), front.created, front.id)
    }

    /// The priority of a lane's next task, raised by its age.
    pub(crate) fn raised(&self, lane: u32, priority: u32, now: Wall) -> i64 {
        let (front, first) = (self.front(lane), self.lanes[lane].first);
        let is_known = first != NIL && self.slots[first].rank() == front;
        let since =
            if is_known { self.slots[first].aged_since() } else { self.lanes[lane].cursor_since };
        self.queues[self.lanes[lane].queue].raised(priority, since, now)
    }

    /// Whether a lane is from before its queue got the order that it has.
    pub(crate) fn is_outdated(&self, lane: u32) -> bool {
        let queue = self.lanes[lane].queue;
        let (keeps_order, ages) = (self.keeps_order(queue), self.ages(queue));
        match self.lanes[lane].order {
            Order::Line | Order::Head => !keeps_order,
            Order::Level(_) => keeps_order || !ages,
            Order::Priority => keeps_order || ages,
        }
    }

    /// Moves a database's slots and lanes among `count` indexes from `from` on, the slots' first, to
    /// where they belong since a queue began or ceased to age. Returns where to go on, or `None` at
    /// the end.
    pub fn sort_again(&mut self, entry: u32, from: u32, count: u32) -> Option<u32> {
        let (slots, to) = (self.slots.capacity(), from.saturating_add(count));
        for at in from..to.min(self.slots.end()) {
            if self.is_in_entry(at, entry) && self.is_outdated(self.slots[at].lane) {
                self.change_lane(entry, at);
            }
        }
        let end = slots + self.lanes.end();
        for at in from.max(slots)..to.min(end) {
            let lane = at - slots;
            if self.is_lane(lane) && self.queues[self.lanes[lane].queue].entry == entry {
                self.forget_outdated(entry, lane);
            }
        }
        let next = if to < self.slots.end() { to } else { to.max(slots) };
        (next < end).then_some(next)
    }

    /// Forgets an outdated lane that no slot and no process needs. Its tasks in the table are found
    /// by a survey.
    pub(crate) fn forget_outdated(&mut self, entry: u32, lane: u32) {
        if !self.is_outdated(lane) {
            return;
        }
        self.note_spilled(entry);
        self.close_pass(lane);
        let it = &self.lanes[lane];
        if it.counts.slots == 0 && it.refiller == 0 && it.turns.lanes == 0 {
            self.forget_lane(lane);
        }
    }

    /// Moves a slot to the lane where it belongs; a queued one that belongs in a line, or for which
    /// there is no lane, is left to the table.
    pub(crate) fn change_lane(&mut self, entry: u32, at: u32) {
        let (from, id, priority) =
            (self.slots[at].lane, self.slots[at].id, self.slots[at].priority);
        let (queue, action) = (self.queues[self.lanes[from].queue].name, self.action_of(at));
        let is_queued = self.slots[at].state == State::Queued;
        if is_queued && self.keeps_order(self.lanes[from].queue) {
            // It may be a stray, and in a line that hides others from workers that do not ask for its
            // action. The survey has the line read from its beginning.
            self.note_spilled(entry);
            return self.drop_slot(at);
        }
        let group = self.group_of_lane(from);
        let name = LaneName { queue: queue.as_bytes(), action: action.as_bytes(), group };
        let spot = self.find_or_add_spot(entry, name, priority);
        // A lane that was spilled to make room may have been the slot's own.
        if self.find_slot(entry, id) != Some(at) {
            if let Some(spot) = spot {
                self.release_spot(spot);
                self.release_lane(spot.lane);
            }
            return;
        }
        let Some(spot) = spot else {
            self.note_spilled(entry);
            if is_queued {
                self.drop_slot(at);
            }
            return;
        };
        if is_queued {
            self.dequeue(at);
        }
        self.change_counts(from, 0, -1);
        self.change_spot(at, spot);
        self.change_counts(spot.lane, 0, 1);
        if is_queued {
            self.enqueue(at);
            self.note_ready(spot.lane);
        }
        self.release_spot(spot);
        if is_queued && self.slots[at].waits() && !self.slots[at].is_in_line() {
            self.drop_slot(at);
        }
        self.release_lane(from);
    }

    /// Changes the lane of a slot that is in no tree, and the head that it names.
    fn change_spot(&mut self, at: u32, spot: Spot) {
        let held = self.slots[at].has_place_in_group();
        let slot = &mut self.slots[at];
        let head = std::mem::replace(&mut slot.head, spot.head);
        slot.lane = spot.lane;
        let holds = slot.has_place_in_group();
        if spot.head != NIL {
            self.change_lanes_below(spot.head, 1);
        }
        if head != NIL {
            self.release_head(head);
        }
        if held != holds {
            self.change_running(spot.lane, if holds { 1 } else { -1 });
        } else {
            self.park_or_unpark(spot.lane);
        }
    }
}
