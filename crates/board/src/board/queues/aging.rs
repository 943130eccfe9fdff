//! Aging: in a queue with this setting a ready task gains priority with time.
//!
//! Within one priority age never changes the order, so each lane of such a queue has the tasks of
//! one action and one priority only. Its first task competes with those of the other priorities,
//! each raised by its age at the moment of the call: nothing is sorted again as time passes. Most
//! tasks of a lane may be known to the table only.

use crate::board::Board;
use crate::board::lanes::ByFront;
use crate::containers::treap;
use crate::layout::lane::Order;
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
}

/// A priority, raised by the age of a task that has been ready, or could have been, since then,
/// where it gains a point in each interval of `aging`; zero: it gains none.
pub fn raised(priority: u32, since: Wall, now: Wall, aging: Micros) -> i64 {
    let age = now.0.saturating_sub(since.0);
    i64::from(priority) + age.checked_div(aging.0).unwrap_or(0).clamp(0, GAIN_MAX)
}

impl Board<'_> {
    /// Whether a queue's tasks gain priority with time: finding the next one then takes a step for
    /// each priority.
    pub fn ages(&self, queue: u32) -> bool {
        self.queues[queue].ages()
    }

    /// How long a queue's task waits for a point of priority; zero: it gains none.
    pub fn aging(&self, queue: Option<u32>) -> Micros {
        queue.map_or(Micros::ZERO, |queue| self.queues[queue].settings.aging)
    }

    /// The order of the lane that takes a queue's tasks of a priority.
    pub(crate) fn order(&self, queue: u32, priority: u32) -> Order {
        if self.ages(queue) { Order::Level(priority) } else { Order::Priority }
    }

    /// Before every task of a lane.
    pub(crate) fn first_rank(&self, lane: u32) -> Rank {
        match self.lanes[lane].order {
            Order::Level(priority) => Rank { priority, ..Rank::FIRST },
            Order::Priority => Rank::FIRST,
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
        raised(priority, since, now, self.queues[self.lanes[lane].queue].settings.aging)
    }

    /// Whether a lane is from before its queue got the order that it has.
    pub(crate) fn is_outdated(&self, lane: u32) -> bool {
        let is_level = matches!(self.lanes[lane].order, Order::Level(_));
        is_level != self.ages(self.lanes[lane].queue)
    }
}
