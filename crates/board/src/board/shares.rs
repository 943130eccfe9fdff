//! Shares: how much of the board one database may hold, so that each of the others has a part of
//! it; and one queue, while another one of its database has less than its part.

use crate::board::Board;
use crate::time::{Micros, Monotonic};

/// What is kept free for each database: this part of the slots, and at most so many.
const PART: u32 = 64;
const SHARE_MAX: u32 = 1_024;

/// For how long a queue that found no room is left its share.
const KEPT_FOR: Micros = Micros::from_secs(60);

/// How many more slots a database may hold, for as long as the board's lock is held.
#[derive(Clone, Copy, Debug)]
pub struct Room(u32);

impl Board<'_> {
    /// How many more slots a database may hold: its own share in any case, and beyond that what
    /// leaves their shares to the databases whose tasks run.
    pub fn room_of(&self, entry: u32) -> Room {
        let (capacity, share) = (self.slots.capacity(), self.share());
        let mut free = i64::from(capacity);
        for (at, it) in (0..).zip(self.registered()) {
            let kept = if at != entry && it.may_fire() { share } else { 0 };
            free -= i64::from(it.pinned.max(kept));
        }
        let own = share.saturating_sub(self.entry(entry).pinned);
        Room(free.clamp(own.into(), capacity.into()) as u32)
    }

    /// As `room_of`, of a queue: one that holds its share leaves as much to those that were
    /// refused.
    pub fn room_for(&self, entry: u32, queue: Option<u32>, now: Monotonic) -> Room {
        let Room(room) = self.room_of(entry);
        let keeps = now < self.entry(entry).refused_until && self.has_share(queue);
        Room(room.saturating_sub(if keeps { self.share() } else { 0 }))
    }

    /// Notes that a queue found no room. While it has less than its share, others leave it that.
    pub fn note_refused(&mut self, entry: u32, queue: Option<u32>, now: Monotonic) {
        if !self.has_share(queue) {
            self.entry_mut(entry).refused_until = now + KEPT_FOR;
        }
    }

    fn has_share(&self, queue: Option<u32>) -> bool {
        queue.is_some_and(|queue| self.queues[queue].running >= self.share())
    }

    fn share(&self) -> u32 {
        (self.slots.capacity() / PART).min(SHARE_MAX)
    }

    /// Whether there is room to hold one more slot, which is then taken from the room.
    pub fn fits(&self, room: &mut Room) -> bool {
        let left = room.0.checked_sub(1);
        room.0 = left.unwrap_or(0);
        left.is_some()
    }
}
