//! A database on the board.

use crate::board::Board;
use crate::containers::list::ListHead;
use crate::containers::pool::NIL;
use crate::time::{Micros, Monotonic, Wall};

/// How many databases of one server may use the extension at once.
pub const MAX_DATABASES: usize = 128;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum BuildState {
    /// No such entry.
    Vacant,
    /// Known, but not built from its tables yet: hands out nothing.
    Unbuilt,
    Built,
}

/// One database with one creation of the extension in it (I12).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DatabaseEntry {
    /// When the scheduler means to wake. An earlier deadline must wake it.
    pub wake_at: Monotonic,
    /// When the scheduler counts down what was deferred, at the earliest.
    pub countdown_at: Monotonic,
    /// When the next waiting task falls due, or earlier.
    pub next_due: Wall,
    /// How far the wall clock is ahead of the monotonic one. The scheduler reads it each time it
    /// fires, so that it notices a step of the wall clock.
    pub wall_offset: Micros,
    /// The database's oid.
    pub database: u32,
    /// The extension's oid: another one after each CREATE EXTENSION.
    pub extension: u32,
    /// The clock's process; 0: none.
    pub scheduler: i32,
    /// Leases that stand in the table though they have ended.
    pub ended_persisted: u32,
    pub(crate) timer: u32,
    pub build_state: BuildState,
    /// A transaction put something off that the clock is to take up.
    pub countdown_deferred: bool,
    /// Somebody changed the tables by hand: the lanes are to be surveyed.
    pub refresh: bool,
    /// The database hands out and fires nothing (I12).
    pub paused: bool,
    /// Somebody has called from this database: it is not one that is being restored.
    pub used: bool,
    /// The clock has looked after the partitions of settled tasks.
    pub prepared: bool,
    /// The process that builds the board while there is no clock; 0: none.
    pub builder: i32,
    /// How often a lane found no room on the board since the last survey: its tasks are known to
    /// the table only (I4).
    pub lanes_spilled: u32,
    /// Queues with news, and how many they are.
    pub(crate) news: ListHead,
    pub(crate) listed: u32,
    /// Settled tasks to be announced.
    pub(crate) settled: ListHead,
    /// How much there is to announce.
    pub(crate) unsent: u32,
    /// How many tasks got ready since the last announcement.
    pub(crate) noted: u32,
    /// Nothing is announced before.
    pub(crate) quiet_until: Monotonic,
}

impl DatabaseEntry {
    pub const VACANT: DatabaseEntry = DatabaseEntry {
        wake_at: Monotonic::NEVER,
        countdown_at: Monotonic(0),
        next_due: Wall::NEVER,
        wall_offset: Micros::ZERO,
        database: 0,
        extension: 0,
        scheduler: 0,
        ended_persisted: 0,
        timer: NIL,
        build_state: BuildState::Vacant,
        countdown_deferred: false,
        refresh: false,
        paused: false,
        used: false,
        prepared: false,
        builder: 0,
        lanes_spilled: 0,
        news: ListHead::NONE,
        listed: 0,
        settled: ListHead::NONE,
        unsent: 0,
        noted: 0,
        quiet_until: Monotonic::MIN,
    };
}

impl Board<'_> {
    pub fn find_entry(&self, database: u32, extension: u32) -> Option<u32> {
        let found = self.head.entries.iter().position(|entry| {
            entry.build_state != BuildState::Vacant
                && entry.database == database
                && entry.extension == extension
        })?;
        Some(found as u32)
    }

    /// The entry of a database, closed if it is new; `None` when there is no room for another.
    pub fn register(&mut self, database: u32, extension: u32) -> Option<u32> {
        if let Some(entry) = self.find_entry(database, extension) {
            return Some(entry);
        }
        let vacant =
            self.head.entries.iter().position(|entry| entry.build_state == BuildState::Vacant)?;
        self.head.entries[vacant] = DatabaseEntry {
            database,
            extension,
            build_state: BuildState::Unbuilt,
            ..DatabaseEntry::VACANT
        };
        Some(vacant as u32)
    }

    pub fn entry(&self, entry: u32) -> &DatabaseEntry {
        &self.head.entries[entry as usize]
    }

    pub fn entry_mut(&mut self, entry: u32) -> &mut DatabaseEntry {
        &mut self.head.entries[entry as usize]
    }

    pub fn entries(&self) -> &[DatabaseEntry] {
        &self.head.entries
    }

    /// Notes that a database's clock has ended; false when the board does not know the database.
    pub fn note_scheduler_ended(&mut self, database: u32) -> bool {
        let entries = self.head.entries.iter_mut();
        entries.filter(|it| it.build_state != BuildState::Vacant && it.database == database).fold(
            false,
            |_, entry| {
                entry.scheduler = 0;
                true
            },
        )
    }

    /// Makes a process the only one that builds a board without a clock; false when it need not.
    pub fn begin_build(&mut self, entry: u32, builder: i32) -> bool {
        let it = self.entry_mut(entry);
        let wanted = it.build_state == BuildState::Unbuilt && it.scheduler == 0 && it.builder == 0;
        if wanted {
            it.builder = builder;
        }
        wanted
    }

    /// ListHead it, built or not.
    pub fn end_build(&mut self, entry: u32, builder: i32) {
        let it = self.entry_mut(entry);
        if it.builder == builder {
            it.builder = 0;
        }
    }

    /// Whether settled tasks have no partitions yet, though the clock is about to make them.
    pub fn is_unprepared(&self, entry: u32) -> bool {
        let it = self.entry(entry);
        !it.prepared && it.used && !it.paused && it.scheduler != 0
    }

    /// Notes that somebody has called from the database; whether he is the first.
    pub fn begin_use(&mut self, entry: u32) -> bool {
        !std::mem::replace(&mut self.entry_mut(entry).used, true)
    }

    /// Notes that a task falls due.
    pub fn note_due(&mut self, entry: u32, at: Wall) {
        let entry = self.entry_mut(entry);
        entry.next_due = entry.next_due.min(at);
    }

    /// When the scheduler has something to do for the entry: at the end of a lease, when a task
    /// falls due, to announce ready queues, or to count down what was deferred.
    pub fn next_duty(&mut self, entry: u32) -> Monotonic {
        let duty = self.next_expiry(entry).min(self.next_announcement(entry));
        let it = self.entry(entry);
        let due = match it.next_due {
            Wall::NEVER => Monotonic::NEVER,
            // Nothing fires there (I12).
            _ if it.paused || !it.used => Monotonic::NEVER,
            at => at.on_monotonic(it.wall_offset),
        };
        let put_off = if it.countdown_deferred { it.countdown_at } else { Monotonic::NEVER };
        duty.min(due).min(put_off)
    }

    /// Whether something is to be done before the clock means to look. It is to be woken then, once:
    /// who comes later with nothing more urgent need not.
    pub fn wants_scheduler(&mut self, entry: u32) -> bool {
        let duty = self.next_duty(entry);
        let wanted = duty < self.entry(entry).wake_at;
        if wanted {
            self.entry_mut(entry).wake_at = duty;
        }
        wanted
    }

    /// Frees what a closed entry has among `count` places from `from` on, the slots' first, then
    /// the lanes'; returns where to go on, or `None` when the entry is empty.
    pub fn clear_entry(&mut self, entry: u32, from: u32, count: u32) -> Option<u32> {
        let slots = self.slots.capacity();
        let (to, end) = (from.saturating_add(count), slots + self.lanes.used());
        for at in from..to.min(self.slots.used()) {
            if self.is_in_entry(at, entry) {
                self.drop_slot(at);
            }
        }
        // Once no slot refers to them.
        for at in from.max(slots)..to.min(end) {
            let lane = at - slots;
            if self.lanes[lane].is_used() && self.queues[self.lanes[lane].queue].entry == entry {
                self.forget_lane(lane);
            }
        }
        let next = if to < self.slots.used() { to } else { to.max(slots) };
        (next < end || self.forget_notifications(entry, count)).then_some(next)
    }

    /// Forgets a cleared entry. Whoever waits in it learns of it.
    pub fn remove(&mut self, entry: u32) {
        self.forget_notifications(entry, u32::MAX);
        self.wake_database(entry);
        *self.entry_mut(entry) = DatabaseEntry::VACANT;
    }
}
