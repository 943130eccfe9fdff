//! Waking: each task that gets ready wakes one process that waits for work of its lane.
//!
//! A head wakes for all lanes below it. A lane goes through its queue's wait list from the front
//! and wakes processes whose filters admit its action. One hold of the lock looks at a few waiters
//! only; the scheduler goes on with the rest. As long as the lane has something, each notification
//! round wakes one more process, since a process that was woken need not own the task. No process
//! is woken twice for one task: a process that joins the list after the task got ready checks for
//! itself. So a wake-up comes to an end. A process passes it on when it does not use it, because
//! its filter admitted another action or because the process ended.
//!
//! In a queue with limits a wake-up is for a place or permit that came free, whichever lane's task
//! takes it. If a lane has no waiter left, the wake-up goes on to the next lane in the order.

use crate::board::Board;
use crate::board::lanes::ByFront;
use crate::containers::hash::hash;
use crate::containers::list::{self, ListNodes};
use crate::containers::pool::Pool;
use crate::containers::treap;
use crate::layout::entry::DatabaseEntry;
use crate::layout::lane::{Lane, LaneRef, LaneWakes, WakeState};
use crate::layout::names::LaneName;
use crate::layout::nodes::{Link, ListHead, NIL};
use crate::layout::waiter::{ActionFilter, WaiterState};

impl ListNodes for Pool<'_, Lane> {
    fn link(&mut self, node: u32) -> &mut Link {
        &mut self[node].wakes.link
    }
}

impl Board<'_> {
    /// The lane that wakes processes for a queued slot.
    pub fn lane_of(&self, slot: u32) -> LaneRef {
        self.lane_ref(self.head_of(self.slots[slot].lane))
    }

    pub(crate) fn lane_ref(&self, lane: u32) -> LaneRef {
        let Lane { lane_id, queue, .. } = self.lanes[lane];
        LaneRef { lane, lane_id, queue }
    }

    /// Wakes more processes, since the lane has so many ready tasks more that may be handed out.
    pub(crate) fn wake_for(&mut self, lane: u32, count: u32) {
        if self.globals.waiting > 0 {
            let (lane, joined) = (self.head_of(lane), self.globals.joined);
            let Lane { queue, wakes, .. } = &mut self.lanes[lane];
            wakes.until = joined;
            wakes.fresh = true;
            wakes.owed = wakes.owed.saturating_add(count);
            self.queues[*queue].until = joined;
            self.give_wakes(lane);
        }
    }

    /// Wakes more processes, since a queue with limits may hand out so many tasks more.
    pub(crate) fn wake_for_queue(&mut self, queue: u32, count: u32) {
        if let Some(lane) = self.best_head(queue) {
            self.wake_for(lane, count);
        } else {
            let entry = self.queues[queue].entry;
            self.wake_without_lane(entry, self.queues.hash(queue), ActionFilter::ANY);
        }
    }

    /// Wakes a process for a task that is known to the table only, unless its queue may not hand it
    /// out.
    pub(crate) fn wake_for_table(&mut self, entry: u32, name: LaneName) {
        match self.find_queue(entry, name.queue) {
            Some(queue) => self.wake_beside_lanes(queue, Some(name.action)),
            None => {
                let filter = ActionFilter::of(name.action);
                self.wake_without_lane(entry, hash(entry, name.queue), filter);
            }
        }
    }

    /// As `wake_for_table`, for a task of an action, or of any.
    pub(crate) fn wake_beside_lanes(&mut self, queue: u32, action: Option<&[u8]>) {
        if self.free_places(queue) > 0 {
            let entry = self.queues[queue].entry;
            let filter = action.map_or(ActionFilter::ANY, ActionFilter::of);
            self.wake_without_lane(entry, self.queues.hash(queue), filter);
            self.note_to_announce(queue);
        } else {
            self.note_blocked(queue);
        }
    }

    /// Wakes the next process in place of one that did not use its wake-up.
    pub(crate) fn pass_on(&mut self, unused: LaneRef) {
        if let Some(lane) = self.lane_to_pass_on(unused) {
            self.lanes[lane].wakes.owed += 1;
            self.give_wakes(lane);
        }
    }

    /// As `pass_on`, but leaves it to the scheduler.
    pub(crate) fn owe(&mut self, unused: LaneRef) {
        if let Some(lane) = self.lane_to_pass_on(unused) {
            self.lanes[lane].wakes.owed += 1;
            self.set_wake_state(lane, WakeState::Owing);
        }
    }

    /// The lane that goes on with a wake-up that was not used.
    fn lane_to_pass_on(&mut self, unused: LaneRef) -> Option<u32> {
        let queue = unused.queue;
        if queue < self.queues.end() && self.is_limited(queue) {
            self.best_head_to_hand_out(queue)
        } else {
            self.lane_with_work(unused)
        }
    }

    /// Whether a process that was woken for one lane, and found work in another, used its wake-up.
    pub(crate) fn is_used(&self, woken_for: LaneRef, found: LaneRef) -> bool {
        let queue = woken_for.queue;
        let is_for_any_lane = queue < self.queues.end() && self.is_limited(queue);
        woken_for == found || (is_for_any_lane && found.queue == queue)
    }

    /// Notes that a process waits on, though a lane has something, since there is no room to lease
    /// it. Notification rounds wake processes to look again.
    pub fn found_no_room(&mut self, process: u32, wanted: LaneRef) {
        let waiter = &mut self.waiters[process as usize];
        if waiter.woken_for == wanted {
            waiter.woken_for = LaneRef::NONE;
        }
        if let Some(lane) = self.lane_with_work(wanted) {
            let queue = self.lanes[lane].queue;
            self.lanes[lane].wakes.until = self.globals.joined;
            self.queues[queue].until = self.globals.joined;
            if self.lanes[lane].wakes.state == WakeState::Idle {
                self.set_wake_state(lane, WakeState::Paced);
            }
        }
    }

    /// Goes on with lanes that owe wake-ups. True when there is more to do, under another hold of
    /// the lock.
    pub fn go_on_waking(&mut self, entry: u32) -> bool {
        loop {
            let lane = self.entry(entry).owing.first;
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
        if self.lane_with_work(self.lane_ref(lane)).is_some() {
            self.give_wakes(lane);
        } else {
            self.forget_wakes(lane);
        }
    }

    /// Stops waking for a lane, which has nothing to hand out. In a queue with limits its best lane
    /// goes on with the wake-ups that are owed.
    pub(crate) fn forget_wakes(&mut self, lane: u32) {
        let owed = std::mem::take(&mut self.lanes[lane].wakes.owed);
        self.set_wake_state(lane, WakeState::Idle);
        let queue = self.lanes[lane].queue;
        if owed > 0
            && self.is_limited(queue)
            && let Some(best) = self.best_head_to_hand_out(queue)
        {
            self.lanes[best].wakes.owed += owed;
            self.set_wake_state(best, WakeState::Owing);
        }
    }

    fn best_head_to_hand_out(&mut self, queue: u32) -> Option<u32> {
        if self.free_places(queue) > 0 { self.best_head(queue) } else { None }
    }

    /// The index of a lane that has something to hand out still.
    fn lane_with_work(&self, it: LaneRef) -> Option<u32> {
        let LaneRef { lane, lane_id, .. } = it;
        let found = self.is_lane(lane)
            && self.lanes[lane].lane_id == lane_id
            && self.has_next(lane)
            && self.free_places(self.lanes[lane].queue) > 0;
        found.then_some(lane)
    }

    fn entry_of_lane(&self, lane: u32) -> u32 {
        self.queues[self.lanes[lane].queue].entry
    }

    /// Wakes as many processes as the lane owes, as far as this hold of the lock may look.
    fn give_wakes(&mut self, lane: u32) {
        let queue = self.lanes[lane].queue;
        let mut next = Some(lane);
        while let Some(lane) = next {
            let left = self.give_wakes_of(lane);
            let fronts = self.queues[queue].fronts;
            let has_waiter = self.wait_lists[self.wait_list(self.queues.hash(queue))].first != NIL;
            if left == 0 || !has_waiter || !self.is_limited(queue) {
                return;
            }
            next = treap::next(&mut ByFront(self), fronts, lane);
            let Some(next) = next else { return };
            self.lanes[next].wakes.owed += left;
            if self.looks == 0 {
                return self.set_wake_state(next, WakeState::Owing);
            }
            self.looks -= 1;
        }
    }

    /// As `give_wakes`, for this lane only. Returns how many wake-ups it has no use for.
    fn give_wakes_of(&mut self, lane: u32) -> u32 {
        let Lane { queue, action, wakes, .. } = self.lanes[lane];
        let entry = self.queues[queue].entry;
        let filter = ActionFilter::of(action.as_bytes());
        let hash = self.queues.hash(queue);
        let list_at = self.wait_list(hash);
        let it = self.lane_ref(lane);
        let (mut left, mut until) = (0, wakes.until);
        if self.is_limited(queue) {
            left = wakes.owed.saturating_sub(self.queued_below(lane).max(1));
            until = self.queues[queue].until;
            self.lanes[lane].wakes.owed -= left;
        }
        let mut state = WakeState::Paced;
        while self.lanes[lane].wakes.owed > 0 {
            let at = self.next_to_look_at(lane, list_at);
            // Wait lists are in the order of joining, whatever their waiters wait for.
            if at == NIL || self.waiter_at(at).joined > until {
                left += std::mem::take(&mut self.lanes[lane].wakes.owed);
                state = WakeState::Idle;
                break;
            }
            if self.looks == 0 {
                state = WakeState::Owing;
                break;
            }
            self.looks -= 1;
            if self.wants_work(at, entry, hash, filter) {
                self.lanes[lane].wakes.owed -= 1;
                self.signal(self.process_at(at), it);
            } else {
                self.lanes[lane].wakes.passed = at;
                self.lanes[lane].wakes.passed_joined = self.waiter_at(at).joined;
            }
        }
        self.set_wake_state(lane, state);
        left
    }

    /// The first node that the lane has not looked at; `NIL`: the list is at its end.
    fn next_to_look_at(&self, lane: u32, list_at: usize) -> u32 {
        let LaneWakes { passed, passed_joined, .. } = self.lanes[lane].wakes;
        if passed != NIL {
            let waiter = self.waiter_at(passed);
            if waiter.state == WaiterState::Waiting && waiter.joined == passed_joined {
                return self.wait_nodes[passed as usize].link.next;
            }
        }
        self.wait_lists[list_at].first
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
        WakeState::Owing => Some(&mut entry.owing),
    }
}
