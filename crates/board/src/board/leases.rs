//! Leases: taking the best task, keeping it, and the ways in which ownership ends.

use crate::board::Board;
use crate::board::refill::NeedsRefill;
use crate::containers::treap::{self, TreapNodes};
use crate::layout::lane::Lane;
use crate::layout::names::{LaneName, Name};
use crate::layout::nodes::{NIL, TreapLinks};
use crate::layout::rank::{Id, Rank};
use crate::layout::slot::{EXPIRY, Flag, Flags, Slot, State, Ticket, TokenHash};
use crate::time::{Micros, Monotonic, Timestamp, Wall};

/// A lease of this length or longer never expires (100 years).
pub const NEVER: Micros = Micros::from_days(36_525);

/// A worker's wish to own or keep tasks.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// The worker's name.
    pub worker: &'a [u8],
    /// The process in whose transaction this happens.
    pub holder: i32,
    /// When leases begin.
    pub now: Timestamp,
    /// The length that the worker asks for; else the task's own, else `fallback`.
    pub length: Option<Micros>,
    /// The length of a lease for which neither worker nor task gives one.
    pub fallback: Micros,
}

/// A task that was taken off its lane.
#[derive(Clone, Copy, Debug)]
pub struct Claimed {
    /// The right to commit or undo the claim.
    pub ticket: Ticket,
    /// The task.
    pub id: Id,
    /// `None`: the lease never expires.
    pub deadline_at: Option<Wall>,
}

/// A lease as its row in the table has it.
#[derive(Clone, Copy, Debug)]
pub struct PersistedLease<'a> {
    /// Proves the lease.
    pub token_hash: TokenHash,
    /// The worker's name.
    pub worker: &'a [u8],
    /// When the lease began.
    pub since_at: Wall,
    /// The length that the lease was taken with.
    pub length: Micros,
    /// How far the worker said it was: 0 to 1.
    pub progress: f64,
    /// The task's row counts this lease as a try already and has its assignment in the history.
    pub in_history: bool,
}

/// What is next in a queue.
#[derive(Clone, Copy, Debug)]
pub enum Next {
    /// The slot of the next task.
    Task(u32),
    /// The next task, if there is one, is known to the table only.
    NeedsRefill(NeedsRefill),
    /// As `NeedsRefill`, and another process refills the lane already.
    Refilling,
    /// No lane has anything, but so often one of the database found no place on the board: the
    /// table may have its tasks.
    Spilled(u32),
    /// Nothing is to be handed out.
    Empty,
}

/// What became of a wish to extend a lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extended {
    /// The lease has the new deadline.
    Yes,
    /// The token is not valid.
    No,
    /// The lease has expired and is being ended: ask again in a moment.
    Busy,
}

/// A deadline that has passed.
#[allow(clippy::large_enum_variant, reason = "taken apart at once")]
#[derive(Clone, Copy, Debug)]
pub enum Expired {
    /// A lease. The caller is to end it: its ticket, and the lease.
    Lease(Ticket, Slot),
    /// A reservation. The task is queued again already, and nothing is to be written: the ownership
    /// is no try while its transaction is open.
    Reservation,
}

/// Why a lease cannot be ended, or a ready task not withdrawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The token is not valid. For `withdraw`: a worker owns the task.
    Stale,
    /// The lease has expired and is being ended: ask again in a moment.
    Busy,
    /// A transaction ends the lease already: another one, or this one.
    Ending,
}

impl Slot {
    /// Sets the deadline to `length` from now.
    fn lease_for(&mut self, now: Timestamp, length: Micros) {
        (self.deadline, self.deadline_at) = if length >= NEVER {
            (Monotonic::NEVER, Wall::NEVER)
        } else {
            (now.monotonic + length, now.wall + length)
        };
    }
}

impl Board<'_> {
    /// What is next in a queue, by all its actions or by some, whether it is blocked or not, and
    /// before any task has aged.
    pub fn next_task(&mut self, entry: u32, queue: &[u8], actions: Option<&[&[u8]]>) -> Next {
        let queue = self.find_queue(entry, queue);
        self.next_in_queue(entry, queue, actions, Wall::MIN)
    }

    /// As `next_task`, by the queue's index, with the ages of now.
    pub fn next_in_queue(
        &mut self,
        entry: u32,
        queue: Option<u32>,
        actions: Option<&[&[u8]]>,
        now: Wall,
    ) -> Next {
        let lane = queue.and_then(|queue| match actions {
            _ if self.ages(queue) => self.best_aged_lane(queue, actions, now),
            None => self.best_lane(queue),
            Some(actions) => actions
                .iter()
                .filter_map(|action| self.find_lane(queue, action, None))
                .filter(|lane| self.front(*lane) != Rank::END)
                .min_by_key(|lane| self.front(*lane)),
        });
        let Some(lane) = lane else {
            let spilled = self.entry(entry).lanes_spilled;
            return if spilled > 0 { Next::Spilled(spilled) } else { Next::Empty };
        };
        let it = &self.lanes[lane];
        if it.first != NIL && self.slots[it.first].rank() < it.cursor {
            Next::Task(it.first)
        } else if it.refiller != 0 {
            Next::Refilling
        } else {
            let action = Name::new(it.action());
            let Lane { cursor, lane_id, queue, level, .. } = *it;
            Next::NeedsRefill(NeedsRefill { lane, cursor, action, level, lane_id, queue })
        }
    }

    /// Reserves a queued slot for the claim's transaction, with its lease as it will be (I3).
    pub fn reserve(&mut self, at: u32, claim: &Claim, token_hash: TokenHash) -> Claimed {
        self.dequeue(at);
        self.set_state(at, State::Reserved);
        let queue = self.queue_of(at);
        self.take_permit(queue);
        let timeout = self.queues[queue].settings.timeout;
        let generation = self.next_generation();
        let slot = &mut self.slots[at];
        slot.generation = generation;
        slot.holder = claim.holder;
        slot.claimed_by = claim.holder;
        slot.token_hash = token_hash;
        slot.flags = Flags::default();
        slot.flags.set(Flag::TokenValid, true);
        slot.progress = 0.0;
        slot.since_at = claim.now.wall;
        slot.worker = Name::new(claim.worker);
        let given = [slot.timeout, timeout].into_iter().find(|timeout| *timeout > Micros::ZERO);
        slot.length = claim.length.or(given).unwrap_or(claim.fallback);
        slot.lease_for(claim.now, slot.length);
        let claimed = Claimed {
            ticket: Ticket { slot: at, generation },
            id: slot.id,
            deadline_at: slot.deadline_at(),
        };
        self.start_timer(at);
        claimed
    }

    /// The reservation's transaction committed: the worker owns the task. If the reservation
    /// expired before, it is a lease that has expired, so that the try counts.
    pub fn commit_claim(&mut self, ticket: Ticket) {
        if !self.end_claim(ticket) {
            return;
        }
        let slot = &mut self.slots[ticket.slot];
        match slot.state {
            State::Reserved => slot.state = State::Leased,
            State::Queued => {
                self.dequeue(ticket.slot);
                self.set_state(ticket.slot, State::Leased);
                self.start_timer(ticket.slot);
            }
            State::Ending => {
                self.change_place(ticket.slot, |slot| slot.previous_state = State::Leased);
            }
            State::Leased | State::Withheld | State::Free => {}
        }
    }

    /// The reservation's transaction rolled back.
    pub fn undo_claim(&mut self, ticket: Ticket) {
        if !self.end_claim(ticket) {
            return;
        }
        let queue = self.queue_of(ticket.slot);
        self.give_permit_back(queue);
        let slot = &mut self.slots[ticket.slot];
        slot.flags.set(Flag::TokenValid, false);
        match slot.state {
            State::Reserved => {
                self.stop_timer(ticket.slot);
                self.requeue_slot(ticket.slot);
            }
            State::Ending => {
                self.change_place(ticket.slot, |slot| slot.previous_state = State::Queued);
                self.note_freed(queue);
            }
            State::Queued | State::Leased | State::Withheld | State::Free => {}
        }
    }

    /// The transaction of a claim has ended. False if the slot is no longer the claim's.
    fn end_claim(&mut self, ticket: Ticket) -> bool {
        ticket.slot < self.slots.end()
            && self.slots[ticket.slot].generation == ticket.generation
            && self.slots[ticket.slot].state != State::Free
            && std::mem::take(&mut self.slots[ticket.slot].claimed_by) != 0
    }

    /// A heartbeat: the deadline becomes now + length (the lease's own when `None`). Any connection
    /// may do this, even while the transaction that reserved the task is still open. A lease whose
    /// deadline has passed needs a free place of its queue, as an ownership does.
    pub fn extend(
        &mut self,
        entry: u32,
        id: Id,
        token_hash: &TokenHash,
        now: Timestamp,
        length: Option<Micros>,
        progress: Option<f64>,
    ) -> Extended {
        let Some(at) = self.slot_of_token(entry, id, token_hash) else {
            return Extended::No;
        };
        let slot = &self.slots[at];
        let is_late = slot.deadline <= now.monotonic;
        match slot.state {
            State::Leased | State::Reserved if is_late && !self.may_revive(at) => {
                return Extended::No;
            }
            State::Leased | State::Reserved => self.stop_timer(at),
            State::Queued | State::Withheld if !self.may_revive(at) => return Extended::No,
            State::Queued if !self.fits(at, &mut self.room_of(entry)) => return Extended::No,
            // Expired, and no worker owned it since: its worker has it again.
            State::Queued => {
                self.dequeue(at);
                self.set_state(at, self.slots[at].unexpired_state());
                self.slots[at].holder = self.slots[at].claimed_by;
            }
            State::Withheld => self.set_state(at, State::Leased),
            State::Ending if slot.is_expiring() => return Extended::Busy,
            // As one that is queued, if its ending rolls back.
            State::Ending if slot.previous_state == State::Queued => {
                if !self.may_revive(at) {
                    return Extended::No;
                }
                self.change_place(at, |slot| slot.previous_state = slot.unexpired_state());
            }
            State::Ending => {}
            State::Free => return Extended::No,
        }
        let slot = &mut self.slots[at];
        slot.lease_for(now, length.unwrap_or(slot.length));
        slot.progress = progress.unwrap_or(slot.progress);
        if slot.state != State::Ending {
            self.start_timer(at);
        }
        Extended::Yes
    }

    /// Begins to end a lease: compares the token and marks the slot in one step (I7). Returns the
    /// right to commit or undo that, and the lease.
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
            State::Queued if slot.claimed_by != 0 && slot.claimed_by != holder => {
                return Err(Refusal::Stale);
            }
            State::Queued => self.dequeue(at),
            State::Withheld => self.slots[at].state = State::Queued,
            State::Ending if slot.is_expiring() => return Err(Refusal::Busy),
            State::Ending => return Err(Refusal::Ending),
            State::Reserved | State::Free => return Err(Refusal::Stale),
        }
        Ok(self.mark_ending(at, holder))
    }

    /// Takes a ready task that no worker owns off its lane, for a transaction that ends it or makes
    /// it wait; its slot is made if the lane has not come to it. `None`: no slot can be made or
    /// held, since the free ones are other databases' shares.
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
            State::Queued if !self.fits(at, &mut self.room_of(entry)) => return None,
            State::Queued => {
                self.dequeue(at);
                Ok(self.mark_ending(at, holder).0)
            }
            State::Withheld => {
                self.slots[at].state = State::Queued;
                Ok(self.mark_ending(at, holder).0)
            }
            State::Ending if slot.is_expiring() => Err(Refusal::Busy),
            State::Ending => Err(Refusal::Ending),
            State::Leased | State::Reserved | State::Free => Err(Refusal::Stale),
        })
    }

    /// Gives a slot to a transaction that ends its lease.
    fn mark_ending(&mut self, at: u32, holder: i32) -> (Ticket, Slot) {
        let slot = &mut self.slots[at];
        slot.previous_state = slot.state;
        slot.state = State::Ending;
        slot.holder = holder;
        slot.flags.set(Flag::Reoffered, false);
        (Ticket { slot: at, generation: slot.generation }, *slot)
    }

    /// Begins to end a worker's lease as if it had expired, by the index of its slot; `None`: the
    /// slot has no lease of this worker.
    pub fn take_lease(
        &mut self,
        entry: u32,
        at: u32,
        worker: &[u8],
        holder: i32,
    ) -> Option<(Ticket, Slot)> {
        let slot = self.slot_at(at, entry)?;
        if slot.state != State::Leased || slot.worker.as_bytes() != worker {
            return None;
        }
        self.stop_timer(at);
        Some(self.begin_expiry(at, holder))
    }

    /// Begins to end the first lease, or ends the first reservation, that has expired; `None`: none
    /// has.
    pub fn take_expired(&mut self, entry: u32, now: Monotonic) -> Option<Expired> {
        let at = self.first_to_expire(entry).filter(|at| self.slots[*at].deadline <= now)?;
        self.stop_timer(at);
        if self.slots[at].state == State::Reserved {
            self.requeue_slot(at);
            return Some(Expired::Reservation);
        }
        let (ticket, slot) = self.begin_expiry(at, EXPIRY);
        Some(Expired::Lease(ticket, slot))
    }

    /// Begins to end a lease that is in no timer any more.
    fn begin_expiry(&mut self, at: u32, holder: i32) -> (Ticket, Slot) {
        // If the worker extends it again, it is another lease than the one that the scheduler may
        // be writing to the table.
        self.slots[at].generation = self.next_generation();
        self.mark_ending(at, holder)
    }

    /// Moves a lease's deadline for the timer only, when the scheduler could not end the lease.
    /// Never to an earlier time: the worker may have extended the lease meanwhile.
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

    /// When the first lease of a database expires.
    pub fn next_expiry(&mut self, entry: u32) -> Monotonic {
        self.first_to_expire(entry).map_or(Monotonic::NEVER, |at| self.slots[at].deadline)
    }

    fn first_to_expire(&mut self, entry: u32) -> Option<u32> {
        let root = self.entry(entry).timer;
        treap::first(&mut ByDeadline(self), root)
    }

    /// The ending's transaction rolled back: the lease goes on as it was, and does not expire
    /// before `retry_at`.
    pub fn undo_end(&mut self, ticket: Ticket, retry_at: Monotonic) {
        if !self.is_at(ticket, State::Ending) {
            return;
        }
        let slot = &mut self.slots[ticket.slot];
        slot.state = slot.previous_state;
        slot.holder = slot.claimed_by;
        slot.deadline = slot.deadline.max(retry_at);
        match slot.previous_state {
            State::Queued => self.requeue_slot(ticket.slot),
            _ => self.start_timer(ticket.slot),
        }
    }

    /// The ending committed and the task is ready again. An `expired` lease's token stays valid
    /// until another worker owns the task.
    pub fn requeue(&mut self, ticket: Ticket, expired: bool) {
        if self.is_at(ticket, State::Ending) {
            self.end_lease(ticket.slot, expired);
            self.requeue_slot(ticket.slot);
        }
    }

    /// As `requeue` of an expired lease, but the task is not handed out before `publish`, since the
    /// commit is not durable yet. Its worker may extend or return it.
    pub fn withhold(&mut self, ticket: Ticket) {
        if self.is_at(ticket, State::Ending) {
            self.end_lease(ticket.slot, true);
            self.set_state(ticket.slot, State::Withheld);
            let queue = self.queue_of(ticket.slot);
            self.note_freed(queue);
        }
    }

    /// The end of a withheld task's lease is durable: the task is handed out from now on.
    pub fn publish(&mut self, ticket: Ticket) {
        if self.is_at(ticket, State::Withheld) {
            self.requeue_slot(ticket.slot);
        }
    }

    fn end_lease(&mut self, at: u32, expired: bool) {
        let slot = &mut self.slots[at];
        slot.flags.set(Flag::TokenValid, expired);
        slot.flags.set(Flag::InHistory, expired);
        slot.claimed_by = 0;
        slot.progress = 0.0;
        self.note_lease_ended(at);
    }

    /// The ending committed and the task is settled, deleted, or waits.
    pub fn commit_end(&mut self, ticket: Ticket) {
        if self.is_at(ticket, State::Ending) {
            self.free_slot(ticket.slot);
        }
    }

    /// A reserved slot is a stray: the transaction does not see its task as ready in the table
    /// (I5).
    pub fn drop_stray(&mut self, ticket: Ticket) {
        let is_claimed = self.is_at(ticket, State::Reserved) || self.is_at(ticket, State::Queued);
        if is_claimed && self.slots[ticket.slot].claimed_by != 0 {
            let queue = self.queue_of(ticket.slot);
            self.give_permit_back(queue);
            // Other transactions may see it as ready: the lane's next refill looks again (I4).
            self.slots[ticket.slot].flags.set(Flag::Reoffered, true);
            self.drop_slot(ticket.slot);
        }
    }

    /// The task is no longer ready: its slot goes, whatever state it is in (I3), and processes that
    /// wait for its end look again.
    pub fn remove_task(&mut self, entry: u32, id: Id) {
        self.wake_all(entry, id);
        if let Some(at) = self.find_slot(entry, id) {
            self.drop_slot(at);
        }
    }

    /// Leases a queued slot as a row of the table says, for one full length (I1).
    pub fn restore(&mut self, at: u32, lease: &PersistedLease, now: Timestamp) {
        if self.slots[at].state != State::Queued {
            return;
        }
        self.dequeue(at);
        self.set_state(at, State::Leased);
        let slot = &mut self.slots[at];
        slot.token_hash = lease.token_hash;
        slot.flags.set(Flag::TokenValid, true);
        slot.flags.set(Flag::InHistory, lease.in_history);
        slot.flags.set(Flag::Persisted, true);
        slot.flags.set(Flag::AgesLater, false);
        slot.progress = lease.progress;
        slot.since_at = lease.since_at;
        slot.worker = Name::new(lease.worker);
        slot.length = lease.length;
        slot.lease_for(now, lease.length);
        self.start_timer(at);
    }

    /// The index of a slot's queue.
    fn queue_of(&self, at: u32) -> u32 {
        self.lanes[self.slots[at].lane].queue
    }

    fn slot_of_token(&self, entry: u32, id: Id, token_hash: &TokenHash) -> Option<u32> {
        self.find_slot(entry, id).filter(|at| {
            self.slots[*at].flags.has(Flag::TokenValid) && self.slots[*at].token_hash == *token_hash
        })
    }

    /// Notes that a task is ready again, which may have had a place of its queue until now.
    fn note_left(&mut self, lane: u32, had_place: bool) {
        let queue = self.lanes[lane].queue;
        if had_place && self.is_limited(queue) {
            self.note_freed(queue);
        } else {
            self.note_ready(lane);
        }
    }

    /// Queues a slot again, or leaves its task to the table when its lane has moved past it.
    fn requeue_slot(&mut self, at: u32) {
        let (lane, rank) = (self.slots[at].lane, self.slots[at].rank());
        let had_place = self.slots[at].has_place();
        if rank < self.lanes[lane].cursor {
            self.enqueue(at);
        } else {
            self.set_state(at, State::Withheld);
            self.leave_to_table(lane, rank);
            self.free_slot(at);
        }
        self.note_left(lane, had_place);
    }

    /// Frees a slot whose task is gone, whatever state it is in.
    pub(crate) fn drop_slot(&mut self, at: u32) {
        self.note_overtaken(at);
        self.free_slot(at);
    }

    /// Frees a slot. Its tickets are void from now on.
    fn free_slot(&mut self, at: u32) {
        match self.slots[at].state {
            State::Free => return,
            State::Queued => self.dequeue(at),
            State::Reserved | State::Leased => self.stop_timer(at),
            State::Ending | State::Withheld => {}
        }
        self.note_lease_ended(at);
        let had_place = self.slots[at].has_place();
        self.set_state(at, State::Free);
        let (lane, rank) = (self.slots[at].lane, self.slots[at].rank());
        if self.slots[at].flags.has(Flag::Reoffered) {
            self.leave_to_table(lane, rank);
            self.note_left(lane, had_place);
        } else if had_place {
            self.note_freed(self.lanes[lane].queue);
        }
        self.slots.free(at);
        self.note_slot_freed(lane);
    }

    /// Counts a lease that has ended, if the scheduler has to delete its row.
    fn note_lease_ended(&mut self, at: u32) {
        if self.slots[at].is_persisted() {
            self.slots[at].flags.set(Flag::Persisted, false);
            let entry = self.entry_of_slot(&self.slots[at]);
            self.entry_mut(entry).ended_persisted += 1;
        }
    }

    fn start_timer(&mut self, at: u32) {
        let entry = self.entry_of_slot(&self.slots[at]);
        let root = self.entry(entry).timer;
        self.entry_mut(entry).timer = treap::insert(&mut ByDeadline(self), root, at);
    }

    fn stop_timer(&mut self, at: u32) {
        let entry = self.entry_of_slot(&self.slots[at]);
        let root = self.entry(entry).timer;
        self.entry_mut(entry).timer = treap::remove(&mut ByDeadline(self), root, at);
    }
}

/// The reserved and leased slots of a database, the first to expire first.
pub(crate) struct ByDeadline<'b, 'a>(pub(crate) &'b mut Board<'a>);

impl TreapNodes for ByDeadline<'_, '_> {
    fn seed(&self) -> u32 {
        self.0.globals.seed
    }
    fn links(&mut self, slot: u32) -> &mut TreapLinks {
        &mut self.0.slots[slot].links
    }
    fn before(&self, a: u32, b: u32) -> bool {
        (self.0.slots[a].deadline, a) < (self.0.slots[b].deadline, b)
    }
}
