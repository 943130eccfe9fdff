//! News: which queues got ready tasks, and which tasks settled, until the clock has announced it.
//!
//! A queue with news stands in its house's list, at most once however many tasks it gets, and
//! outlives its lanes in it. It stays there as long as somebody waits though it has something: then
//! the clock wakes another at each round.

use crate::board::Board;
use crate::lane::Queue;
use crate::list::{self, Link, Links};
use crate::name::{Name, QUEUE_MAX};
use crate::pool::{Chain, NIL, Node, Pool};
use crate::rank::Id;
use crate::waiter::Wish;

/// From how many ready tasks on, since the last round, the next one comes after so many intervals: each
/// announcement wakes all who listen, and they take the processor from those who submit.
const BUSY: u32 = 32;
const BUSY_INTERVALS: i64 = 8;

/// How many queues without lanes may be kept for their news; beyond that the news are dropped.
pub const HELD: usize = 256;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum News {
    None,
    /// To be announced.
    Fresh,
    /// Announced; others wait still.
    Told,
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
pub struct Round {
    /// Queues to go through.
    pub queues: u32,
    /// Whether anything is to be announced.
    pub untold: bool,
}

impl Board<'_> {
    /// A queue got a ready task: one who waits for it is woken, and the clock has something to say.
    pub(crate) fn note_ready(&mut self, queue: u32) {
        if self.head.waiting > 0 {
            self.wake_queue(queue);
        }
        let house = self.queues[queue].house;
        self.head.houses[house as usize].noted += 1;
        if self.queues[queue].news != News::Fresh {
            self.note_fresh(queue);
        }
    }

    fn note_fresh(&mut self, queue: u32) {
        let it = &mut self.queues[queue];
        let (house, listed) = (it.house as usize, it.news == News::Told);
        it.news = News::Fresh;
        self.head.houses[house].untold += 1;
        if !listed {
            self.list_queue(queue);
        }
    }

    /// Somebody begins to wait: if the queue has something, the clock is to wake one after the other.
    pub(crate) fn note_waiter(&mut self, house: u32, queue: &[u8]) {
        let found = self.find_queue(house, queue);
        if let Some(queue) = found.filter(|queue| {
            let it = &self.queues[*queue];
            it.fronts != NIL && it.news == News::None
        }) {
            self.queues[queue].news = News::Told;
            self.list_queue(queue);
        }
    }

    fn list_queue(&mut self, queue: u32) {
        let house = &mut self.head.houses[self.queues[queue].house as usize];
        house.listed += 1;
        list::push(&mut self.queues, &mut house.news, queue);
    }

    fn wake_queue(&mut self, queue: u32) -> bool {
        let Queue { house, name, chain, .. } = self.queues[queue];
        self.wake_first(house, chain.hash(), Wish::Work(name.as_bytes()))
    }

    /// Takes a queue out of its house's list.
    pub(crate) fn unlist_queue(&mut self, queue: u32) {
        let it = &mut self.queues[queue];
        let news = std::mem::replace(&mut it.news, News::None);
        let house = &mut self.head.houses[it.house as usize];
        if news != News::None {
            list::remove(&mut self.queues, &mut house.news, queue);
            house.listed -= 1;
            house.untold -= u32::from(news == News::Fresh);
        }
    }

    /// A queue has lost its last lane: it is freed, or kept for its news.
    pub(crate) fn release_queue(&mut self, queue: u32) {
        if self.queues[queue].news != News::None && (self.head.held as usize) < HELD {
            self.head.held += 1;
        } else {
            self.unlist_queue(queue);
            self.queues.free(queue);
        }
    }

    /// A task whose end may be waited for has settled.
    pub fn note_settled(&mut self, house: u32, id: Id) {
        self.wake_all(house, id);
        let settled = Settled { id, chain: Chain::NONE, link: Link::NONE };
        // Beyond what there is room for the announcement is lost, and nothing else.
        if let Some(at) = self.settled.add(self.slot_hash(house, id), settled) {
            let house = &mut self.head.houses[house as usize];
            house.untold += 1;
            list::push(&mut self.settled, &mut house.settled, at);
        }
    }

    /// When the clock is to announce what there is; `i64::MAX`: there is nothing.
    pub fn next_announcement(&self, house: u32) -> i64 {
        let house = self.house(house);
        if house.untold > 0 || house.listed > 0 { house.quiet_until } else { i64::MAX }
    }

    /// Begins a round of announcements, if it is time; the next one comes after the interval, or some
    /// of them when much happens.
    pub fn begin_round(&mut self, house: u32, now: i64, interval: i64) -> Option<Round> {
        if self.next_announcement(house) > now {
            return None;
        }
        let house = self.house_mut(house);
        let busy = std::mem::take(&mut house.noted) >= BUSY;
        house.quiet_until = now + if busy { BUSY_INTERVALS * interval } else { interval };
        Some(Round { queues: house.listed, untold: house.untold > 0 })
    }

    /// Goes on with the first queue of the list: its name, if it is to be announced and the caller
    /// is `telling`. A queue that was announced before and has something still wakes another waiter.
    pub fn next_news(&mut self, house: u32, telling: bool) -> Option<Name<QUEUE_MAX>> {
        let queue = Some(self.house(house).news.first).filter(|queue| *queue != NIL)?;
        let Queue { name, news, lanes, fronts, chain, .. } = self.queues[queue];
        self.unlist_queue(queue);
        if news == News::Fresh && !telling {
            self.note_fresh(queue);
            return None;
        }
        // In a closed database nobody is to be woken; opening it surveys all lanes.
        let has_work = fronts != NIL && !self.house(house).shut;
        if news == News::Told && has_work {
            self.wake_queue(queue);
        }
        if has_work && self.has_waiter(house, chain.hash(), Wish::Work(name.as_bytes())) {
            self.queues[queue].news = News::Told;
            self.list_queue(queue);
        } else if lanes == 0 {
            self.head.held -= 1;
            self.queues.free(queue);
        }
        (news == News::Fresh).then_some(name)
    }

    /// The next task to be announced as settled.
    pub fn next_settled(&mut self, house: u32) -> Option<Id> {
        let house = &mut self.head.houses[house as usize];
        let at = list::pop(&mut self.settled, &mut house.settled)?;
        house.untold -= 1;
        let id = self.settled[at].id;
        self.settled.free(at);
        Some(id)
    }

    /// Forgets at most so many of a house's news; false when there are none left.
    pub(crate) fn forget_news(&mut self, house: u32, count: u32) -> bool {
        for _ in 0..count {
            let queue = self.house(house).news.first;
            if queue != NIL {
                self.unlist_queue(queue);
                if self.queues[queue].lanes == 0 {
                    self.head.held -= 1;
                    self.queues.free(queue);
                }
            } else if self.next_settled(house).is_none() {
                return false;
            }
        }
        true
    }
}
