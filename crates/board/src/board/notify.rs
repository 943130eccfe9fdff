//! NotifyState: which queues got ready tasks, and which tasks settled, until the clock has announced it.
//!
//! A queue with news stands in its entry's list, at most once however many tasks it gets, and
//! outlives its lanes in it. It stays there as long as somebody waits though it has something: then
//! the clock wakes another at each round.

use crate::board::Board;
use crate::board::lanes::Queue;
use crate::board::waiters::WaitFor;
use crate::containers::list::{self, Link, Links};
use crate::containers::pool::{Chain, NIL, Node, Pool};
use crate::layout::names::{Name, QUEUE_MAX};
use crate::layout::rank::Id;
use crate::time::{Micros, Monotonic};

/// From how many ready tasks on, since the last round, the next one comes after so many intervals: each
/// announcement wakes all who listen, and they take the processor from those who submit.
const BUSY: u32 = 32;
const BUSY_INTERVALS: i64 = 8;

/// How many queues without lanes may be kept for their news; beyond that the news are dropped.
pub const MAX_PARKED: usize = 256;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum NotifyState {
    Idle,
    /// To be announced.
    Pending,
    /// Announced; others wait still.
    Sent,
}

/// A task that has settled, to be announced.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Settled {
    id: Id,
    chain: Chain,
    link: Link,
}

impl Node for Settled {
    fn chain(&mut self) -> &mut Chain {
        &mut self.chain
    }
    fn chain_ref(&self) -> &Chain {
        &self.chain
    }
}

impl Links for Pool<'_, Settled> {
    fn link(&mut self, node: u32) -> &mut Link {
        &mut self[node].link
    }
}

impl Links for Pool<'_, Queue> {
    fn link(&mut self, node: u32) -> &mut Link {
        &mut self[node].link
    }
}

/// What the clock has before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotifyRound {
    /// Queues to go through.
    pub queues: u32,
    /// Whether anything is to be announced.
    pub unsent: bool,
}

impl Board<'_> {
    /// A queue got a ready task: one who waits for it is woken, and the clock has something to say.
    pub(crate) fn note_ready(&mut self, queue: u32) {
        if self.head.waiting > 0 {
            self.wake_queue(queue);
        }
        let entry = self.queues[queue].entry;
        self.head.entries[entry as usize].noted += 1;
        if self.queues[queue].news != NotifyState::Pending {
            self.note_pending(queue);
        }
    }

    fn note_pending(&mut self, queue: u32) {
        let it = &mut self.queues[queue];
        let (entry, listed) = (it.entry as usize, it.news == NotifyState::Sent);
        it.news = NotifyState::Pending;
        self.head.entries[entry].unsent += 1;
        if !listed {
            self.list_queue(queue);
        }
    }

    /// Somebody begins to wait: if the queue has something, the clock is to wake one after the other.
    pub(crate) fn note_waiter(&mut self, entry: u32, queue: &[u8]) {
        let found = self.find_queue(entry, queue);
        if let Some(queue) = found.filter(|queue| {
            let it = &self.queues[*queue];
            it.fronts != NIL && it.news == NotifyState::Idle
        }) {
            self.queues[queue].news = NotifyState::Sent;
            self.list_queue(queue);
        }
    }

    fn list_queue(&mut self, queue: u32) {
        let entry = &mut self.head.entries[self.queues[queue].entry as usize];
        entry.listed += 1;
        list::push(&mut self.queues, &mut entry.news, queue);
    }

    fn wake_queue(&mut self, queue: u32) -> bool {
        let Queue { entry, name, chain, .. } = self.queues[queue];
        self.wake_first(entry, chain.hash(), WaitFor::Work(name.as_bytes()))
    }

    /// Takes a queue out of its entry's list.
    pub(crate) fn unlist_queue(&mut self, queue: u32) {
        let it = &mut self.queues[queue];
        let news = std::mem::replace(&mut it.news, NotifyState::Idle);
        let entry = &mut self.head.entries[it.entry as usize];
        if news != NotifyState::Idle {
            list::remove(&mut self.queues, &mut entry.news, queue);
            entry.listed -= 1;
            entry.unsent -= u32::from(news == NotifyState::Pending);
        }
    }

    /// A queue has lost its last lane: it is freed, or kept for its news.
    pub(crate) fn release_queue(&mut self, queue: u32) {
        if self.queues[queue].news != NotifyState::Idle && (self.head.parked as usize) < MAX_PARKED
        {
            self.head.parked += 1;
        } else {
            self.unlist_queue(queue);
            self.queues.free(queue);
        }
    }

    /// A task whose end may be waited for has settled.
    pub fn note_settled(&mut self, entry: u32, id: Id) {
        self.wake_all(entry, id);
        let settled = Settled { id, chain: Chain::NONE, link: Link::NONE };
        // Beyond what there is room for the announcement is lost, and nothing else.
        if let Some(at) = self.settled.add(self.slot_hash(entry, id), settled) {
            let entry = &mut self.head.entries[entry as usize];
            entry.unsent += 1;
            list::push(&mut self.settled, &mut entry.settled, at);
        }
    }

    /// When the scheduler is to announce what there is.
    pub fn next_announcement(&self, entry: u32) -> Monotonic {
        let entry = self.entry(entry);
        if entry.unsent > 0 || entry.listed > 0 { entry.quiet_until } else { Monotonic::NEVER }
    }

    /// Begins a round of announcements, if it is time; the next one comes after the interval, or some
    /// of them when much happens.
    pub fn begin_round(
        &mut self,
        entry: u32,
        now: Monotonic,
        interval: Micros,
    ) -> Option<NotifyRound> {
        if self.next_announcement(entry) > now {
            return None;
        }
        let entry = self.entry_mut(entry);
        let busy = std::mem::take(&mut entry.noted) >= BUSY;
        entry.quiet_until = now + if busy { interval * BUSY_INTERVALS } else { interval };
        Some(NotifyRound { queues: entry.listed, unsent: entry.unsent > 0 })
    }

    /// Goes on with the first queue of the list: its name, if it is to be announced and the caller
    /// is `telling`. A queue that was announced before and has something still wakes another waiter.
    pub fn next_queue_to_notify(&mut self, entry: u32, telling: bool) -> Option<Name<QUEUE_MAX>> {
        let queue = Some(self.entry(entry).news.first).filter(|queue| *queue != NIL)?;
        let Queue { name, news, lanes, fronts, chain, .. } = self.queues[queue];
        self.unlist_queue(queue);
        if news == NotifyState::Pending && !telling {
            self.note_pending(queue);
            return None;
        }
        // In a closed database nobody is to be woken; opening it surveys all lanes.
        let has_work = fronts != NIL && !self.entry(entry).paused;
        if news == NotifyState::Sent && has_work {
            self.wake_queue(queue);
        }
        if has_work && self.has_waiter(entry, chain.hash(), WaitFor::Work(name.as_bytes())) {
            self.queues[queue].news = NotifyState::Sent;
            self.list_queue(queue);
        } else if lanes == 0 {
            self.head.parked -= 1;
            self.queues.free(queue);
        }
        (news == NotifyState::Pending).then_some(name)
    }

    /// The next task to be announced as settled.
    pub fn next_settled(&mut self, entry: u32) -> Option<Id> {
        let entry = &mut self.head.entries[entry as usize];
        let at = list::pop(&mut self.settled, &mut entry.settled)?;
        entry.unsent -= 1;
        let id = self.settled[at].id;
        self.settled.free(at);
        Some(id)
    }

    /// Forgets at most so many of a entry's news; false when there are none left.
    pub(crate) fn forget_notifications(&mut self, entry: u32, count: u32) -> bool {
        for _ in 0..count {
            let queue = self.entry(entry).news.first;
            if queue != NIL {
                self.unlist_queue(queue);
                if self.queues[queue].lanes == 0 {
                    self.head.parked -= 1;
                    self.queues.free(queue);
                }
            } else if self.next_settled(entry).is_none() {
                return false;
            }
        }
        true
    }
}
