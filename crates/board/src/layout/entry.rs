//! A database on the board.

use crate::layout::nodes::{ListHead, NIL};
use crate::layout::stats::Counted;
use crate::time::{Micros, Monotonic, Wall};

/// How many databases of one server may use the extension at once.
pub const MAX_DATABASES: usize = 128;

/// How often, at most, the scheduler runs deferred countdowns: a locked row stays locked for a
/// while.
pub const COUNTDOWN_DELAY: Micros = Micros::from_millis(2);

/// When the scheduler tries again to write a row that it could not write.
pub const ROW_RETRY_DELAY: Micros = Micros::from_millis(100);

/// Whether a database's part of the board was built from its tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum BuildState {
    /// No database has this entry.
    Vacant,
    /// Known, but not built from its tables yet: hands out nothing.
    Unbuilt,
    /// Built.
    Built,
}

/// One database with one creation of the extension in it (I12).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DatabaseEntry {
    /// When the scheduler means to wake. An earlier duty must wake it.
    pub wake_at: Monotonic,
    /// When the scheduler woke last.
    pub awake_since: Monotonic,
    /// Since when this scheduler serves the database.
    pub scheduler_since: Wall,
    /// When the scheduler runs deferred countdowns, at the earliest.
    pub countdown_at: Monotonic,
    /// When the next waiting task falls due, or earlier.
    pub next_due: Wall,
    /// How far the wall clock is ahead of the monotonic one. The scheduler reads it each time it
    /// fires, so that it notices a step of the wall clock.
    pub wall_offset: Micros,
    /// When the next run of a schedule is due, or earlier.
    pub next_run: Wall,
    /// As `wall_offset`, without the advance by which tasks fire early.
    pub runs_offset: Micros,
    /// Whether the extension was created since the server started.
    pub is_new: bool,
    /// Whether the schedules that run at a start of the server are to run.
    pub starts: bool,
    /// Since when the runs of schedules fire; `NEVER`: they do not yet.
    runs_since: Wall,
    /// When the newest task was submitted, as far as the board knows.
    pub(crate) last_created: Wall,
    /// Tasks are submitted before this time, as the table says.
    pub(crate) created_until: Wall,
    /// The database's oid.
    pub database: u32,
    /// The extension's oid: another one after each CREATE EXTENSION.
    pub extension: u32,
    /// The scheduler's process id; 0: none runs.
    pub scheduler: i32,
    /// How many persisted leases have ended: rows of theirs are to be deleted.
    pub ended_persisted: u32,
    /// How many of the next expired leases are to be ended one by one, after they failed together.
    pub one_by_one: u32,
    /// The tree of workers with reserved and leased slots, the first one of whose leases expires
    /// first.
    pub(crate) timer: u32,
    /// Workers without slots, the one that called or had some longest ago first.
    pub(crate) idle_workers: ListHead,
    /// How many workers `idle_workers` has.
    pub(crate) idle_workers_len: u32,
    /// How many workers are asked to stop.
    pub(crate) draining: u32,
    /// How many slots cannot be evicted: reserved, leased, ending or withheld ones.
    pub(crate) pinned: u32,
    /// Until then queues that hold their share leave as much to others.
    pub(crate) refused_until: Monotonic,
    /// Lanes that can be spilled, the one that is idle longest first.
    pub(crate) idle: ListHead,
    /// How many lanes `idle` has.
    pub(crate) idle_len: u32,
    /// The tree of queues that wait for a permit, the first to get one first.
    pub(crate) permits: u32,
    /// Whether the database's part of the board is built.
    pub build_state: BuildState,
    /// Countdowns were deferred that the scheduler is to run.
    pub countdown_deferred: bool,
    /// Runs of schedules have settled that the scheduler is to count.
    pub runs_settled: bool,
    /// The database hands out and fires nothing (I12).
    paused: bool,
    /// Only critical queues hand out tasks.
    pub critical_only: bool,
    /// A function was called in this database: it is not being restored.
    used: bool,
    /// The scheduler has made the partitions of settled tasks.
    pub prepared: bool,
    /// The process that builds the board while no scheduler runs; 0: none.
    pub builder: i32,
    /// How often a survey of the lanes was asked for, as after the tables were changed directly.
    pub surveys_asked: u32,
    /// That number when the last survey that was done began.
    pub surveyed: u32,
    /// A queue found no record since the last survey: those without one are searched (I4).
    pub(crate) has_unlisted: bool,
    /// How many queues the board does not cover (I4).
    pub(crate) partial: u32,
    /// Groups whose next task may have to be brought forward.
    pub(crate) notes: ListHead,
    /// As these, of groups that are not known: all are to be looked at.
    pub looks_for_groups: bool,
    /// A queue keeps the order, or does not any more, since a moment ago: its groups may have
    /// several first tasks, or tasks behind these.
    pub changes_order: bool,
    /// They are being looked at.
    pub is_looking: bool,
    /// Queues to be announced.
    pub(crate) announce: ListHead,
    /// How many queues are to be announced.
    pub(crate) announce_len: u32,
    /// Settled tasks to be announced.
    pub(crate) notices: ListHead,
    /// Lanes of which each notification round wakes one more waiter.
    pub(crate) paced: ListHead,
    /// How many lanes are paced.
    pub(crate) paced_len: u32,
    /// Lanes that owe wake-ups: the scheduler goes on with them at once.
    pub(crate) owing: ListHead,
    /// How many tasks got ready since the last round.
    pub(crate) ready_since_round: u32,
    /// No round begins before.
    pub(crate) quiet_until: Monotonic,
    /// The number of the last recount of its tasks.
    pub(crate) recount: u32,
    /// Whether it is known how many ready and waiting tasks its queues have.
    pub counted: Counted,
    /// A queue found no record since the last recount, and was not counted.
    pub uncounted: bool,
    /// The scheduler writes totals of queues.
    pub is_writing: bool,
    /// How often it has.
    pub writes: u32,
    /// How many leases were restored when the board was built.
    pub leases_restored: u32,
}

impl DatabaseEntry {
    /// An entry of no database.
    pub const VACANT: DatabaseEntry = DatabaseEntry {
        wake_at: Monotonic::NEVER,
        awake_since: Monotonic::MIN,
        scheduler_since: Wall::MIN,
        countdown_at: Monotonic(0),
        next_due: Wall::NEVER,
        wall_offset: Micros::ZERO,
        next_run: Wall::NEVER,
        runs_offset: Micros::ZERO,
        is_new: false,
        starts: false,
        runs_since: Wall::NEVER,
        last_created: Wall::MIN,
        created_until: Wall::MIN,
        database: 0,
        extension: 0,
        scheduler: 0,
        ended_persisted: 0,
        one_by_one: 0,
        timer: NIL,
        idle_workers: ListHead::EMPTY,
        idle_workers_len: 0,
        draining: 0,
        pinned: 0,
        refused_until: Monotonic(0),
        idle: ListHead::EMPTY,
        idle_len: 0,
        permits: NIL,
        build_state: BuildState::Vacant,
        countdown_deferred: false,
        runs_settled: false,
        paused: false,
        critical_only: false,
        used: false,
        prepared: false,
        builder: 0,
        surveys_asked: 0,
        surveyed: 0,
        has_unlisted: false,
        partial: 0,
        notes: ListHead::EMPTY,
        looks_for_groups: false,
        changes_order: false,
        is_looking: false,
        announce: ListHead::EMPTY,
        announce_len: 0,
        notices: ListHead::EMPTY,
        paced: ListHead::EMPTY,
        paced_len: 0,
        owing: ListHead::EMPTY,
        ready_since_round: 0,
        quiet_until: Monotonic::MIN,
        recount: 0,
        counted: Counted::No,
        uncounted: false,
        is_writing: false,
        writes: 0,
        leases_restored: 0,
    };
    /// The entry of a database that was not built from its tables yet.
    pub fn unbuilt(database: u32, extension: u32) -> DatabaseEntry {
        let build_state = BuildState::Unbuilt;
        DatabaseEntry { database, extension, build_state, ..DatabaseEntry::VACANT }
    }

    /// Rows that a transaction had locked are free: countdowns that were deferred run soon.
    pub fn rows_released(&mut self, now: Monotonic) {
        self.countdown_at = self.countdown_at.min(now + COUNTDOWN_DELAY);
    }

    /// Asks for a survey of the lanes.
    pub fn ask_for_survey(&mut self) {
        self.surveys_asked = self.surveys_asked.wrapping_add(1);
    }

    /// Whether a survey was asked for since the last one that was done began.
    pub fn wants_survey(&self) -> bool {
        self.surveyed != self.surveys_asked
    }

    /// Whether the database hands out tasks.
    pub fn may_hand_out(&self) -> bool {
        !self.paused
    }

    /// Whether the scheduler fires tasks and looks after settled ones. Not while a dump is being
    /// restored: the row that marks the restored database as such comes last (I12).
    pub fn may_fire(&self) -> bool {
        self.used && self.may_hand_out()
    }

    /// Whether tasks are fired for a caller that asks for work while no scheduler runs. The call
    /// itself shows that the database is in use, and it would get the tasks that are ready already.
    pub fn may_fire_for_caller(&self) -> bool {
        self.may_hand_out()
    }

    /// Pauses or resumes the database; whether it was paused.
    pub fn set_paused(&mut self, paused: bool) -> bool {
        if paused {
            self.runs_since = Wall::NEVER;
        }
        std::mem::replace(&mut self.paused, paused)
    }

    /// Since when the runs of schedules fire, asked by a scheduler that fires them: what was due
    /// before was missed. Never in the future, though the wall clock was set back.
    pub fn runs_since(&mut self, now: Wall) -> Wall {
        self.runs_since = self.runs_since.min(now);
        self.runs_since
    }

    /// Notes that the database is in use: it is not being restored. True for the first time.
    pub fn note_use(&mut self) -> bool {
        !std::mem::replace(&mut self.used, true)
    }
}
