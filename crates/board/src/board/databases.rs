//! Databases: their entries, when their schedulers have something to do, and how they leave.

use crate::board::Board;
use crate::layout::entry::{BuildState, DatabaseEntry};
use crate::time::{Micros, Monotonic, Wall};

impl Board<'_> {
    /// The index of a database's entry.
    pub fn find_entry(&self, database: u32, extension: u32) -> Option<u32> {
        let found = self.globals.entries.iter().position(|entry| {
            entry.build_state != BuildState::Vacant
                && entry.database == database
                && entry.extension == extension
        })?;
        Some(found as u32)
    }

    /// The index of a database's entry, unbuilt if it is new; `None` when there is no room for
    /// another.
    pub fn register(&mut self, database: u32, extension: u32) -> Option<u32> {
        if let Some(entry) = self.find_entry(database, extension) {
            return Some(entry);
        }
        let mut entries = self.globals.entries.iter();
        let vacant = entries.position(|entry| entry.build_state == BuildState::Vacant)?;
        self.globals.registered = self.globals.registered.max(vacant as u32 + 1);
        self.globals.entries[vacant] = DatabaseEntry::unbuilt(database, extension);
        Some(vacant as u32)
    }

    /// The entry at an index.
    pub fn entry(&self, entry: u32) -> &DatabaseEntry {
        &self.globals.entries[entry as usize]
    }

    /// As `entry`, to change it.
    pub fn entry_mut(&mut self, entry: u32) -> &mut DatabaseEntry {
        &mut self.globals.entries[entry as usize]
    }

    /// All entries, vacant ones too.
    pub fn entries(&self) -> &[DatabaseEntry] {
        &self.globals.entries
    }

    /// The entries up to the last one that was ever used.
    pub(crate) fn registered(&self) -> &[DatabaseEntry] {
        &self.globals.entries[..self.globals.registered as usize]
    }

    /// Notes that a database's scheduler has ended; false when the board does not know the
    /// database.
    pub fn note_scheduler_ended(&mut self, database: u32) -> bool {
        let mut known = false;
        for entry in &mut self.globals.entries {
            if entry.build_state != BuildState::Vacant && entry.database == database {
                entry.scheduler = 0;
                entry.is_writing = false;
                known = true;
            }
        }
        known
    }

    /// Makes a process the only one that builds a board without a scheduler; false when it need
    /// not.
    pub fn begin_build(&mut self, entry: u32, builder: i32) -> bool {
        let it = self.entry_mut(entry);
        let wanted = it.build_state == BuildState::Unbuilt && it.scheduler == 0 && it.builder == 0;
        if wanted {
            it.builder = builder;
        }
        wanted
    }

    /// Ends what `begin_build` began, whether the board is built or not.
    pub fn end_build(&mut self, entry: u32, builder: i32) {
        let it = self.entry_mut(entry);
        if it.builder == builder {
            it.builder = 0;
        }
    }

    /// When so many tasks are submitted, a microsecond apart: returns the first one's time, which
    /// is now, or later than any time that was given before. `Err`: the table does not allow a time
    /// yet that is as late as this.
    pub fn take_created(&mut self, entry: u32, now: Wall, count: u32) -> Result<Wall, Wall> {
        let it = self.entry_mut(entry);
        let first = now.max(it.last_created + Micros(1));
        let last = first + Micros(i64::from(count) - 1);
        if last >= it.created_until {
            return Err(last);
        }
        it.last_created = last;
        Ok(first)
    }

    /// Allows `take_created` times before `until`, as the table does from now on. Before, it
    /// allowed those before `allowed`: if it was not this board that knew of them, they may have
    /// been given.
    pub fn allow_created(&mut self, entry: u32, allowed: Wall, until: Wall) {
        let it = self.entry_mut(entry);
        if it.created_until < allowed {
            it.last_created = it.last_created.max(allowed);
        }
        it.created_until = it.created_until.max(until);
    }

    /// Whether settled tasks have no partitions yet, though the scheduler is about to make them.
    pub fn is_unprepared(&self, entry: u32) -> bool {
        let it = self.entry(entry);
        !it.prepared && it.may_fire() && it.scheduler != 0
    }

    /// Notes that a task falls due.
    pub fn note_due(&mut self, entry: u32, at: Wall) {
        let entry = self.entry_mut(entry);
        entry.next_due = entry.next_due.min(at);
    }

    /// Notes that a run of a schedule is due then.
    pub fn note_run(&mut self, entry: u32, at: Wall) {
        let entry = self.entry_mut(entry);
        entry.next_run = entry.next_run.min(at);
    }

    /// When the scheduler has something to do for the database: a lease expires, a task or a run of
    /// a schedule is due, a notification round begins, a queue gets a permit that it waits for,
    /// deferred countdowns are to be run, or groups are to be looked at.
    pub fn next_duty(&mut self, entry: u32) -> Monotonic {
        let duty = self.next_expiry(entry).min(self.next_round(entry)).min(self.next_permit(entry));
        let it = self.entry(entry);
        let fires = |at: Wall, offset| match at {
            Wall::NEVER => Monotonic::NEVER,
            // Nothing fires there (I12).
            _ if !it.may_fire() => Monotonic::NEVER,
            at => at.on_monotonic(offset),
        };
        let due = fires(it.next_due, it.wall_offset).min(fires(it.next_run, it.runs_offset));
        let countdown = if it.countdown_deferred { it.countdown_at } else { Monotonic::NEVER };
        let looks = it.may_fire() && self.has_notes(entry);
        let notes = if looks { Monotonic::MIN } else { Monotonic::NEVER };
        duty.min(due).min(countdown).min(notes)
    }

    /// Whether the scheduler has something to do before it means to wake. The caller then wakes it;
    /// until it has slept again, only a yet earlier duty makes this true once more.
    pub fn wants_scheduler(&mut self, entry: u32) -> bool {
        let duty = self.next_duty(entry);
        let wanted = duty < self.entry(entry).wake_at;
        if wanted {
            self.entry_mut(entry).wake_at = duty;
        }
        wanted
    }

    /// Frees what an unbuilt database has among `count` indexes from `from` on: the slots' come
    /// first, then the lanes', then the queues'; then what is in lists. Returns where to go on, or
    /// `None` when the database has nothing more.
    pub fn clear_entry(&mut self, entry: u32, from: u32, count: u32) -> Option<u32> {
        let (slots, lanes) = (self.slots.capacity(), self.lanes.capacity());
        let (to, end) = (from.saturating_add(count), slots + lanes + self.queues.end());
        for at in from..to.min(self.slots.end()) {
            if self.is_in_entry(at, entry) {
                self.drop_slot(at);
            }
        }
        // Once no slot refers to them.
        for at in from.max(slots)..to.min(slots + self.lanes.end()) {
            let lane = at - slots;
            if self.is_lane(lane) && self.queues[self.lanes[lane].queue].entry == entry {
                // A head goes with the last of its lanes.
                let head = self.head_of(lane);
                self.forget_lane(lane);
                if head != lane && self.is_lane(head) {
                    self.forget_lane(head);
                }
            }
        }
        for at in from.max(slots + lanes)..to.min(end) {
            let queue = at - slots - lanes;
            if self.is_queue(queue, entry) {
                self.forget_settings(queue);
            }
        }
        let next = if to < self.slots.end() {
            to
        } else if to < slots + self.lanes.end() {
            to.max(slots)
        } else {
            to.max(slots + lanes)
        };
        let more = next < end
            || self.forget_workers(entry, count)
            || self.forget_notifications(entry, count)
            || self.forget_notes(entry, count);
        more.then_some(next)
    }

    /// Frees a cleared entry, and wakes all who wait in it.
    pub fn remove(&mut self, entry: u32) {
        self.forget_notifications(entry, u32::MAX);
        self.forget_notes(entry, u32::MAX);
        self.forget_workers(entry, u32::MAX);
        self.wake_database(entry);
        self.forget_stats(entry);
        *self.entry_mut(entry) = DatabaseEntry::VACANT;
    }
}
