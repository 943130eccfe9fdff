//! Shares: how much of the board one database may hold, so that each of the others has a part of
//! it.

use crate::board::Board;

/// What is kept free for each database: this part of the slots, and at most so many.
const PART: u32 = 64;
const SHARE_MAX: u32 = 1_024;

/// How many more slots a database may hold, for as long as the board's lock is held.
#[derive(Clone, Copy, Debug)]
pub struct Room(u32);

impl Board<'_> {
    /// How many more slots a database may hold: its own share in any case, and beyond that what leaves
    /// their shares to the databases whose tasks run.
    pub fn room_of(&self, entry: u32) -> Room {
        let capacity = self.slots.capacity();
        let share = (capacity / PART).min(SHARE_MAX);
        let mut free = i64::from(capacity);
        for (at, it) in (0..).zip(self.registered()) {
            let kept = if at != entry && it.may_fire() { share } else { 0 };
            free -= i64::from(it.held.max(kept));
        }
        let own = share.saturating_sub(self.entry(entry).held);
        Room(free.clamp(own.into(), capacity.into()) as u32)
    }

    /// Whether there is room to hold one more slot, which is then taken from the room.
    pub fn fits(&self, room: &mut Room) -> bool {
        let left = room.0.checked_sub(1);
        room.0 = left.unwrap_or(0);
        left.is_some()
    }
}
