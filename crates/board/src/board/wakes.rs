//! Waking: each task that gets ready wakes one process that waits for work of its lane.
//!
//! A lane goes through its queue's line from the front and wakes processes whose filters admit its
//! action. One hold of the lock looks at a few waiters only; the scheduler goes on with the rest.
//! As long as the lane has something, each notification round wakes one more: a process that was
//! woken need not own the task. No process is woken twice for one task: one that joins the line
//! after the task got ready looks for itself. So a wake-up that a process does not use, because its
//! filter admitted another action, or because it ended, goes on to the next and comes to an end.

use crate::board::Board;
use crate::containers::list::{self, ListNodes};
use crate::containers::pool::Pool;
use crate::layout::entry::DatabaseEntry;
use crate::layout::lane::{Lane, LaneRef, LaneWakes, WakeState};
use crate::layout::nodes::{Link, ListHead, NIL};
use crate::layout::queue::Queue;
use crate::layout::rank::Rank;
use crate::layout::waiter::{ActionFilter, WaiterState};

impl ListNodes for Pool<'_, Lane> {
    fn link(&mut self, node: u32) -> &mut Link {
        &mut self[node].wakes.link
    }
}

impl Board<'_> {
    /// The lane of a queued slot.
    pub fn lane_of(&self, slot: u32) -> LaneRef {
        let lane = self.slots[slot].lane;
        LaneRef { lane, lane_id: self.lanes[lane].lane_id }
    }

    /// Wakes one more process, since the lane got a ready task.
    pub(crate) fn wake_for(&mut self, lane: u32) {
        // In a paused database no process is to be woken; opening it surveys all lanes.
        if self.globals.waiting > 0 && self.entry(self.entry_of_lane(lane)).may_hand_out() {
            let joined = self.globals.joined;
            let wakes = &mut self.lanes[lane].wakes;
            wakes.until = joined;
            wakes.fresh = true;
            wakes.owed = wakes.owed.saturating_add(1);
            self.give_wakes(lane);
        }
    }

    /// Wakes the next process in place of one that did not use its wake-up.
    pub(crate) fn pass_on(&mut self, unused: LaneRef) {
        if let Some(lane) = self.lane_with_work(unused) {
            self.lanes[lane].wakes.owed += 1;
            self.give_wakes(lane);
        }
    }

    /// As `pass_on`, but leaves it to the scheduler.
    pub(crate) fn owe(&mut self, unused: LaneRef) {
        if let Some(lane) = self.lane_with_work(unused) {
            self.lanes[lane].wakes.owed += 1;
            self.set_wake_state(lane, WakeState::Unfinished);
        }
    }

    /// Notes that a process waits on, though a lane has something, since there is no room to lease
    /// it. Notification rounds wake processes to look again.
    pub fn found_no_room(&mut self, process: u32, wanted: LaneRef) {
        let waiter = &mut self.waiters[process as usize];
        if waiter.woken_for == wanted {
            waiter.woken_for = LaneRef::NONE;
        }
        if let Some(lane) = self.lane_with_work(wanted) {
            self.lanes[lane].wakes.until = self.globals.joined;
            if self.lanes[lane].wakes.state == WakeState::Idle {
                self.set_wake_state(lane, WakeState::Paced);
            }
        }
    }

    /// Goes on with lanes that owe wake-ups. True when there is more to do, under another hold of
    /// the lock.
    pub fn go_on_waking(&mut self, entry: u32) -> bool {
        loop {
            let lane = self.entry(entry).unfinished.first;
            if lane == NIL || self.looks == 0 {
                return lane != NIL;
            }
            self.go_on(lane);
        }
    }

    /// Goes on with the first paced lane: wakes one more process if the lane has something, and if
    /// an interval has passed since it got its newest task.
    pub fn wake_in_round(&mut self, entry: u32) {
        let lane = self.entry(entry).paced.first;
        if lane == NIL {
            return;
        }
        self.set_wake_state(lane, WakeState::Idle);
        if std::mem::take(&mut self.lanes[lane].wakes.fresh) {
            self.set_wake_state(lane, WakeState::Paced);
        } else {
            self.lanes[lane].wakes.owed += 1;
            self.go_on(lane);
        }
    }

    fn go_on(&mut self, lane: u32) {
        let it = LaneRef { lane, lane_id: self.lanes[lane].lane_id };
        if self.lane_with_work(it).is_some() {
            self.give_wakes(lane);
        } else {
            self.forget_wakes(lane);
        }
    }

    /// Stops waking for a lane.
    pub(crate) fn forget_wakes(&mut self, lane: u32) {
        self.lanes[lane].wakes.owed = 0;
        self.set_wake_state(lane, WakeState::Idle);
    }

    /// The index of a lane that has something to hand out still.
    fn lane_with_work(&self, it: LaneRef) -> Option<u32> {
        let LaneRef { lane, lane_id } = it;
        let found = self.is_lane(lane)
            && self.lanes[lane].lane_id == lane_id
            && self.front(lane) != Rank::END
            && self.entry(self.entry_of_lane(lane)).may_hand_out();
        found.then_some(lane)
    }

    fn entry_of_lane(&self, lane: u32) -> u32 {
        self.queues[self.lanes[lane].queue].entry
    }

    /// Wakes as many processes as the lane owes, as far as this hold of the lock may look.
    fn give_wakes(&mut self, lane: u32) {
        let Lane { queue, lane_id, action, .. } = self.lanes[lane];
        let Queue { entry, chain, .. } = self.queues[queue];
        let (filter, line) = (ActionFilter::of(action.as_bytes()), self.line(chain.hash));
        let mut state = WakeState::Paced;
        while self.lanes[lane].wakes.owed > 0 {
            let at = self.next_to_look_at(lane, line);
            // Lines are in the order of joining, whatever their waiters wait for.
            if at == NIL || self.waiter_at(at).joined > self.lanes[lane].wakes.until {
                self.lanes[lane].wakes.owed = 0;
                state = WakeState::Idle;
                break;
            }
            if self.looks == 0 {
                state = WakeState::Unfinished;
                break;
            }
            self.looks -= 1;
            if self.wants_work(at, entry, chain.hash, filter) {
                self.lanes[lane].wakes.owed -= 1;
                self.signal(self.process_at(at), LaneRef { lane, lane_id });
            } else {
                self.lanes[lane].wakes.passed = at;
                self.lanes[lane].wakes.passed_joined = self.waiter_at(at).joined;
            }
        }
        self.set_wake_state(lane, state);
    }

    /// The first place that the lane has not looked at; `NIL`: the line is at its end.
    fn next_to_look_at(&self, lane: u32, line: usize) -> u32 {
        let LaneWakes { passed, passed_joined, .. } = self.lanes[lane].wakes;
        if passed != NIL {
            let waiter = self.waiter_at(passed);
            if waiter.state == WaiterState::Waiting && waiter.joined == passed_joined {
                return self.places[passed as usize].link.next;
            }
        }
        self.lines[line].first
    }

    /// Moves a lane to the list of a state.
    fn set_wake_state(&mut self, lane: u32, state: WakeState) {
        let entry = self.entry_of_lane(lane) as usize;
        let before = std::mem::replace(&mut self.lanes[lane].wakes.state, state);
        if before == state {
            return;
        }
        let entry = &mut self.globals.entries[entry];
        entry.paced_len += u32::from(state == WakeState::Paced);
        entry.paced_len -= u32::from(before == WakeState::Paced);
        if let Some(list) = list_of(entry, before) {
            list::remove(&mut self.lanes, list, lane);
        }
        if let Some(list) = list_of(entry, state) {
            list::push(&mut self.lanes, list, lane);
        }
    }
}

fn list_of(entry: &mut DatabaseEntry, state: WakeState) -> Option<&mut ListHead> {
    match state {
        WakeState::Idle => None,
        WakeState::Paced => Some(&mut entry.paced),
        WakeState::Unfinished => Some(&mut entry.unfinished),
    }
}
