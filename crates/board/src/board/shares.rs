//! Shares: how much of the board one database may hold, so that each of the others has a part of
//! it.

use crate::board::Board;
use crate::layout::entry::DatabaseEntry;

/// What is kept free for each database: this part of the slots and of the lanes, and at most so
/// many.
const PART: u32 = 64;
const SHARE_MAX: u32 = 1_024;

/// How much more a database may hold, for as long as the board's lock is held.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    slots: u32,
    lanes: u32,
}

impl Board<'_> {
    /// How many more slots, and lanes with such, a database may hold: its own share in any case,
    /// and beyond that what leaves their shares to the databases whose tasks run.
    pub fn room_of(&self, entry: u32) -> Room {
        let room = |capacity: u32, held: fn(&DatabaseEntry) -> u32| {
            let share = (capacity / PART).min(SHARE_MAX);
            let mut free = i64::from(capacity);
            for (at, it) in (0..).zip(self.registered()) {
                let kept = if at != entry && it.may_fire() { share } else { 0 };
                free -= i64::from(held(it).max(kept));
            }
            let own = share.saturating_sub(held(self.entry(entry)));
            free.clamp(own.into(), capacity.into()) as u32
        };
        Room {
            slots: room(self.slots.capacity(), |it| it.held),
            lanes: room(self.lanes.capacity(), DatabaseEntry::held_lanes),
        }
    }

    /// Whether there is room to hold a queued slot, which is then taken from the room.
    pub fn fits(&self, at: u32, room: &mut Room) -> bool {
        let lanes = u32::from(self.lanes[self.slots[at].lane].is_idle());
        match (room.slots.checked_sub(1), room.lanes.checked_sub(lanes)) {
            (Some(slots), Some(lanes)) => {
                *room = Room { slots, lanes };
                true
            }
            _ => false,
        }
    }
}
