//! Leases: taking the best task, keeping it, and the ways in which ownership ends.

use crate::board::Board;
use crate::board::lanes::LaneName;
use crate::board::refill::NeedsRefill;
use crate::containers::pool::NIL;
use crate::containers::treap::{self, Links, TreapNodes};
use crate::layout::names::{Name, WORKER_MAX};
use crate::layout::rank::{Id, Rank};
use crate::layout::slot::{Slot, State, Ticket, TokenHash};
use crate::time::{Micros, Monotonic, Timestamp, Wall};

/// A lease of this length or longer never expires (100 years).
pub const NEVER: Micros = Micros::from_days(36_525);

/// Who wants to own, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    pub worker: &'a [u8],
    /// The process in whose transaction this happens.
    pub holder: i32,
    pub now: Timestamp,
    /// The lease's length asked for; else the task's own, else `fallback`.
    pub length: Option<Micros>,
    pub fallback: Micros,
}

/// A task that was taken off its lane.
#[derive(Clone, Copy, Debug)]
pub struct Claimed {
    pub ticket: Ticket,
    pub id: Id,
    /// `None`: the lease never expires.
    pub deadline_at: Option<Wall>,
}

/// A lease as it stands in the table.
#[derive(Clone, Copy, Debug)]
pub struct PersistedLease<'a> {
    pub token_hash: TokenHash,
    pub worker: &'a [u8],
    pub since_at: Wall,
    pub length: Micros,
    pub progress: f64,
    pub in_history: bool,
}

/// What comes next in a queue.
#[derive(Clone, Copy, Debug)]
pub enum Next {
    Task(u32),
    /// The next task, if there is one, is known to the table only.
    NeedsRefill(NeedsRefill),
    /// As `NeedsRefill`, and somebody is reading it already.
    Refilling,
    Empty,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extended {
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
    Ending,
}

impl Slot {
    fn lease_for(&mut self, now: Timestamp, length: Micros) {
        (self.deadline, self.deadline_at) = if length >= NEVER {
            (Monotonic::NEVER, Wall::NEVER)
        } else {
            (now.monotonic + length, now.wall + length)
        };
    }

    /// The deadline as the worker was told it; `None`: the lease never expires.
    pub fn deadline_at(&self) -> Option<Wall> {
        Some(self.deadline_at).filter(|at| *at != Wall::NEVER)
    }
}

impl Board<'_> {
    /// The next task of a queue, by all its actions or by some.
    pub fn next_task(&mut self, entry: u32, queue: &[u8], actions: Option<&[&[u8]]>) -> Next {
        let Some(queue) = self.find_queue(entry, queue) else {
            return Next::Empty;
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
            return Next::Empty;
        };
        let it = &self.lanes[lane];
        if it.first != NIL && self.slots[it.first].rank() < it.cursor {
            Next::Task(it.first)
        } else if it.refiller != 0 {
            Next::Refilling
        } else {
            let action = Name::new(it.action());
            Next::NeedsRefill(NeedsRefill { lane, cursor: it.cursor, action, lane_id: it.lane_id })
        }
    }

    /// Reserves a queued slot for the claim's transaction, with its lease as it will be (I3).
    pub fn reserve(&mut self, at: u32, claim: &Claim, token_hash: TokenHash) -> Claimed {
        self.dequeue(at);
        let generation = self.next_generation();
        let slot = &mut self.slots[at];
        slot.generation = generation;
        slot.state = State::Reserved;
        slot.holder = claim.holder;
        slot.token_hash = token_hash;
        slot.token_valid = true;
        slot.in_history = false;
        slot.reoffered = false;
        slot.persisted = false;
        slot.progress = 0.0;
        slot.since_at = claim.now.wall;
        slot.worker = Name::<WORKER_MAX>::new(claim.worker);
        let own = Some(slot.timeout).filter(|timeout| *timeout > Micros::ZERO);
        slot.length = claim.length.or(own).unwrap_or(claim.fallback);
        slot.lease_for(claim.now, slot.length);
        let taken = Claimed {
            ticket: Ticket { slot: at, generation },
            id: slot.id,
            deadline_at: slot.deadline_at(),
        };
        self.start_timer(at);
        taken
    }

    /// The reservation's transaction committed: the worker owns the task.
    pub fn commit_claim(&mut self, ticket: Ticket) {
        if self.is_at(ticket, State::Reserved) {
            self.slots[ticket.slot].state = State::Leased;
        }
    }

    /// The reservation's transaction rolled back.
    pub fn undo_claim(&mut self, ticket: Ticket) {
        if self.is_at(ticket, State::Reserved) {
            self.stop_timer(ticket.slot);
            self.slots[ticket.slot].token_valid = false;
            self.requeue_slot(ticket.slot);
        }
    }

    /// A heartbeat: the deadline becomes now + length (the lease's own when `None`).
    pub fn extend(
        &mut self,
        entry: u32,
        id: Id,
        token_hash: &TokenHash,
        claim: &Claim,
        progress: Option<f64>,
    ) -> Extended {
        let Some(at) = self.slot_of_token(entry, id, token_hash) else {
            return Extended::No;
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
            State::Ending if slot.holder == self.entry(entry).scheduler => return Extended::Busy,
            // As one that is queued, should its ending roll back.
            State::Ending if slot.previous_state == State::Queued => {
                self.slots[at].previous_state = State::Leased
            }
            State::Ending => {}
            State::Reserved | State::Free => return Extended::No,
        }
        let slot = &mut self.slots[at];
        slot.lease_for(claim.now, claim.length.unwrap_or(slot.length));
        slot.progress = progress.unwrap_or(slot.progress);
        if slot.state != State::Ending {
            self.start_timer(at);
        }
        Extended::Yes
    }

    /// Begins to end a lease: compares the token and holds the slot in one step (I7).
    pub fn begin_end(
        &mut self,
        entry: u32,
        id: Id,
        token_hash: &TokenHash,
        holder: i32,
    ) -> Result<(Ticket, Slot), Refusal> {
        let at = self.slot_of_token(entry, id, token_hash).ok_or(Refusal::Stale)?;
        let slot = &self.slots[at];
        match slot.state {
            State::Leased => self.stop_timer(at),
            State::Reserved if slot.holder == holder => self.stop_timer(at),
            State::Queued => self.dequeue(at),
            State::Ending if slot.holder == self.entry(entry).scheduler => {
                return Err(Refusal::Busy);
            }
            State::Ending => return Err(Refusal::Ending),
            State::Reserved | State::Free => return Err(Refusal::Stale),
        }
        Ok(self.hold(at, holder))
    }

    /// Holds a ready task that nobody owns, for a transaction that ends it or makes it wait; its slot
    /// is made if the lane has not come to it. `None`: no place can be made, since all that is on the
    /// board is leased.
    pub fn withdraw(
        &mut self,
        entry: u32,
        name: LaneName,
        rank: Rank,
        timeout: Micros,
        holder: i32,
    ) -> Option<Result<Ticket, Refusal>> {
        let at = self.ensure_slot(entry, name, rank, timeout)?;
        let slot = &self.slots[at];
        Some(match slot.state {
            State::Queued => {
                self.dequeue(at);
                Ok(self.hold(at, holder).0)
            }
            State::Ending if slot.holder == self.entry(entry).scheduler => Err(Refusal::Busy),
            State::Ending => Err(Refusal::Ending),
            State::Leased | State::Reserved | State::Free => Err(Refusal::Stale),
        })
    }

    fn hold(&mut self, at: u32, holder: i32) -> (Ticket, Slot) {
        let slot = &mut self.slots[at];
        slot.previous_state = slot.state;
        slot.state = State::Ending;
        slot.holder = holder;
        slot.reoffered = false;
        (Ticket { slot: at, generation: slot.generation }, *slot)
    }

    /// The clock takes an expired lease in hand; `None`: nothing is due.
    pub fn take_expired(
        &mut self,
        entry: u32,
        now: Monotonic,
        holder: i32,
    ) -> Option<(Ticket, Slot)> {
        let at = self.first_to_expire(entry).filter(|at| self.slots[*at].deadline <= now)?;
        self.stop_timer(at);
        // A reservation that ran out is no longer its transaction's to commit_claim or to put back.
        self.slots[at].generation = self.next_generation();
        self.slots[at].state = State::Leased;
        Some(self.hold(at, holder))
    }

    /// Moves a lease's deadline for the timer only: the clock could not end it. Never to an earlier
    /// time, lest somebody extended it meanwhile.
    pub fn defer_expiry(&mut self, entry: u32, id: Id, until: Monotonic) {
        if let Some(at) = self.find_slot(entry, id)
            && self.slots[at].state == State::Leased
            && self.slots[at].deadline < until
        {
            self.stop_timer(at);
            self.slots[at].deadline = until;
            self.start_timer(at);
        }
    }

    /// The next deadline of a lease in a database.
    pub fn next_expiry(&mut self, entry: u32) -> Monotonic {
        self.first_to_expire(entry).map_or(Monotonic::NEVER, |at| self.slots[at].deadline)
    }

    fn first_to_expire(&mut self, entry: u32) -> Option<u32> {
        let root = self.entry(entry).timer;
        Some(treap::first(&mut ByDeadline(self), root)).filter(|at| *at != NIL)
    }

    /// The settling's transaction rolled back: the lease goes on as it was, but not before `retry_at`.
    pub fn undo_end(&mut self, ticket: Ticket, retry_at: Monotonic) {
        if !self.is_at(ticket, State::Ending) {
            return;
        }
        let slot = &mut self.slots[ticket.slot];
        slot.state = slot.previous_state;
        slot.deadline = slot.deadline.max(retry_at);
        match slot.previous_state {
            State::Queued => self.requeue_slot(ticket.slot),
            _ => self.start_timer(ticket.slot),
        }
    }

    /// The settling committed and the task is ready again. An `expired` lease's token stays good
    /// until somebody else owns the task.
    pub fn requeue(&mut self, ticket: Ticket, expired: bool) {
        if self.is_at(ticket, State::Ending) {
            let slot = &mut self.slots[ticket.slot];
            slot.token_valid = expired;
            slot.in_history = expired;
            slot.progress = 0.0;
            self.note_end(ticket.slot);
            self.requeue_slot(ticket.slot);
        }
    }

    /// The settling committed and the task is no longer live.
    pub fn commit_end(&mut self, ticket: Ticket) {
        if self.is_at(ticket, State::Ending) {
            self.drop_slot(ticket.slot);
        }
    }

    /// A reserved slot turned out to be a stray: the table does not have its task (I5).
    pub fn drop_stray(&mut self, ticket: Ticket) {
        if self.is_at(ticket, State::Reserved) {
            // Whoever looked may not see what others do: the lane's next refill looks again (I4).
            self.slots[ticket.slot].reoffered = true;
            self.drop_slot(ticket.slot);
        }
    }

    /// The task was cancelled or deleted: its slot goes, whatever state it is in (I3), and whoever
    /// waits for its end looks again.
    pub fn remove_task(&mut self, entry: u32, id: Id) {
        self.wake_all(entry, id);
        if let Some(at) = self.find_slot(entry, id) {
            self.drop_slot(at);
        }
    }

    /// Leases a queued slot as a lease that was read from the table says, for one full length (I1).
    pub fn restore(&mut self, at: u32, lease: &PersistedLease, now: Timestamp) {
        if self.slots[at].state != State::Queued {
            return;
        }
        self.dequeue(at);
        let slot = &mut self.slots[at];
        slot.state = State::Leased;
        slot.token_hash = lease.token_hash;
        slot.token_valid = true;
        slot.in_history = lease.in_history;
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

    fn slot_of_token(&self, entry: u32, id: Id, token_hash: &TokenHash) -> Option<u32> {
        self.find_slot(entry, id)
            .filter(|at| self.slots[*at].token_valid && self.slots[*at].token_hash == *token_hash)
    }

    /// Queues a slot again, or leaves its task to the table when its lane has moved past it.
    fn requeue_slot(&mut self, at: u32) {
        let (lane, rank) = (self.slots[at].lane, self.slots[at].rank());
        if rank < self.lanes[lane].cursor {
            self.enqueue(at);
        } else {
            self.slots[at].state = State::Ending;
            self.leave_to_table(lane, rank);
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
            State::Ending => {}
        }
        self.note_end(at);
        self.slots[at].state = State::Free;
        let (lane, rank) = (self.slots[at].lane, self.slots[at].rank());
        if self.slots[at].reoffered {
            self.leave_to_table(lane, rank);
            self.note_ready(self.lanes[lane].queue);
        }
        self.slots.free(at);
        self.shrink(lane);
    }

    /// A lease that stands in the table has ended: the clock has a row to clear away.
    fn note_end(&mut self, at: u32) {
        if std::mem::take(&mut self.slots[at].persisted) {
            let entry = self.entry_of(at);
            self.entry_mut(entry).ended_persisted += 1;
        }
    }

    fn start_timer(&mut self, at: u32) {
        let entry = self.entry_of(at);
        let root = self.entry(entry).timer;
        self.entry_mut(entry).timer = treap::insert(&mut ByDeadline(self), root, at);
    }

    fn stop_timer(&mut self, at: u32) {
        let entry = self.entry_of(at);
        let root = self.entry(entry).timer;
        self.entry_mut(entry).timer = treap::remove(&mut ByDeadline(self), root, at);
    }
}

pub(crate) struct ByDeadline<'b, 'a>(pub(crate) &'b mut Board<'a>);

impl TreapNodes for ByDeadline<'_, '_> {
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
