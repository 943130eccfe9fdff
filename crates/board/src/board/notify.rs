//! Which queues got ready tasks, and which tasks settled, until the scheduler has announced it.
//!
//! A queue that is to be announced is in its database's list once, however many tasks it gets, and
//! may outlive its lanes there. It stays in the list as long as processes wait for its work though it
//! has something: at each round the scheduler wakes another one.

use crate::board::waiters::WaitFor;
use crate::board::{Board, MAX_PARKED};
use crate::containers::list::{self, ListNodes};
use crate::containers::pool::Pool;
use crate::layout::names::{Name, QUEUE_MAX};
use crate::layout::nodes::{Chain, Link, NIL};
use crate::layout::notice::Notice;
use crate::layout::queue::{NotifyState, Queue};
use crate::layout::rank::Id;
use crate::time::{Micros, Monotonic};

/// When so many tasks got ready since the last round, the next one comes after `BUSY_INTERVALS`: each
/// announcement wakes all who listen, and they take the processor from those who submit.
const BUSY: u32 = 32;
const BUSY_INTERVALS: i64 = 8;

impl ListNodes for Pool<'_, Notice> {
    fn link(&mut self, node: u32) -> &mut Link {
        &mut self[node].link
    }
}

impl ListNodes for Pool<'_, Queue> {
    fn link(&mut self, node: u32) -> &mut Link {
        &mut self[node].link
    }
}

/// What a notification round has to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotifyRound {
    /// How many queues to go through.
    pub queues: u32,
    /// Whether anything is to be announced.
    pub unsent: bool,
}

impl Board<'_> {
    /// Notes that a queue got a ready task: wakes a process that waits for one, and has the scheduler
    /// announce the queue.
    pub(crate) fn note_ready(&mut self, queue: u32) {
        if self.globals.waiting > 0 {
            self.wake_queue(queue);
        }
        let entry = self.queues[queue].entry;
        self.globals.entries[entry as usize].ready_since_round += 1;
        if self.queues[queue].notify != NotifyState::Pending {
            self.note_pending(queue);
        }
    }

    fn note_pending(&mut self, queue: u32) {
        let it = &mut self.queues[queue];
        let (entry, in_rounds) = (it.entry as usize, it.notify == NotifyState::Sent);
        it.notify = NotifyState::Pending;
        self.globals.entries[entry].unsent += 1;
        if !in_rounds {
            self.add_to_rounds(queue);
        }
    }

    /// Notes that a process begins to wait: if the queue has something, rounds wake one process after
    /// the other.
    pub(crate) fn note_waiter(&mut self, entry: u32, queue: &[u8]) {
        let found = self.find_queue(entry, queue);
        if let Some(queue) = found.filter(|queue| {
            let it = &self.queues[*queue];
            it.fronts != NIL && it.notify == NotifyState::Idle
        }) {
            self.queues[queue].notify = NotifyState::Sent;
            self.add_to_rounds(queue);
        }
    }

    fn add_to_rounds(&mut self, queue: u32) {
        let entry = &mut self.globals.entries[self.queues[queue].entry as usize];
        entry.in_rounds_len += 1;
        list::push(&mut self.queues, &mut entry.in_rounds, queue);
    }

    fn wake_queue(&mut self, queue: u32) -> bool {
        let Queue { entry, name, chain, .. } = self.queues[queue];
        self.wake_first(entry, chain.hash, WaitFor::Work(name.as_bytes()))
    }

    /// Takes a queue out of its database's list.
    fn take_from_rounds(&mut self, queue: u32) {
        let it = &mut self.queues[queue];
        let notify = std::mem::replace(&mut it.notify, NotifyState::Idle);
        let entry = &mut self.globals.entries[it.entry as usize];
        if notify != NotifyState::Idle {
            list::remove(&mut self.queues, &mut entry.in_rounds, queue);
            entry.in_rounds_len -= 1;
            entry.unsent -= u32::from(notify == NotifyState::Pending);
        }
    }

    /// Frees a queue that has lost its last lane, or keeps it to be announced.
    pub(crate) fn release_queue(&mut self, queue: u32) {
        let is_idle = self.queues[queue].notify == NotifyState::Idle;
        if !is_idle && (self.globals.parked as usize) < MAX_PARKED {
            self.globals.parked += 1;
        } else {
            self.take_from_rounds(queue);
            self.queues.free(queue);
        }
    }

    /// Notes that a task has settled whose end may be waited for.
    pub fn note_settled(&mut self, entry: u32, id: Id) {
        self.wake_all(entry, id);
        let notice = Notice { id, chain: Chain::NONE, link: Link::NONE };
        // When there is no room the announcement is lost, and nothing else.
        if let Some(at) = self.notices.add(self.id_hash(entry, id), notice) {
            let entry = &mut self.globals.entries[entry as usize];
            entry.unsent += 1;
            list::push(&mut self.notices, &mut entry.notices, at);
        }
    }

    /// When the next notification round begins.
    pub fn next_round(&self, entry: u32) -> Monotonic {
        let entry = self.entry(entry);
        if entry.unsent > 0 || entry.in_rounds_len > 0 {
            entry.quiet_until
        } else {
            Monotonic::NEVER
        }
    }

    /// Begins a notification round, if it is time. The next one comes after the interval, or after
    /// some of them when many tasks got ready.
    pub fn begin_round(
        &mut self,
        entry: u32,
        now: Monotonic,
        interval: Micros,
    ) -> Option<NotifyRound> {
        if self.next_round(entry) > now {
            return None;
        }
        let entry = self.entry_mut(entry);
        let busy = std::mem::take(&mut entry.ready_since_round) >= BUSY;
        entry.quiet_until = now + if busy { interval * BUSY_INTERVALS } else { interval };
        Some(NotifyRound { queues: entry.in_rounds_len, unsent: entry.unsent > 0 })
    }

    /// Goes on with the first queue of the list. Returns its name if it is to be announced and the
    /// caller announces. A queue that was announced before and has something wakes another waiter.
    pub fn next_queue_to_notify(&mut self, entry: u32, announces: bool) -> Option<Name<QUEUE_MAX>> {
        let queue = Some(self.entry(entry).in_rounds.first).filter(|queue| *queue != NIL)?;
        let Queue { name, notify, lanes, fronts, chain, .. } = self.queues[queue];
        self.take_from_rounds(queue);
        if notify == NotifyState::Pending && !announces {
            self.note_pending(queue);
            return None;
        }
        // In a paused database no process is to be woken; opening it surveys all lanes.
        let has_work = fronts != NIL && self.entry(entry).may_hand_out();
        if notify == NotifyState::Sent && has_work {
            self.wake_queue(queue);
        }
        if has_work && self.has_waiter(entry, chain.hash, WaitFor::Work(name.as_bytes())) {
            self.queues[queue].notify = NotifyState::Sent;
            self.add_to_rounds(queue);
        } else if lanes == 0 {
            self.globals.parked -= 1;
            self.queues.free(queue);
        }
        (notify == NotifyState::Pending).then_some(name)
    }

    /// The next task to be announced as settled.
    pub fn next_settled(&mut self, entry: u32) -> Option<Id> {
        let entry = &mut self.globals.entries[entry as usize];
        let at = list::pop(&mut self.notices, &mut entry.notices)?;
        entry.unsent -= 1;
        let id = self.notices[at].id;
        self.notices.free(at);
        Some(id)
    }

    /// Forgets at most so many of a database's announcements; false when there are none left.
    pub(crate) fn forget_notifications(&mut self, entry: u32, count: u32) -> bool {
        for _ in 0..count {
            let queue = self.entry(entry).in_rounds.first;
            if queue != NIL {
                self.take_from_rounds(queue);
                if self.queues[queue].lanes == 0 {
                    self.globals.parked -= 1;
                    self.queues.free(queue);
                }
            } else if self.next_settled(entry).is_none() {
                return false;
            }
        }
        true
    }
}
