//! When leases expire. A worker has a tree of its leases, and a database one of its workers, each
//! by the first deadline.

use crate::board::Board;
use crate::board::leases::{Expired, Lease};
use crate::containers::treap::{self, TreapNodes};
use crate::layout::nodes::{NIL, TreapLinks};
use crate::layout::rank::Id;
use crate::layout::slot::{EXPIRY, State, Ticket};
use crate::layout::worker::Worker;
use crate::time::Monotonic;

impl Board<'_> {
    /// Begins to end the first lease, or ends the first reservation, that has expired; `None`: none
    /// has.
    pub fn take_expired(&mut self, entry: u32, now: Monotonic) -> Option<Expired> {
        let at = self.first_to_expire(entry).filter(|at| self.slots[*at].deadline <= now)?;
        self.stop_timer(at);
        if self.slots[at].state == State::Reserved {
            self.requeue_slot(at);
            return Some(Expired::Reservation);
        }
        let (ticket, lease) = self.begin_expiry(at, EXPIRY);
        Some(Expired::Lease(ticket, lease))
    }

    /// Begins to end a lease that is in no timer any more.
    pub(crate) fn begin_expiry(&mut self, at: u32, holder: i32) -> (Ticket, Lease) {
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
        treap::first(&mut ByExpiry(self), root).map(|worker| self.workers[worker].first)
    }

    /// The first of a worker's reserved and leased slots behind one with this deadline.
    pub(crate) fn lease_after(
        &mut self,
        worker: u32,
        after: Option<(Monotonic, u32)>,
    ) -> Option<u32> {
        let root = self.workers[worker].leases;
        treap::seek(&mut ByDeadline(self), root, |it, at| {
            after.is_some_and(|after| (it.0.slots[at].deadline, at) <= after)
        })
    }

    /// Puts a slot, which has a worker, into the timers.
    pub(crate) fn start_timer(&mut self, at: u32) {
        let worker = self.slots[at].worker;
        let Worker { leases, first, .. } = self.workers[worker];
        let leases = treap::insert(&mut ByDeadline(self), leases, at);
        let leads = first == NIL || ByDeadline(self).before(at, first);
        self.set_timer(worker, leases, if leads { at } else { first });
    }

    /// Takes a slot out of the timers, before its deadline changes.
    pub(crate) fn stop_timer(&mut self, at: u32) {
        let worker = self.slots[at].worker;
        let Worker { leases, first, .. } = self.workers[worker];
        let leases = treap::remove(&mut ByDeadline(self), leases, at);
        let first = match first == at {
            true => treap::first(&mut ByDeadline(self), leases).unwrap_or(NIL),
            false => first,
        };
        self.set_timer(worker, leases, first);
    }

    /// Sets the tree of a worker's leases. The worker keeps its position among the others as long
    /// as its first deadline is the same, as it is when the leases of one call are returned.
    fn set_timer(&mut self, worker: u32, leases: u32, first: u32) {
        let Worker { entry, leases: before, next_expiry, .. } = self.workers[worker];
        let next = if first == NIL { Monotonic::NEVER } else { self.slots[first].deadline };
        let moves = (before == NIL) != (leases == NIL) || next != next_expiry;
        if moves && before != NIL {
            let root = self.entry(entry).timer;
            self.entry_mut(entry).timer = treap::remove(&mut ByExpiry(self), root, worker);
        }
        let it = &mut self.workers[worker];
        (it.leases, it.first, it.next_expiry) = (leases, first, next);
        if moves && leases != NIL {
            let root = self.entry(entry).timer;
            self.entry_mut(entry).timer = treap::insert(&mut ByExpiry(self), root, worker);
        }
    }
}

/// The reserved and leased slots of a worker, the first to expire first.
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

/// The workers of a database that have such, the one whose first lease expires first.
pub(crate) struct ByExpiry<'b, 'a>(pub(crate) &'b mut Board<'a>);

impl TreapNodes for ByExpiry<'_, '_> {
    fn seed(&self) -> u32 {
        self.0.globals.seed
    }
    fn links(&mut self, worker: u32) -> &mut TreapLinks {
        &mut self.0.workers[worker].by_expiry
    }
    fn before(&self, a: u32, b: u32) -> bool {
        (self.0.workers[a].next_expiry, a) < (self.0.workers[b].next_expiry, b)
    }
}
