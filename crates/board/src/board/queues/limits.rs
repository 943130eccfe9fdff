//! Limits of queues: how many tasks run at once, and how many are handed out in a second.
//!
//! A reserved or leased task takes a place of its queue until it is queued again or gone. So does a
//! task whose lease a transaction in flight ends. That transaction may use the place for a task
//! that it owns itself. If it rolls back, to a savepoint too, its changes are undone in reverse
//! order, so the place is free again before the lease goes on.

use crate::board::Board;
use crate::containers::treap::{self, TreapNodes};
use crate::layout::names::GroupHash;
use crate::layout::nodes::{NIL, TreapLinks};
use crate::layout::queue::{Coverage, Permits, Queue, QueueSettings};
use crate::layout::slot::{Slot, State};
use crate::time::{Micros, Monotonic};

/// Why a queue hands out nothing, though it may have ready tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blocked {
    /// Its database is closed.
    Closed,
    /// It is paused.
    Paused,
    /// Only critical queues hand out tasks, and this one is not critical.
    NotCritical,
    /// As many of its tasks run as may. A transaction that ends some of them may own as many.
    MaxRunning(RunningPlace),
    /// As many tasks of the task's group run as may.
    MaxRunningPerGroup(GroupPlace),
    /// As many of its tasks were handed out as may be by now.
    MaxPerSecond,
}

/// A place of a queue that an ending, when it commits, makes free. Places of one queue are equal as
/// long as no ending of the queue was overtaken by the end of its task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunningPlace {
    queue: u32,
    epoch: u32,
}

/// A place of a group that an ending, when it commits, makes free. Places of one group are equal as
/// long as no ending of the group was overtaken by the end of its task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct GroupPlace {
    pub(crate) queue: u32,
    /// `NIL`: the tasks without a group.
    pub(crate) group: u32,
    pub(crate) epoch: u32,
}

/// The places that an ending makes free when it commits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FreedPlace {
    /// Of the queue.
    pub queue: RunningPlace,
    /// Of the task's group.
    pub group: GroupPlace,
}

/// The places that the claim's own transaction makes free in the queue, when it commits.
pub type Freed = Option<(RunningPlace, u32)>;

/// Whether a queue begins with permits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bucket {
    /// As many as it may have: it gets its limit now.
    Full,
    /// None: what it handed out before a restart is not known.
    Empty,
}

/// A permit that is missing by less is there: sums of fractions are not exact.
const ALMOST: f64 = 1e-9;

impl Slot {
    /// Whether the task takes a place of its queue.
    pub(crate) fn has_place(&self) -> bool {
        let state = if self.state == State::Ending { self.previous_state } else { self.state };
        matches!(state, State::Reserved | State::Leased)
    }
}

impl QueueSettings {
    /// How many permits there are at most.
    fn burst(&self) -> f64 {
        self.max_per_second.max(1.0)
    }
}

impl Queue {
    fn has_permit(&self) -> bool {
        self.settings.max_per_second == 0.0 || self.permits.count > 1.0 - ALMOST
    }

    fn add_permits(&mut self, count: f64) {
        self.permits.count = (self.permits.count + count).min(self.settings.burst());
    }

    /// Counts the permits there are by now.
    fn count_permits(&mut self, now: Monotonic) {
        if now > self.permits.counted_at {
            let seconds = (now - self.permits.counted_at).0 as f64 / 1e6;
            self.permits.counted_at = now;
            self.add_permits(seconds * self.settings.max_per_second);
        }
    }

    /// When there is a permit again.
    fn next_permit(&self) -> Monotonic {
        let seconds = (1.0 - self.permits.count) / self.settings.max_per_second;
        self.permits.counted_at + Micros((seconds * 1e6).ceil() as i64)
    }
}

impl Board<'_> {
    /// Why a queue, by its index, hands out nothing now; `None` also for a queue that is not known.
    /// `freed` are places of the claim's own transaction.
    pub fn blocked(
        &mut self,
        entry: u32,
        queue: Option<u32>,
        now: Monotonic,
        freed: Freed,
    ) -> Option<Blocked> {
        let Some(queue) = queue else {
            return self.blocked_by(entry, &QueueSettings::NONE);
        };
        let it = &mut self.queues[queue];
        if it.settings.max_per_second > 0.0 {
            it.count_permits(now);
        }
        let why = self.blocked_with(queue, freed);
        if why == Some(Blocked::MaxPerSecond) {
            self.await_permit(queue);
        }
        why
    }

    /// As `blocked`, with the permits as they were counted last, and without places of any
    /// transaction.
    pub(crate) fn blocked_queue(&self, queue: u32) -> Option<Blocked> {
        self.blocked_with(queue, None)
    }

    fn blocked_with(&self, queue: u32, freed: Freed) -> Option<Blocked> {
        let it = &self.queues[queue];
        let place = RunningPlace { queue, epoch: it.epoch };
        let freed = freed.filter(|freed| freed.0 == place).map_or(0, |freed| freed.1);
        let most = it.settings.max_running;
        self.blocked_by(it.entry, &it.settings).or_else(|| {
            if most > 0 && it.running.saturating_sub(freed) >= most {
                Some(Blocked::MaxRunning(place))
            } else if !it.has_permit() {
                Some(Blocked::MaxPerSecond)
            } else {
                None
            }
        })
    }

    fn blocked_by(&self, entry: u32, settings: &QueueSettings) -> Option<Blocked> {
        let entry = self.entry(entry);
        if !entry.may_hand_out() {
            Some(Blocked::Closed)
        } else if settings.paused {
            Some(Blocked::Paused)
        } else if entry.critical_only && !settings.critical {
            Some(Blocked::NotCritical)
        } else {
            None
        }
    }

    /// How many tasks a queue may hand out at once now.
    pub(crate) fn free_places(&self, queue: u32) -> u32 {
        let it = &self.queues[queue];
        if self.blocked_queue(queue).is_some() {
            return 0;
        }
        let places = match it.settings.max_running {
            0 => u32::MAX,
            most => most.saturating_sub(it.running),
        };
        let permits = match it.settings.max_per_second {
            0.0 => u32::MAX,
            _ => (it.permits.count + ALMOST) as u32,
        };
        places.min(permits)
    }

    /// Gives a slot another state.
    pub(crate) fn set_state(&mut self, at: u32, state: State) {
        self.change_place(at, |slot| slot.state = state);
    }

    /// Changes a slot's state, and counts the places that it takes or leaves.
    pub(crate) fn change_place(&mut self, at: u32, change: impl FnOnce(&mut Slot)) {
        let slot = &mut self.slots[at];
        let had = slot.has_place();
        change(slot);
        let Slot { lane, worker, group, .. } = *slot;
        if slot.has_place() != had {
            let change = if had { -1 } else { 1 };
            let queue = self.lanes[lane].queue;
            let running = &mut self.queues[queue].running;
            *running = running.wrapping_add_signed(change);
            if worker != NIL {
                let worker = &mut self.workers[worker];
                worker.running = worker.running.wrapping_add_signed(change);
            }
            self.change_running(queue, group, change);
        }
    }

    /// Whether an expired lease may go on: as if its task were owned, it needs a place.
    pub(crate) fn may_revive(&self, at: u32) -> bool {
        let slot = &self.slots[at];
        let queue = self.lanes[slot.lane].queue;
        let it = &self.queues[queue];
        let own = u32::from(slot.has_place());
        let of_group = self.turns(queue, slot.group).running;
        let may = |running: u32, most| most == 0 || running - own < most;
        may(it.running, it.settings.max_running) && may(of_group, it.settings.max_running_per_group)
    }

    /// The places that the ending of a lease makes free, in its queue and in its group; `None`: its
    /// task had none any more.
    pub fn freed_place(&self, slot: &Slot) -> Option<FreedPlace> {
        let queue = self.lanes[slot.lane].queue;
        slot.has_place().then(|| FreedPlace {
            queue: RunningPlace { queue, epoch: self.queues[queue].epoch },
            group: self.group_place(slot),
        })
    }

    /// Notes that a slot goes while a transaction in flight ends its lease. That transaction cannot
    /// count on the places of its endings any more: one of them is free already.
    pub(crate) fn note_overtaken(&mut self, at: u32) {
        let slot = self.slots[at];
        if slot.state == State::Ending && slot.has_place() {
            let queue = self.lanes[slot.lane].queue;
            self.queues[queue].epoch = self.next_generation();
            self.turns_mut(queue, slot.group).epoch = self.queues[queue].epoch;
        }
    }

    /// Whether the group of a slot's task is full for a transaction that ends leases of groups
    /// itself.
    pub fn slot_blocked(&self, slot: u32, freed: &[(GroupPlace, u32)]) -> Option<Blocked> {
        let place = self.group_place(&self.slots[slot]);
        let freed = freed.iter().find(|it| it.0 == place).map_or(0, |it| it.1);
        let most = self.queues[place.queue].settings.max_running_per_group;
        let running = self.turns(place.queue, place.group).running.saturating_sub(freed);
        (most > 0 && running >= most).then_some(Blocked::MaxRunningPerGroup(place))
    }

    /// Whether a group of a queue is full, for all transactions.
    pub fn group_blocked(&self, queue: u32, group: Option<GroupHash>) -> Option<Blocked> {
        self.group_blocked_beside(queue, group, 0)
    }

    /// As `group_blocked`, for a transaction that makes so many places of the group free.
    pub fn group_blocked_beside(
        &self,
        queue: u32,
        group: Option<GroupHash>,
        freed: u32,
    ) -> Option<Blocked> {
        let group = match group {
            None => NIL,
            Some(group) => self.find_group(queue, group)?,
        };
        let most = self.queues[queue].settings.max_running_per_group;
        let turns = self.turns(queue, group);
        let place = GroupPlace { queue, group, epoch: turns.epoch };
        let is_full = most > 0 && turns.running.saturating_sub(freed) >= most;
        is_full.then_some(Blocked::MaxRunningPerGroup(place))
    }

    /// Whether a queue limits how many of its tasks are handed out.
    pub(crate) fn is_limited(&self, queue: u32) -> bool {
        let it = &self.queues[queue].settings;
        it.max_running > 0 || it.max_per_second > 0.0
    }

    /// Notes that a place or a permit of a queue came free: if it has something, one more process
    /// is woken, and the queue is announced.
    pub(crate) fn note_freed(&mut self, queue: u32) {
        if self.is_limited(queue) {
            self.release(queue, 1);
        }
    }

    /// Notes that a queue may hand out so many tasks more.
    pub(crate) fn release(&mut self, queue: u32, count: u32) {
        // A task that only the table knows counts as one.
        let known = self.queues[queue].queued.max(1);
        let count = count.min(self.free_places(queue)).min(known);
        if count == 0 {
            self.note_blocked(queue);
        } else if self.may_have_tasks(queue) {
            self.wake_for_queue(queue, count);
            self.note_to_announce(queue);
        }
    }

    /// Whether a queue has ready tasks, as far as the board knows.
    fn may_have_tasks(&self, queue: u32) -> bool {
        let it = &self.queues[queue];
        it.fronts != NIL || it.coverage != Coverage::Whole
    }

    /// Notes that a queue has tasks that it may not hand out.
    pub(crate) fn note_blocked(&mut self, queue: u32) {
        if self.blocked_queue(queue) == Some(Blocked::MaxPerSecond) {
            self.await_permit(queue);
        }
    }

    /// Takes a permit for a task that is handed out.
    pub(crate) fn take_permit(&mut self, queue: u32) {
        let it = &mut self.queues[queue];
        if it.settings.max_per_second > 0.0 {
            it.permits.count -= 1.0;
            let list = self.wait_list(self.queues.hash(queue));
            if !self.queues[queue].has_permit() && self.wait_lists[list].first != NIL {
                self.await_permit(queue);
            }
        }
    }

    /// Gives back the permit of an ownership that rolled back.
    pub(crate) fn give_permit_back(&mut self, queue: u32) {
        let it = &mut self.queues[queue];
        if it.settings.max_per_second > 0.0 {
            it.add_permits(1.0);
        }
    }

    /// Has the scheduler release a queue that has tasks when there is a permit for one.
    pub(crate) fn await_permit(&mut self, queue: u32) {
        if self.queues[queue].permits.awaited || !self.may_have_tasks(queue) {
            return;
        }
        let it = &mut self.queues[queue];
        it.permits.awaited = true;
        it.permits.next_at = it.next_permit();
        let entry = it.entry;
        let root = self.entry(entry).permits;
        self.entry_mut(entry).permits = treap::insert(&mut ByPermit(self), root, queue);
    }

    /// Ends what `await_permit` began.
    pub(crate) fn stop_awaiting_permit(&mut self, queue: u32) {
        if self.queues[queue].permits.awaited {
            let entry = self.queues[queue].entry;
            let root = self.entry(entry).permits;
            self.entry_mut(entry).permits = treap::remove(&mut ByPermit(self), root, queue);
            self.queues[queue].permits.awaited = false;
        }
    }

    /// When the first queue of a database that waits for a permit gets one.
    pub fn next_permit(&mut self, entry: u32) -> Monotonic {
        let root = self.entry(entry).permits;
        let first = treap::first(&mut ByPermit(self), root);
        first.map_or(Monotonic::NEVER, |queue| self.queues[queue].permits.next_at)
    }

    /// Releases a queue that has waited for a permit and has one now: wakes processes, one for each
    /// permit, and has the queue announced. False: there is no such queue.
    pub fn release_permit(&mut self, entry: u32, now: Monotonic) -> bool {
        let root = self.entry(entry).permits;
        let first = treap::first(&mut ByPermit(self), root);
        let Some(queue) = first.filter(|it| self.queues[*it].permits.next_at <= now) else {
            return false;
        };
        self.stop_awaiting_permit(queue);
        self.queues[queue].count_permits(now);
        self.release(queue, u32::MAX);
        true
    }

    /// Gives a queue its limit of tasks in a second, after it had `before`.
    pub(crate) fn reset_permits(
        &mut self,
        queue: u32,
        before: f64,
        now: Monotonic,
        bucket: Bucket,
    ) {
        let it = &mut self.queues[queue];
        let limit = it.settings.max_per_second;
        if before == 0.0 {
            let count = if bucket == Bucket::Full { it.settings.burst() } else { 0.0 };
            it.permits = Permits { count, counted_at: now, ..it.permits };
        } else if before != limit {
            // What there is was earned at the rate of before.
            let after = std::mem::replace(&mut it.settings.max_per_second, before);
            it.count_permits(now);
            it.settings.max_per_second = after;
            it.add_permits(0.0);
        }
        if self.queues[queue].permits.awaited && before != limit {
            self.stop_awaiting_permit(queue);
            if limit > 0.0 {
                self.await_permit(queue);
            }
        }
    }
}

/// The queues of a database that wait for a permit, the first to get one first.
pub(crate) struct ByPermit<'b, 'a>(pub(crate) &'b mut Board<'a>);

impl TreapNodes for ByPermit<'_, '_> {
    fn seed(&self) -> u32 {
        self.0.globals.seed
    }
    fn links(&mut self, queue: u32) -> &mut TreapLinks {
        &mut self.0.queues[queue].permits.links
    }
    fn before(&self, a: u32, b: u32) -> bool {
        (self.0.queues[a].permits.next_at, a) < (self.0.queues[b].permits.next_at, b)
    }
}
