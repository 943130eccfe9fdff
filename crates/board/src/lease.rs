//! Leases: taking the best task, keeping it, and the ways in which ownership ends.

use crate::board::Board;
use crate::lane::LaneName;
use crate::name::{Name, WORKER_MAX};
use crate::pool::NIL;
use crate::rank::{Id, Rank};
use crate::refill::Dry;
use crate::slot::{Seal, Slot, State, Ticket};
use crate::treap::{self, Forest, Links};

/// A lease of this length, in microseconds, or longer never expires (100 years).
pub const NEVER: i64 = 36_525 * 86_400_000_000;

/// One instant on two clocks, in microseconds: leases run on the monotonic one (I9).
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub monotonic: i64,
    pub wall: i64,
}

/// Who wants to own, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    pub worker: &'a [u8],
    /// The process in whose transaction this happens.
    pub holder: i32,
    pub now: Moment,
    /// The lease's length asked for, in microseconds; else the task's own, else `fallback`.
    pub length: Option<i64>,
    pub fallback: i64,
}

/// A task that was taken off its lane.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    pub ticket: Ticket,
    pub id: Id,
    /// On the wall clock; `None`: the lease never expires.
    pub deadline_at: Option<i64>,
}

/// A lease as it stands in the table.
#[derive(Clone, Copy, Debug)]
pub struct Lasting<'a> {
    pub seal: Seal,
    pub worker: &'a [u8],
    /// On the wall clock.
    pub since_at: i64,
    /// In microseconds.
    pub length: i64,
    pub progress: f64,
    pub recorded: bool,
}

/// What comes next in a queue.
#[derive(Clone, Copy, Debug)]
pub enum Front {
    Task(u32),
    /// The next task, if there is one, is known to the table only.
    Dry(Dry),
    /// As `Dry`, and somebody is reading it already.
    Refilling,
    Empty,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Held {
    Yes,
    No,
    /// The clock has it in hand: ask again in a moment.
    Busy,
}

/// Why a lease cannot be ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The token is not the one of this task's last owner.
    Stale,
    /// The clock has it in hand: ask again in a moment.
    Busy,
    /// Another transaction, or this one, is ending it already.
    Settling,
}

impl Slot {
    fn lease_for(&mut self, now: Moment, length: i64) {
        (self.deadline, self.deadline_at) = if length >= NEVER {
            (i64::MAX, i64::MAX)
        } else {
            (now.monotonic.saturating_add(length), now.wall.saturating_add(length))
        };
    }

    /// The deadline on the wall clock; `None`: never.
    pub fn deadline_at(&self) -> Option<i64> {
        Some(self.deadline_at).filter(|at| *at != i64::MAX)
    }
}

impl Board<'_> {
    /// The next task of a queue, by all its actions or by some.
    pub fn front_of(&mut self, house: u32, queue: &[u8], actions: Option<&[&[u8]]>) -> Front {
        let Some(queue) = self.find_queue(house, queue) else {
            return Front::Empty;
        };
        let lane = match actions {
            None => self.best_lane(queue),
            Some(actions) => actions
                .iter()
                .filter_map(|action| self.find_lane(queue, action))
                .filter(|lane| self.front(*lane) != Rank::END)
                .min_by_key(|lane| self.front(*lane)),
        };
        let Some(lane) = lane else {
            return Front::Empty;
        };
        let it = &self.lanes[lane];
        if it.first != NIL && self.slots[it.first].rank() < it.cursor {
            Front::Task(it.first)
        } else if it.refiller != 0 {
            Front::Refilling
        } else {
            let action = Name::new(it.action());
            Front::Dry(Dry { lane, cursor: it.cursor, action, born: it.born })
        }
    }

    /// Reserves a queued slot for the claim's transaction, with its lease as it will be (I3).
    pub fn reserve(&mut self, at: u32, claim: &Claim, seal: Seal) -> Taken {
        self.dequeue(at);
        let generation = self.next_generation();
        let slot = &mut self.slots[at];
        slot.generation = generation;
        slot.state = State::Reserved;
        slot.holder = claim.holder;
        slot.seal = seal;
        slot.sealed = true;
        slot.recorded = false;
        slot.offered = false;
        slot.persisted = false;
        slot.progress = 0.0;
        slot.since_at = claim.now.wall;
        slot.worker = Name::<WORKER_MAX>::new(claim.worker);
        let own = Some(slot.timeout).filter(|timeout| *timeout > 0);
        slot.length = claim.length.or(own).unwrap_or(claim.fallback);
        slot.lease_for(claim.now, slot.length);
        let taken = Taken {
            ticket: Ticket { slot: at, generation },
            id: slot.id,
            deadline_at: slot.deadline_at(),
        };
        self.start_timer(at);
        taken
    }

    /// The reservation's transaction committed: the worker owns the task.
    pub fn confirm(&mut self, ticket: Ticket) {
        if self.is_at(ticket, State::Reserved) {
            self.slots[ticket.slot].state = State::Leased;
        }
    }

    /// The reservation's transaction rolled back.
    pub fn put_back(&mut self, ticket: Ticket) {
        if self.is_at(ticket, State::Reserved) {
            self.stop_timer(ticket.slot);
            self.slots[ticket.slot].sealed = false;
            self.requeue_slot(ticket.slot);
        }
    }

    /// A heartbeat: the deadline becomes now + length (the lease's own when `None`).
    pub fn extend(
        &mut self,
        house: u32,
        id: Id,
        seal: &Seal,
        claim: &Claim,
        progress: Option<f64>,
    ) -> Held {
        let Some(at) = self.sealed_slot(house, id, seal) else {
            return Held::No;
        };
        let slot = &self.slots[at];
        match slot.state {
            State::Leased => self.stop_timer(at),
            State::Reserved if slot.holder == claim.holder => self.stop_timer(at),
            // Expired, and nobody owned it since: the worker has it again.
            State::Queued => {
                self.dequeue(at);
                self.slots[at].state = State::Leased;
            }
            State::Settling if slot.holder == self.house(house).clock => return Held::Busy,
            // As one that is queued, should its ending roll back.
            State::Settling if slot.was == State::Queued => self.slots[at].was = State::Leased,
            State::Settling => {}
            State::Reserved | State::Free => return Held::No,
        }
        let slot = &mut self.slots[at];
        slot.lease_for(claim.now, claim.length.unwrap_or(slot.length));
        slot.progress = progress.unwrap_or(slot.progress);
        if slot.state != State::Settling {
            self.start_timer(at);
        }
        Held::Yes
    }

    /// Begins to end a lease: compares the token and holds the slot in one step (I7).
    pub fn settle(
        &mut self,
        house: u32,
        id: Id,
        seal: &Seal,
        holder: i32,
    ) -> Result<(Ticket, Slot), Refusal> {
        let at = self.sealed_slot(house, id, seal).ok_or(Refusal::Stale)?;
        let slot = &self.slots[at];
        match slot.state {
            State::Leased => self.stop_timer(at),
            State::Reserved if slot.holder == holder => self.stop_timer(at),
            State::Queued => self.dequeue(at),
            State::Settling if slot.holder == self.house(house).clock => return Err(Refusal::Busy),
            State::Settling => return Err(Refusal::Settling),
            State::Reserved | State::Free => return Err(Refusal::Stale),
        }
        Ok(self.hold(at, holder))
    }

    /// Holds a ready task that nobody owns, for a transaction that ends it or makes it wait; its slot
    /// is made if the lane has not come to it. `None`: no place can be made, since all that is on the
    /// board is leased.
    pub fn seize(
        &mut self,
        house: u32,
        name: LaneName,
        rank: Rank,
        timeout: i64,
        holder: i32,
    ) -> Option<Result<Ticket, Refusal>> {
        let at = self.admit(house, name, rank, timeout)?;
        let slot = &self.slots[at];
        Some(match slot.state {
            State::Queued => {
                self.dequeue(at);
                Ok(self.hold(at, holder).0)
            }
            State::Settling if slot.holder == self.house(house).clock => Err(Refusal::Busy),
            State::Settling => Err(Refusal::Settling),
            State::Leased | State::Reserved | State::Free => Err(Refusal::Stale),
        })
    }

    fn hold(&mut self, at: u32, holder: i32) -> (Ticket, Slot) {
        let slot = &mut self.slots[at];
        slot.was = slot.state;
        slot.state = State::Settling;
        slot.holder = holder;
        slot.offered = false;
        (Ticket { slot: at, generation: slot.generation }, *slot)
    }

    /// The clock takes an expired lease in hand; `None`: nothing is due.
    pub fn take_due(&mut self, house: u32, now: i64, holder: i32) -> Option<(Ticket, Slot)> {
        let at = self.next_due(house).filter(|at| self.slots[*at].deadline <= now)?;
        self.stop_timer(at);
        // A reservation that ran out is no longer its transaction's to confirm or to put back.
        self.slots[at].generation = self.next_generation();
        self.slots[at].state = State::Leased;
        Some(self.hold(at, holder))
    }

    /// Moves a lease's deadline for the timer only: the clock could not end it. Never to an earlier
    /// time, lest somebody extended it meanwhile.
    pub fn postpone(&mut self, house: u32, id: Id, until: i64) {
        if let Some(at) = self.find_slot(house, id)
            && self.slots[at].state == State::Leased
            && self.slots[at].deadline < until
        {
            self.stop_timer(at);
            self.slots[at].deadline = until;
            self.start_timer(at);
        }
    }

    /// The next deadline of a house, on the monotonic clock.
    pub fn next_deadline(&mut self, house: u32) -> i64 {
        self.next_due(house).map_or(i64::MAX, |at| self.slots[at].deadline)
    }

    fn next_due(&mut self, house: u32) -> Option<u32> {
        let root = self.house(house).timer;
        Some(treap::first(&mut ByDeadline(self), root)).filter(|at| *at != NIL)
    }

    /// The settling's transaction rolled back: the lease goes on as it was, but not before `retry_at`.
    pub fn unsettle(&mut self, ticket: Ticket, retry_at: i64) {
        if !self.is_at(ticket, State::Settling) {
            return;
        }
        let slot = &mut self.slots[ticket.slot];
        slot.state = slot.was;
        slot.deadline = slot.deadline.max(retry_at);
        match slot.was {
            State::Queued => self.requeue_slot(ticket.slot),
            _ => self.start_timer(ticket.slot),
        }
    }

    /// The settling committed and the task is ready again. An `expired` lease's token stays good
    /// until somebody else owns the task.
    pub fn requeue(&mut self, ticket: Ticket, expired: bool) {
        if self.is_at(ticket, State::Settling) {
            let slot = &mut self.slots[ticket.slot];
            slot.sealed = expired;
            slot.recorded = expired;
            slot.progress = 0.0;
            self.note_end(ticket.slot);
            self.requeue_slot(ticket.slot);
        }
    }

    /// The settling committed and the task is no longer live.
    pub fn finish(&mut self, ticket: Ticket) {
        if self.is_at(ticket, State::Settling) {
            self.drop_slot(ticket.slot);
        }
    }

    /// A reserved slot turned out to be a stray: the table does not have its task (I5).
    pub fn drop_stray(&mut self, ticket: Ticket) {
        if self.is_at(ticket, State::Reserved) {
            // Whoever looked may not see what others do: the lane's next refill looks again (I4).
            self.slots[ticket.slot].offered = true;
            self.drop_slot(ticket.slot);
        }
    }

    /// The task was cancelled or deleted: its slot goes, whatever state it is in (I3), and whoever
    /// waits for its end looks again.
    pub fn gone(&mut self, house: u32, id: Id) {
        self.wake_all(house, id);
        if let Some(at) = self.find_slot(house, id) {
            self.drop_slot(at);
        }
    }

    /// Leases a queued slot as a lease that was read from the table says, for one full length (I1).
    pub fn restore(&mut self, at: u32, lease: &Lasting, now: Moment) {
        if self.slots[at].state != State::Queued {
            return;
        }
        self.dequeue(at);
        let slot = &mut self.slots[at];
        slot.state = State::Leased;
        slot.seal = lease.seal;
        slot.sealed = true;
        slot.recorded = lease.recorded;
        slot.persisted = true;
        slot.progress = lease.progress;
        slot.since_at = lease.since_at;
        slot.worker = Name::new(lease.worker);
        slot.length = lease.length;
        slot.lease_for(now, lease.length);
        self.start_timer(at);
    }

    pub(crate) fn is_at(&self, ticket: Ticket, state: State) -> bool {
        if ticket.slot >= self.slots.used() {
            return false;
        }
        let slot = &self.slots[ticket.slot];
        slot.generation == ticket.generation && slot.state == state
    }

    fn sealed_slot(&self, house: u32, id: Id, seal: &Seal) -> Option<u32> {
        self.find_slot(house, id)
            .filter(|at| self.slots[*at].sealed && self.slots[*at].seal == *seal)
    }

    /// Queues a slot again, or leaves its task to the table when its lane has moved past it.
    fn requeue_slot(&mut self, at: u32) {
        let (lane, rank) = (self.slots[at].lane, self.slots[at].rank());
        if rank < self.lanes[lane].cursor {
            self.enqueue(at);
        } else {
            self.slots[at].state = State::Settling;
            self.leave(lane, rank);
            self.drop_slot(at);
        }
        self.note_ready(self.lanes[lane].queue);
    }

    /// Frees a slot, whatever state it is in. Its tickets are void from now on.
    pub(crate) fn drop_slot(&mut self, at: u32) {
        match self.slots[at].state {
            State::Free => return,
            State::Queued => self.dequeue(at),
            State::Reserved | State::Leased => self.stop_timer(at),
            State::Settling => {}
        }
        self.note_end(at);
        self.slots[at].state = State::Free;
        let (lane, rank) = (self.slots[at].lane, self.slots[at].rank());
        if self.slots[at].offered {
            self.leave(lane, rank);
            self.note_ready(self.lanes[lane].queue);
        }
        self.slots.free(at);
        self.shrink(lane);
    }

    /// A lease that stands in the table has ended: the clock has a row to clear away.
    fn note_end(&mut self, at: u32) {
        if std::mem::take(&mut self.slots[at].persisted) {
            let house = self.house_of(at);
            self.house_mut(house).ended_persisted += 1;
        }
    }

    fn start_timer(&mut self, at: u32) {
        let house = self.house_of(at);
        let root = self.house(house).timer;
        self.house_mut(house).timer = treap::insert(&mut ByDeadline(self), root, at);
    }

    fn stop_timer(&mut self, at: u32) {
        let house = self.house_of(at);
        let root = self.house(house).timer;
        self.house_mut(house).timer = treap::remove(&mut ByDeadline(self), root, at);
    }
}

pub(crate) struct ByDeadline<'b, 'a>(pub(crate) &'b mut Board<'a>);

impl Forest for ByDeadline<'_, '_> {
    fn seed(&self) -> u32 {
        self.0.head.seed
    }
    fn links(&mut self, slot: u32) -> &mut Links {
        &mut self.0.slots[slot].links
    }
    fn before(&self, a: u32, b: u32) -> bool {
        (self.0.slots[a].deadline, a) < (self.0.slots[b].deadline, b)
    }
}
