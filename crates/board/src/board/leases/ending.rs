//! The ways in which ownership ends.

use crate::board::Board;
use crate::board::leases::{Lease, Refusal};
use crate::layout::names::LaneName;
use crate::layout::nodes::NIL;
use crate::layout::rank::{Id, Rank};
use crate::layout::slot::{Flag, State, Ticket, TokenHash};
use crate::time::{Micros, Monotonic};

impl Board<'_> {
    /// Begins to end a lease: compares the token and marks the slot in one step (I7). Returns the
    /// right to commit or undo that, and the lease.
    pub fn begin_end(
        &mut self,
        entry: u32,
        id: Id,
        token_hash: &TokenHash,
        holder: i32,
    ) -> Result<(Ticket, Lease), Refusal> {
        let at = self.slot_of_token(entry, id, token_hash).ok_or(Refusal::Stale)?;
        let slot = &self.slots[at];
        match slot.state {
            State::Leased => self.stop_timer(at),
            State::Reserved if slot.holder == holder => self.stop_timer(at),
            State::Queued if slot.claimed_by != 0 && slot.claimed_by != holder => {
                return Err(Refusal::Stale);
            }
            State::Queued => self.dequeue(at),
            State::Withheld => {}
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
            State::Withheld => Ok(self.mark_ending(at, holder).0),
            State::Ending if slot.is_expiring() => Err(Refusal::Busy),
            State::Ending => Err(Refusal::Ending),
            State::Leased | State::Reserved | State::Free => Err(Refusal::Stale),
        })
    }

    /// Gives a slot to a transaction that ends its lease.
    pub(crate) fn mark_ending(&mut self, at: u32, holder: i32) -> (Ticket, Lease) {
        self.change_place(at, |slot| {
            // A withheld task is as one that is queued.
            let withheld = slot.state == State::Withheld;
            slot.previous_state = if withheld { State::Queued } else { slot.state };
            slot.state = State::Ending;
        });
        let slot = &mut self.slots[at];
        slot.holder = holder;
        slot.flags.set(Flag::Reoffered, false);
        let slot = &self.slots[at];
        (Ticket { slot: at, generation: slot.generation }, self.lease(&self.slots[at]))
    }

    /// The ending's transaction rolled back: the lease goes on as it was, and does not expire
    /// before `retry_at`.
    pub fn undo_end(&mut self, ticket: Ticket, retry_at: Monotonic) {
        if !self.is_at(ticket, State::Ending) {
            return;
        }
        let slot = &mut self.slots[ticket.slot];
        slot.holder = slot.claimed_by;
        slot.deadline = slot.deadline.max(retry_at);
        let previous_state = slot.previous_state;
        if previous_state != State::Queued {
            slot.state = previous_state;
        }
        match previous_state {
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
        if expired {
            self.signal_lease_ended(at);
        }
        let slot = &mut self.slots[at];
        slot.flags.set(Flag::InHistory, expired);
        slot.claimed_by = 0;
        slot.progress = 0.0;
        self.note_lease_ended(at);
        if !expired {
            self.leave_worker(at);
        }
    }

    /// The ending committed and the task is settled, deleted, or waits.
    pub fn commit_end(&mut self, ticket: Ticket) {
        if self.is_at(ticket, State::Ending) {
            self.free_slot(ticket.slot);
        }
    }

    /// A reserved slot is a stray: the transaction does not see its task as ready in the table
    /// (I5). `hidden`: by a change of its own, perhaps, so that others may see it as ready.
    pub fn drop_stray(&mut self, ticket: Ticket, hidden: bool) {
        let is_claimed = self.is_at(ticket, State::Reserved) || self.is_at(ticket, State::Queued);
        if is_claimed && self.slots[ticket.slot].claimed_by != 0 {
            let queue = self.queue_of(ticket.slot);
            self.give_permit_back(queue);
            if hidden {
                // The lane's next refill looks again (I4).
                self.slots[ticket.slot].flags.set(Flag::Reoffered, true);
            }
            let (lane, rank) = (self.slots[ticket.slot].lane, self.slots[ticket.slot].rank());
            if self.slots[ticket.slot].is_in_line() {
                // It may keep its place.
                self.leave_to_table(lane, rank);
            }
            self.drop_slot(ticket.slot);
        }
    }

    /// The task is no longer ready: its slot goes, whatever state it is in (I3), and processes that
    /// wait for its end look again.
    pub fn remove_task(&mut self, entry: u32, id: Id) {
        self.wake_all(entry, id);
        if let Some(at) = self.find_slot(entry, id) {
            if matches!(self.slots[at].state, State::Leased | State::Reserved) {
                self.signal_lease_ended(at);
            }
            self.drop_slot(at);
        }
    }

    /// Tells the worker of a slot that its lease has ended without it.
    fn signal_lease_ended(&mut self, at: u32) {
        if self.slots[at].has_token() {
            let worker = &self.workers[self.slots[at].worker];
            let (entry, name) = (worker.entry, worker.name);
            self.signal_worker(entry, name.as_bytes());
        }
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
    pub(crate) fn requeue_slot(&mut self, at: u32) {
        if self.is_outdated(self.slots[at].lane) {
            let entry = self.entry_of_slot(&self.slots[at]);
            self.change_lane(entry, at);
            if self.is_outdated(self.slots[at].lane) {
                return self.leave_outdated(entry, at);
            }
        }
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

    /// Leaves a task to the table for whose lane there is no place.
    fn leave_outdated(&mut self, entry: u32, at: u32) {
        let (lane, rank) = (self.slots[at].lane, self.slots[at].rank());
        let (queue, action) = (self.queues[self.lanes[lane].queue].name, self.action_of(at));
        let group = self.group_of_lane(lane);
        self.set_state(at, State::Withheld);
        self.free_slot(at);
        self.note_spilled(entry);
        let name = LaneName { queue: queue.as_bytes(), action: action.as_bytes(), group };
        self.read_again(entry, name, rank);
        self.wake_for_table(entry, name);
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
        self.leave_worker(at);
        let had_place = self.slots[at].has_place();
        let (lane, rank) = (self.slots[at].lane, self.slots[at].rank());
        if self.slots[at].is_in_line() && !had_place {
            // It may keep its place: the line is read again.
            self.leave_to_table(lane, rank);
        }
        self.set_state(at, State::Free);
        if self.slots[at].flags.has(Flag::Reoffered) {
            self.leave_to_table(lane, rank);
            self.note_left(lane, had_place);
        } else if had_place {
            self.note_freed(self.lanes[lane].queue);
        } else if self.is_line(lane) {
            self.note_ready(lane);
        }
        let head = self.slots[at].head;
        self.slots.free(at);
        self.note_slot_freed(lane);
        if head != NIL {
            self.release_head(head);
        }
    }

    /// Counts a lease that has ended, if the scheduler has to delete its row.
    fn note_lease_ended(&mut self, at: u32) {
        if self.slots[at].is_persisted() {
            self.slots[at].flags.set(Flag::Persisted, false);
            let entry = self.entry_of_slot(&self.slots[at]);
            self.entry_mut(entry).ended_persisted += 1;
        }
    }
}
