//! Workers: which slots are theirs, and when they last called. A record is found by its worker and
//! its queue, so that each shows what one queue's role may look at.

use crate::board::Board;
use crate::board::leases::Lease;
use crate::containers::hash::hash;
use crate::containers::list::{self, ListNodes};
use crate::containers::pool::Pool;
use crate::layout::names::Name;
use crate::layout::nodes::{Link, NIL, TreapLinks};
use crate::layout::rank::Id;
use crate::layout::slot::{Slot, State, Ticket};
use crate::layout::worker::Worker;
use crate::time::{Monotonic, Wall};

impl Worker {
    fn is(&self, entry: u32, queue: &[u8], name: &[u8]) -> bool {
        self.entry == entry && self.queue.as_bytes() == queue && self.name.as_bytes() == name
    }
}

impl ListNodes for Pool<'_, Worker> {
    fn link(&mut self, worker: u32) -> &mut Link {
        &mut self[worker].idle_link
    }
}

/// How far the leases of a worker were taken. By default: none yet.
#[derive(Clone, Copy, Default, Debug)]
pub struct ReleaseCursor {
    /// The queue that is next.
    queue: u32,
    /// The deadline and the slot of the lease of this queue that was looked at last.
    after: Option<(Monotonic, u32)>,
}

impl Board<'_> {
    /// The record of a worker of a queue.
    pub(crate) fn find_worker(&self, entry: u32, queue: &[u8], name: &[u8]) -> Option<u32> {
        let hash = self.worker_hash(entry, queue, name);
        self.workers.find(hash, |it| it.is(entry, queue, name))
    }

    fn worker_hash(&self, entry: u32, queue: &[u8], name: &[u8]) -> u32 {
        hash(hash(entry ^ self.globals.seed, queue), name)
    }

    /// The record of a worker of a queue, made if it is new; `None`: each is in use.
    fn find_or_add_worker(
        &mut self,
        entry: u32,
        queue: &[u8],
        name: &[u8],
        now: Wall,
    ) -> Option<u32> {
        // One call takes many tasks for one worker.
        if self.called != NIL && self.workers[self.called].is(entry, queue, name) {
            return Some(self.called);
        }
        let found = match self.find_worker(entry, queue, name) {
            Some(found) => found,
            None => self.add_worker(entry, queue, name, now)?,
        };
        self.called = found;
        Some(found)
    }

    fn add_worker(&mut self, entry: u32, queue: &[u8], name: &[u8], now: Wall) -> Option<u32> {
        let oldest = self.entry(entry).idle_workers.first;
        if oldest != NIL && self.workers[oldest].is_forgotten(now) {
            self.free_worker(oldest);
        } else if self.workers.is_full() {
            self.make_room_for_worker(entry)?;
        }
        let worker = Worker {
            entry,
            leases: NIL,
            first: NIL,
            slots: 0,
            next_expiry: Monotonic::NEVER,
            by_expiry: TreapLinks::NONE,
            idle_link: Link::NONE,
            last_seen: now,
            running: 0,
            draining: false,
            signalled: false,
            name: Name::new(name),
            queue: Name::new(queue),
        };
        let added = self.workers.add(self.worker_hash(entry, queue, name), worker)?;
        self.push_idle_worker(added);
        Some(added)
    }

    /// Forgets an idle worker, so that `entry` can have another: of the database that has the most
    /// idle ones, the first. `None`: none is idle.
    fn make_room_for_worker(&mut self, entry: u32) -> Option<()> {
        let idle = |it: &u32| (self.entry(*it).idle_workers_len, *it == entry);
        let most = (0..self.registered().len() as u32).max_by_key(idle)?;
        let worker = Some(self.entry(most).idle_workers.first).filter(|it| *it != NIL)?;
        self.free_worker(worker);
        Some(())
    }

    /// Frees the record of an idle worker.
    fn free_worker(&mut self, worker: u32) {
        self.remove_idle_worker(worker);
        if self.workers[worker].draining {
            self.entry_mut(self.workers[worker].entry).draining -= 1;
        }
        self.workers[worker].name = Name::EMPTY;
        self.workers.free(worker);
        self.called = NIL;
    }

    fn push_idle_worker(&mut self, worker: u32) {
        let entry = &mut self.globals.entries[self.workers[worker].entry as usize];
        entry.idle_workers_len += 1;
        list::push(&mut self.workers, &mut entry.idle_workers, worker);
    }

    fn remove_idle_worker(&mut self, worker: u32) {
        let entry = &mut self.globals.entries[self.workers[worker].entry as usize];
        entry.idle_workers_len -= 1;
        list::remove(&mut self.workers, &mut entry.idle_workers, worker);
    }

    /// Notes that a worker asked for tasks of a queue, or called about no queue. Whether it may own
    /// nothing.
    pub fn note_worker(&mut self, entry: u32, queue: &[u8], name: &[u8], now: Wall) -> bool {
        let drains = self.drains(entry, name);
        // Without a record it is shown no sooner than with its first lease.
        if let Some(worker) = self.find_or_add_worker(entry, queue, name, now) {
            self.workers[worker].last_seen = now;
            if self.workers[worker].slots == 0 {
                self.remove_idle_worker(worker);
                self.push_idle_worker(worker);
            }
        }
        drains
    }

    /// Whether a worker is asked to stop: it owns nothing more.
    pub fn drains(&self, entry: u32, name: &[u8]) -> bool {
        self.entry(entry).draining > 0
            && self.find_worker(entry, b"", name).is_some_and(|it| self.workers[it].draining)
    }

    /// Asks a worker to stop, or does not any more. Nothing where there is no record for it.
    pub fn drain_worker(&mut self, entry: u32, name: &[u8], drains: bool, now: Wall) {
        let found = match drains {
            true => self.find_or_add_worker(entry, b"", name, now),
            false => self.find_worker(entry, b"", name),
        };
        let Some(worker) = found else { return };
        let before = std::mem::replace(&mut self.workers[worker].draining, drains);
        let it = self.entry_mut(entry);
        it.draining = it.draining + u32::from(drains) - u32::from(before);
        if drains && !before {
            self.wake_worker(entry, name, false);
        }
    }

    /// Notes that the worker of a slot called, if the slot has one.
    pub fn note_seen(&mut self, at: u32, now: Wall) {
        let worker = self.slots[at].worker;
        if worker != NIL {
            self.workers[worker].last_seen = now;
        }
    }

    /// Gives a slot, which is in no timer, to a worker.
    pub(crate) fn join_worker(&mut self, at: u32, name: &[u8], now: Wall) {
        self.leave_worker(at);
        let queue = &self.queues[self.lanes[self.slots[at].lane].queue];
        let (entry, queue) = (queue.entry, queue.name);
        // The slot has none, so that one of as many records as slots is free or idle.
        let worker = self.find_or_add_worker(entry, queue.as_bytes(), name, now);
        let worker = worker.expect("a record for each slot");
        if self.workers[worker].slots == 0 {
            self.remove_idle_worker(worker);
        }
        let slot = &mut self.slots[at];
        slot.worker = worker;
        let it = &mut self.workers[worker];
        it.slots += 1;
        it.running += u32::from(slot.has_place());
        it.last_seen = it.last_seen.max(now);
    }

    /// Makes a slot, which is in no timer, no worker's: its token is not valid any more.
    pub(crate) fn leave_worker(&mut self, at: u32) {
        let slot = &mut self.slots[at];
        if !slot.has_token() {
            return;
        }
        let worker = std::mem::replace(&mut slot.worker, NIL);
        let it = &mut self.workers[worker];
        it.slots -= 1;
        it.running -= u32::from(slot.has_place());
        if it.slots == 0 {
            self.push_idle_worker(worker);
        }
    }

    /// A slot together with its worker's name.
    pub fn lease(&self, slot: &Slot) -> Lease {
        let worker = slot.has_token().then(|| self.workers[slot.worker].name);
        Lease { slot: *slot, worker: worker.unwrap_or(Name::EMPTY) }
    }

    /// The lease of a task, with its ticket.
    pub fn lease_of(&self, entry: u32, id: Id) -> Option<(Ticket, Lease)> {
        let at = self.find_slot(entry, id)?;
        let slot = &self.slots[at];
        slot.has_lease().then(|| (slot.ticket(at), self.lease(slot)))
    }

    /// The worker at an index, if it is one of this database, and when the first of its leases
    /// expires, if it does.
    pub fn worker_at(&self, at: u32, entry: u32) -> Option<(&Worker, Option<Wall>)> {
        // A record that `clear` made unused still has the fields that it had.
        let it = (at < self.workers.end()).then(|| &self.workers[at])?;
        let is_used = !it.name.as_bytes().is_empty() && it.entry == entry;
        let first = (it.first != NIL).then_some(it.first);
        is_used.then(|| (it, first.and_then(|first| self.slots[first].deadline_at())))
    }

    /// The end of the indexes for `worker_at`.
    pub fn workers_end(&self) -> u32 {
        self.workers.end()
    }

    /// Begins to end the leases of a worker in all queues as if they had expired, and shows each to
    /// `take`. Looks at `count` leases and queues; returns where to go on, or `None` at the end.
    pub fn take_leases(
        &mut self,
        entry: u32,
        name: &[u8],
        holder: i32,
        mut cursor: ReleaseCursor,
        count: usize,
        mut take: impl FnMut(Ticket, Lease),
    ) -> Option<ReleaseCursor> {
        for _ in 0..count {
            if cursor.queue >= self.queues.end() {
                return None;
            }
            let queue = self.is_queue(cursor.queue, entry).then(|| self.queues[cursor.queue].name);
            let worker = queue.and_then(|queue| self.find_worker(entry, queue.as_bytes(), name));
            match worker.and_then(|worker| self.lease_after(worker, cursor.after)) {
                Some(at) => {
                    cursor.after = Some((self.slots[at].deadline, at));
                    if self.slots[at].state == State::Leased {
                        self.stop_timer(at);
                        let (ticket, lease) = self.begin_expiry(at, holder);
                        take(ticket, lease);
                    }
                }
                None => {
                    cursor = ReleaseCursor { queue: cursor.queue + 1, after: None };
                }
            }
        }
        Some(cursor)
    }

    /// Forgets at most so many of a database's idle workers; whether there may be more.
    pub(crate) fn forget_workers(&mut self, entry: u32, count: u32) -> bool {
        (0..count).all(|_| {
            let worker = self.entry(entry).idle_workers.first;
            let is_one = worker != NIL;
            if is_one {
                self.free_worker(worker);
            }
            is_one
        })
    }
}
