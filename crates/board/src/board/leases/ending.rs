//! The ways in which ownership ends.

use crate::board::Board;
use crate::board::leases::{Lease, Refusal};
use crate::layout::lane::Lane;
use crate::layout::names::LaneName;
use crate::layout::nodes::NIL;
use crate::layout::rank::{Id, Rank};
use crate::layout::slot::{Flag, Slot, State, Ticket, TokenHash};
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
                return Err(Refusal::Reserved(slot.claimed_by));
            }
            State::Queued => self.dequeue(at),
            State::Withheld => {}
            State::Ending if slot.is_expiring() => return Err(Refusal::Busy),
            State::Ending => return Err(Refusal::Ending),
            State::Reserved => return Err(Refusal::Reserved(slot.claimed_by)),
            State::Free => return Err(Refusal::Stale),
        }
        Ok(self.mark_ending(at, holder))
    }

    /// As `begin_end` of the lease that a task has, without its token; `None`: no worker has a
    /// lease of it but by another open transaction.
    pub fn begin_end_of_any(
        &mut self,
        entry: u32,
        id: Id,
        holder: i32,
    ) -> Option<Result<(Ticket, Lease), Refusal>> {
        let slot = self.slot_of(entry, id)?;
        let has_lease = match slot.state {
            State::Leased => true,
            State::Reserved => slot.holder == holder,
            _ => slot.is_expiring(),
        };
        let token_hash = slot.token_hash;
        has_lease.then(|| self.begin_end(entry, id, &token_hash, holder))
    }

    /// Takes a ready task that no worker owns off its lane, for a transaction that ends it or makes
    /// it wait; its slot is made if the lane has not come to it. `None`: no slot can be made or
    /// pinned, since the free ones are other databases' shares.
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
            State::Queued if !self.fits(&mut self.room_of(entry)) => {
                self.release_unpinned(at);
                return None;
            }
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

    /// The ending committed and the task is ready again: the lease was taken from its worker, which
    /// is told so. Its token is not valid any more.
    pub fn revoke(&mut self, ticket: Ticket) {
        if self.is_at(ticket, State::Ending) {
            self.signal_lease_ended(ticket.slot);
            self.end_lease(ticket.slot, false);
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
            self.note_group_of(ticket.slot);
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
            self.drop_slot(ticket.slot);
        }
    }

    /// The task is no longer ready: its slot goes, whatever state it is in (I3), and processes that
    /// wait for its end look again.
    pub fn remove_task(&mut self, entry: u32, id: Id) {
        self.wake_all(entry, id);
        if let Some(at) = self.find_slot(entry, id) {
            self.note_group_of(at);
            if matches!(self.slots[at].state, State::Leased | State::Reserved) {
                self.signal_lease_ended(at);
            }
            self.drop_slot(at);
        }
    }

    /// A task was not submitted, or brought forward, after all: it is not handed out.
    pub fn undo_offer(&mut self, entry: u32, id: Id) {
        let is_free = |at: &u32| {
            let it = &self.slots[*at];
            it.state == State::Queued && it.claimed_by == 0
        };
        if let Some(at) = self.find_slot(entry, id).filter(is_free) {
            self.note_group_of(at);
            self.drop_slot(at);
        }
    }

    /// Tells the worker of a slot that its lease has ended without it.
    fn signal_lease_ended(&mut self, at: u32) {
        if self.slots[at].has_token() {
            self.signal_worker(self.slots[at].worker);
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

    /// Queues a slot again, or leaves its task to the table when its lane has moved past it, or
    /// finds no place. A slot whose token is valid stays as long as there is room, beside the lane
    /// if need be.
    pub(crate) fn requeue_slot(&mut self, at: u32) {
        // An older task may have come meanwhile; and without the slot the group is not found any
        // more.
        self.note_group_of(at);
        let (rank, had_place) = (self.slots[at].rank(), self.slots[at].has_place());
        let head = self.slots[at].lane;
        match self.lane_of_slot(at) {
            Some(lane) if rank < self.lanes[lane].cursor => {
                self.move_slot(at, lane);
                self.enqueue(at);
                self.note_left(lane, had_place);
            }
            None if self.slots[at].has_token() => {
                self.enqueue(at);
                self.note_left_to_table(head, had_place);
            }
            _ => {
                self.set_state(at, State::Withheld);
                self.slots[at].flags.set(Flag::Reoffered, true);
                self.free_slot(at);
            }
        }
    }

    /// The lane that keeps a slot's task; `None`: a search of the table finds it.
    fn lane_of_slot(&mut self, at: u32) -> Option<u32> {
        let Slot { lane, group, priority, .. } = self.slots[at];
        let Lane { queue, action, .. } = self.lanes[lane];
        let (entry, name) = (self.queues[queue].entry, self.queues[queue].name);
        let group = (group != NIL).then(|| self.groups[group].hash);
        let name = LaneName { queue: name.as_bytes(), action: action.as_bytes(), group };
        self.lane_to_keep(entry, name, priority)
    }

    /// Notes that a task is ready again that only the table knows, or that is beside its lane.
    fn note_left_to_table(&mut self, head: u32, had_place: bool) {
        let Lane { queue, action, .. } = self.lanes[head];
        if had_place && self.is_limited(queue) {
            self.note_freed(queue);
        } else {
            self.wake_beside_lanes(queue, Some(action.as_bytes()));
        }
    }

    /// The lane in which a slot's task belongs, if it is there.
    fn own_lane(&self, at: u32) -> Option<u32> {
        let Slot { lane, group, priority, .. } = self.slots[at];
        let Lane { queue, action, .. } = &self.lanes[lane];
        self.find_lane(*queue, action.as_bytes(), self.order(*queue, priority), group)
    }

    /// Drops a slot that `ensure_slot` made, if it is not pinned and its task's lane is not there.
    pub fn release_unpinned(&mut self, at: u32) {
        if self.slots[at].state == State::Queued && self.own_lane(at) != Some(self.slots[at].lane) {
            self.drop_slot(at);
        }
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
        let lane = self.slots[at].lane;
        self.set_state(at, State::Free);
        if self.slots[at].flags.has(Flag::Reoffered) {
            self.leave_slot_to_table(at, had_place);
        } else if had_place {
            self.note_freed(self.lanes[lane].queue);
        }
        let group = self.slots[at].group;
        self.slots.free(at);
        self.leave_slots(group);
        self.note_slot_freed(lane);
    }

    /// Leaves the task of a slot that goes to the table, where it is ready.
    fn leave_slot_to_table(&mut self, at: u32, had_place: bool) {
        match self.lane_of_slot(at) {
            Some(lane) => {
                self.leave_to_table(lane, self.slots[at].rank());
                self.note_left(lane, had_place);
            }
            None => self.note_left_to_table(self.slots[at].lane, had_place),
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
