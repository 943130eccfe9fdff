//! Which queues got ready tasks, and which tasks settled, until the scheduler has announced it.
//!
//! A queue that is to be announced is in its database's list once, however many tasks it gets, and
//! may outlive its lanes there.

use crate::board::Board;
use crate::containers::list::{self, ListNodes};
use crate::containers::pool::Pool;
use crate::layout::lane::Lane;
use crate::layout::names::{Name, QUEUE_MAX};
use crate::layout::nodes::{Link, NIL};
use crate::layout::queue::Queue;
use crate::layout::rank::Id;
use crate::layout::waiter::Notice;
use crate::time::{Micros, Monotonic};

/// When so many tasks got ready since the last round, the next one comes after `BUSY_INTERVALS`:
/// each announcement wakes all who listen, and they take the processor from those who submit.
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
    /// How many lanes wake one more process each.
    pub lanes: u32,
    /// How many queues are to be announced.
    pub queues: u32,
    /// Whether queues or settled tasks are to be announced.
    pub unsent: bool,
}

impl Board<'_> {
    /// Notes that a lane got a ready task: wakes a process that waits for one, and has the
    /// scheduler announce the queue. A task that may not be handed out, or not before others of its
    /// lane, wakes no process.
    pub(crate) fn note_ready(&mut self, lane: u32) {
        let Lane { queue, counts, .. } = self.lanes[lane];
        let free = self.free_places(queue);
        if self.is_group_full(queue, self.lanes[lane].turns.group) {
            // A place that comes free wakes a process.
        } else if free == 0 {
            self.note_blocked(queue);
        } else if counts.queued <= free {
            self.wake_for(lane, 1);
            self.note_to_announce(queue);
        }
    }

    /// Has the scheduler announce a queue, which got something to hand out.
    pub(crate) fn note_to_announce(&mut self, queue: u32) {
        let it = &mut self.queues[queue];
        let entry = &mut self.globals.entries[it.entry as usize];
        entry.ready_since_round += 1;
        if !std::mem::replace(&mut it.to_announce, true) {
            entry.announce_len += 1;
            list::push(&mut self.queues, &mut entry.announce, queue);
        }
    }

    /// Takes a queue out of its database's list.
    pub(crate) fn remove_from_announce(&mut self, queue: u32) {
        let it = &mut self.queues[queue];
        let entry = &mut self.globals.entries[it.entry as usize];
        if std::mem::take(&mut it.to_announce) {
            entry.announce_len -= 1;
            list::remove(&mut self.queues, &mut entry.announce, queue);
        }
    }

    /// Notes that a task has settled whose end may be waited for.
    pub fn note_settled(&mut self, entry: u32, id: Id) {
        self.wake_all(entry, id);
        let notice = Notice { id, link: Link::NONE };
        // When there is no room the announcement is lost, and nothing else.
        if let Some(at) = self.notices.add(self.id_hash(entry, id), notice) {
            let entry = &mut self.globals.entries[entry as usize];
            list::push(&mut self.notices, &mut entry.notices, at);
        }
    }

    fn is_unsent(&self, entry: u32) -> bool {
        let entry = self.entry(entry);
        entry.announce_len > 0 || entry.notices.first != NIL
    }

    /// When the scheduler has to wake or to announce: at once if lanes owe wake-ups, else when the
    /// next notification round begins.
    pub fn next_round(&self, entry: u32) -> Monotonic {
        let it = self.entry(entry);
        if it.owing.first != NIL {
            Monotonic::MIN
        } else if it.paced_len > 0 || self.is_unsent(entry) {
            it.quiet_until
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
        let unsent = self.is_unsent(entry);
        let it = self.entry_mut(entry);
        let round = NotifyRound { lanes: it.paced_len, queues: it.announce_len, unsent };
        if it.quiet_until > now || (round.lanes == 0 && !round.unsent) {
            return None;
        }
        let busy = std::mem::take(&mut it.ready_since_round) >= BUSY;
        it.quiet_until = now + if busy { interval * BUSY_INTERVALS } else { interval };
        Some(round)
    }

    /// The name of the next queue to be announced.
    pub fn next_queue_to_announce(&mut self, entry: u32) -> Option<Name<QUEUE_MAX>> {
        let queue = Some(self.entry(entry).announce.first).filter(|queue| *queue != NIL)?;
        let name = self.queues[queue].name;
        self.remove_from_announce(queue);
        if !self.is_needed(queue) {
            self.globals.unneeded -= 1;
            self.free_queue(queue);
        }
        Some(name)
    }

    /// The next task to be announced as settled.
    pub fn next_settled(&mut self, entry: u32) -> Option<Id> {
        let entry = &mut self.globals.entries[entry as usize];
        let at = list::pop(&mut self.notices, &mut entry.notices)?;
        let id = self.notices[at].id;
        self.notices.free(at);
        Some(id)
    }

    /// Forgets at most so many of a database's announcements; false when there are none left.
    pub(crate) fn forget_notifications(&mut self, entry: u32, count: u32) -> bool {
        (0..count).all(|_| {
            self.next_queue_to_announce(entry).is_some() || self.next_settled(entry).is_some()
        })
    }
}
