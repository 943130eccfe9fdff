//! Leases: taking the best task, and keeping it.

pub mod ending;
pub mod timer;
pub mod workers;

use crate::board::Board;
use crate::board::refill::NeedsRefill;
use crate::layout::lane::{Lane, Order};
use crate::layout::names::{Name, WORKER_MAX};
use crate::layout::nodes::NIL;
use crate::layout::rank::Id;
use crate::layout::slot::{Flag, Flags, RowHint, Slot, State, Ticket, TokenHash};
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
    /// No lease is longer.
    pub longest: Micros,
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
    /// Where its row is.
    pub row: RowHint,
}

/// A lease as it was at one moment: its slot, and its worker.
#[derive(Clone, Copy, Debug)]
pub struct Lease {
    /// The slot.
    pub slot: Slot,
    /// The worker's name. Empty: the slot has no valid token.
    pub worker: Name<WORKER_MAX>,
}

impl std::ops::Deref for Lease {
    type Target = Slot;
    fn deref(&self) -> &Slot {
        &self.slot
    }
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
#[allow(clippy::large_enum_variant, reason = "taken apart at once")]
#[derive(Clone, Copy, Debug)]
pub enum Next {
    /// The slot of the next task.
    Task(u32),
    /// The next task, if there is one, is known to the table only.
    NeedsRefill(NeedsRefill),
    /// As this, and another process reads already.
    Refilling,
    /// The board does not cover the queue: the caller searches the table.
    Search,
    /// Nothing is to be handed out.
    Empty,
}

/// What became of a wish to extend a lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extended {
    /// The lease has this deadline now; `None`: it never expires.
    Yes(Option<Wall>),
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
    Lease(Ticket, Lease),
    /// A reservation. The task is queued again already, and nothing is to be written: the ownership
    /// is no try while its transaction is open.
    Reservation,
}

/// Why a lease cannot be ended, or a ready task not withdrawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The token is not valid. For `withdraw`: a worker owns the task.
    Stale,
    /// The token is that of an ownership by this other process, whose transaction has not ended.
    Reserved(i32),
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
        loop {
            let Some(queue) = queue.filter(|_| !self.is_searched(entry, queue)) else {
                let searched = self.is_searched(entry, queue);
                return if searched { Next::Search } else { Next::Empty };
            };
            let lane = match actions {
                _ if self.ages(queue) => self.best_aged_lane(queue, actions, now),
                None => self.best_head(queue).map(|head| self.next_below(head)),
                Some(actions) => (actions.iter())
                    .filter_map(|action| self.find_head(queue, action, Order::Priority))
                    .filter(|head| self.has_next(*head))
                    .min_by_key(|head| self.head_key(*head))
                    .map(|head| self.next_below(head)),
            };
            let Some(lane) = lane else { return Next::Empty };
            let group = self.lanes[lane].turns.group;
            if !self.is_group_full(queue, group) {
                return self.next_in_lane(lane);
            }
            // Its limit was lowered.
            self.park_or_unpark(queue, group);
        }
    }

    /// What is next in a lane that has something.
    pub(crate) fn next_in_lane(&self, lane: u32) -> Next {
        let it = &self.lanes[lane];
        if it.first != NIL && self.slots[it.first].rank() < it.cursor {
            Next::Task(it.first)
        } else if it.refiller != 0 {
            Next::Refilling
        } else {
            let action = Name::new(it.action());
            let Lane { cursor, lane_id, order, .. } = *it;
            let (group, head) = (self.group_of_lane(lane), self.lane_ref(self.head_of(lane)));
            Next::NeedsRefill(NeedsRefill { lane, cursor, action, order, group, lane_id, head })
        }
    }

    /// Reserves a queued slot for the claim's transaction, with its lease as it will be (I3).
    pub fn reserve(&mut self, at: u32, claim: &Claim, token_hash: TokenHash) -> Claimed {
        self.dequeue(at);
        self.join_worker(at, claim.worker, claim.now.wall);
        self.set_state(at, State::Reserved);
        let (queue, group) = (self.queue_of(at), self.slots[at].group);
        self.take_turn(queue, group);
        self.take_permit(queue);
        let timeout = self.queues[queue].settings.timeout;
        let generation = self.next_generation();
        let slot = &mut self.slots[at];
        slot.generation = generation;
        slot.holder = claim.holder;
        slot.claimed_by = claim.holder;
        slot.token_hash = token_hash;
        slot.flags = Flags::default();
        slot.progress = 0.0;
        slot.since_at = claim.now.wall;
        let given = [slot.timeout, timeout].into_iter().find(|timeout| *timeout > Micros::ZERO);
        let length = claim.length.or(given).unwrap_or(claim.fallback);
        slot.length = length.min(claim.longest);
        slot.lease_for(claim.now, slot.length);
        let claimed = Claimed {
            ticket: Ticket { slot: at, generation },
            id: slot.id,
            deadline_at: slot.deadline_at(),
            row: slot.row,
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
        let state = self.slots[ticket.slot].state;
        if state == State::Reserved {
            self.stop_timer(ticket.slot);
        }
        self.leave_worker(ticket.slot);
        match state {
            State::Reserved => self.requeue_slot(ticket.slot),
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
        self.note_seen(at, now.wall);
        let slot = &self.slots[at];
        let is_late = slot.deadline <= now.monotonic;
        match slot.state {
            State::Leased | State::Reserved if is_late && !self.may_revive(at) => {
                return Extended::No;
            }
            State::Leased | State::Reserved => self.stop_timer(at),
            State::Queued | State::Withheld if !self.may_revive(at) => return Extended::No,
            State::Queued if !self.fits(&mut self.room_of(entry)) => return Extended::No,
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
        let deadline = slot.deadline_at();
        if slot.state != State::Ending {
            self.start_timer(at);
        }
        Extended::Yes(deadline)
    }

    /// As `extend` of the lease that a task has, without its token; `None`: it has none.
    pub fn extend_any(
        &mut self,
        entry: u32,
        id: Id,
        now: Timestamp,
        length: Micros,
    ) -> Option<Extended> {
        let slot = self.slot_of(entry, id)?;
        let has_lease = match slot.state {
            State::Leased | State::Reserved => true,
            State::Ending => slot.is_expiring(),
            State::Queued | State::Withheld | State::Free => false,
        };
        let token_hash = slot.token_hash;
        has_lease.then(|| self.extend(entry, id, &token_hash, now, Some(length), None))
    }

    /// Leases a queued slot as a row of the table says, for one full length (I1).
    pub fn restore(&mut self, at: u32, lease: &PersistedLease, now: Timestamp) {
        if self.slots[at].state != State::Queued {
            return;
        }
        self.dequeue(at);
        self.join_worker(at, lease.worker, lease.since_at);
        self.set_state(at, State::Leased);
        let slot = &mut self.slots[at];
        slot.token_hash = lease.token_hash;
        slot.flags.set(Flag::InHistory, lease.in_history);
        slot.flags.set(Flag::Persisted, true);
        slot.flags.set(Flag::AgesLater, false);
        slot.progress = lease.progress;
        slot.since_at = lease.since_at;
        slot.length = lease.length;
        slot.lease_for(now, lease.length);
        self.start_timer(at);
    }

    /// The index of a slot's queue.
    fn queue_of(&self, at: u32) -> u32 {
        self.lanes[self.slots[at].lane].queue
    }

    fn slot_of_token(&self, entry: u32, id: Id, token_hash: &TokenHash) -> Option<u32> {
        self.find_slot(entry, id)
            .filter(|at| self.slots[*at].has_token() && self.slots[*at].token_hash == *token_hash)
    }
}
