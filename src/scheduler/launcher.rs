//! The launcher: finds the databases that have the extension, and keeps one scheduler for each.

use crate::error;
use crate::extension::database::{self, EntryKey};
use crate::memory;
use crate::pg::lock::try_lock_database;
use crate::pg::{datum, process, time};
use crate::scheduler::process::{Commit, builder, install_signal_handlers, sleep, transaction};
use crate::scheduler::sql::Orphans;
use crate::shmem::{schedulers, segment};
use board::{Micros, Monotonic};
use pgrx::bgworkers::{BackgroundWorkerStatus, DynamicBackgroundWorker};
use pgrx::pg_sys;
use pgrx::prelude::*;
use std::collections::{HashMap, HashSet};

/// How often the launcher looks for new databases without being called.
const RESCAN_INTERVAL: Micros = Micros::from_secs(5);
/// How often it checks a database that a command wants for itself.
const RECHECK_INTERVAL: Micros = Micros::from_millis(100);
/// How often it tries to start a scheduler for which there was no background worker.
const NO_ROOM_INTERVAL: Micros = Micros::from_secs(1);
/// How often, at most, a database is named that has no scheduler for want of a background worker.
const WARNING_INTERVAL: Micros = Micros::from_secs(60);
/// A scheduler that ran for so long did not die of its start.
const HEALTHY_RUNTIME: Micros = Micros::from_millis(500);
/// How long to wait before a scheduler that keeps dying is started again.
const LEAST_PAUSE: Micros = Micros::from_millis(50);
const MOST_PAUSE: Micros = Micros::from_secs(30);
/// How many databases are looked into at once that may not have the extension: few, so that those
/// that are known to have it find a background worker.
const LOOKS_AT_ONCE: usize = 2;

/// A database that exists.
struct Listed {
    oid: u32,
    name: String,
    /// Connections are allowed.
    is_open: bool,
}

/// What the launcher knows of a database.
#[derive(Default)]
struct DatabaseState {
    /// The process that it started last. An earlier launcher may have started the one that runs.
    process: Option<DynamicBackgroundWorker>,
    started: Monotonic,
    failures: u32,
    /// No start before then.
    not_before: Monotonic,
    next_warning: Monotonic,
    /// It was looked into, and does not have the extension.
    is_absent: bool,
}

#[derive(Default)]
struct Launcher {
    states: HashMap<u32, DatabaseState>,
    orphans: Orphans,
}

#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn scylla_launcher(_arg: pg_sys::Datum) {
    install_signal_handlers();
    // SAFETY: connects to no database: only shared catalogs are read.
    unsafe {
        pg_sys::BackgroundWorkerInitializeConnection(std::ptr::null(), std::ptr::null(), 0);
    }
    segment::serve_as(None);
    memory::with_reserve(|| {
        let mut launcher = Launcher::default();
        loop {
            let pause = launcher.supervise();
            sleep(pause);
        }
    })
}

impl Launcher {
    /// Starts the schedulers that are wanted and do not run. Returns when to look again.
    fn supervise(&mut self) -> Micros {
        // Before the databases are listed: each that has an entry by now is among them, or gone.
        let entries = database::entries();
        let list = || transaction("list the databases", Commit::Ahead, list_databases);
        let Some(databases) = list() else { return NO_ROOM_INTERVAL };
        let exists: HashSet<u32> = databases.iter().map(|it| it.oid).collect();
        let (called, gone): (Vec<EntryKey>, Vec<EntryKey>) =
            entries.into_iter().filter(|key| key.0 != 0).partition(|key| exists.contains(&key.0));
        gone.into_iter().for_each(database::remove_entry);
        let called: HashSet<u32> = called.into_iter().map(|(database, _)| database).collect();
        self.note_ends(&exists);

        let mut pause = self.orphans.end().unwrap_or(RESCAN_INTERVAL);
        let mut looks = self.looks_under_way(&called);
        let mut has_room = true;
        // Those that call for a scheduler come first: they have an entry, so they have the
        // extension.
        let (first, then): (Vec<_>, Vec<_>) =
            databases.iter().filter(|it| it.is_open).partition(|it| called.contains(&it.oid));
        for (database, is_called) in
            first.into_iter().map(|it| (it, true)).chain(then.into_iter().map(|it| (it, false)))
        {
            let state = self.states.entry(database.oid).or_default();
            if state.process.is_some() || !is_called && (state.is_absent || looks >= LOOKS_AT_ONCE)
            {
                continue;
            }
            match state.tend(database, has_room) {
                Tended::Runs => {}
                Tended::Started => looks += usize::from(!is_called),
                Tended::Later(after) => pause = pause.min(after),
                Tended::NoRoom => {
                    has_room = false;
                    pause = pause.min(NO_ROOM_INTERVAL);
                    // Looks end in a moment.
                    if is_called && looks == 0 {
                        state.warn(database);
                    }
                }
            }
        }
        pause
    }

    /// Takes note of what has ended since, and forgets databases that are gone.
    fn note_ends(&mut self, exists: &HashSet<u32>) {
        self.states.retain(|database, _| exists.contains(database));
        let absent = schedulers::take_absent();
        for (database, state) in &mut self.states {
            state.is_absent |= absent.contains(database);
            let is_over = |process: &DynamicBackgroundWorker| {
                !matches!(process.pid(), Ok(_) | Err(BackgroundWorkerStatus::NotYetStarted))
            };
            if state.process.as_ref().is_some_and(is_over) {
                state.ended();
            }
        }
    }

    /// How many processes look into databases of which nothing is known.
    fn looks_under_way(&self, called: &HashSet<u32>) -> usize {
        let looks = |(database, state): &(&u32, &DatabaseState)| {
            state.process.is_some() && !called.contains(database)
        };
        self.states.iter().filter(looks).count()
    }
}

/// What came of looking after a database without a process that the launcher knows.
enum Tended {
    /// It has a scheduler: an earlier launcher started it.
    Runs,
    Started,
    /// Not now: to be tried again after so long.
    Later(Micros),
    /// There is no background worker left.
    NoRoom,
}

impl DatabaseState {
    /// Starts a scheduler, unless there is one or it must wait. `has_room`: there may be a
    /// background worker left.
    fn tend(&mut self, database: &Listed, has_room: bool) -> Tended {
        let now = time::monotonic();
        if schedulers::scheduler_of(database.oid).is_some() {
            return Tended::Runs;
        }
        if schedulers::is_suspended(database.oid) || is_locked(database.oid) {
            return Tended::Later(RECHECK_INTERVAL);
        }
        if now < self.not_before {
            return Tended::Later(self.not_before - now);
        }
        match has_room.then(|| start(database.oid)).flatten() {
            Some(process) => {
                self.process = Some(process);
                self.started = now;
                self.is_absent = false;
                Tended::Started
            }
            None => Tended::NoRoom,
        }
    }

    /// Names a database that has the extension and no scheduler.
    fn warn(&mut self, database: &Listed) {
        let now = time::monotonic();
        if now >= self.next_warning {
            self.next_warning = now + WARNING_INTERVAL;
            error::no_scheduler(&database.name).report(PgLogLevel::WARNING);
        }
    }

    fn ended(&mut self) {
        let now = time::monotonic();
        let is_healthy = self.is_absent || now - self.started >= HEALTHY_RUNTIME;
        self.process = None;
        self.failures = if is_healthy { 0 } else { self.failures + 1 };
        if self.failures > 0 {
            let pause = (LEAST_PAUSE * (1 << self.failures.min(16))).min(MOST_PAUSE);
            self.not_before = now + pause;
        }
    }
}

/// Starts a scheduler; `None`: there is no background worker left.
fn start(database: u32) -> Option<DynamicBackgroundWorker> {
    let me = process::id();
    builder("scylla scheduler", "scylla_scheduler")
        .set_argument(Some(pg_sys::Datum::from(database)))
        .set_notify_pid(me)
        .set_restart_time(None)
        .load_dynamic()
        .ok()
}

/// Whether a command has the database for itself, in a transaction that has not ended: a scheduler
/// would wait for that, in the place of another one.
fn is_locked(database: u32) -> bool {
    let database = pg_sys::Oid::from_u32(database);
    let try_it = || try_lock_database(database, pg_sys::RowExclusiveLock);
    transaction("see whether a database is locked", Commit::Ahead, try_it) != Some(true)
}

/// All databases but those whose DROP DATABASE was interrupted.
fn list_databases() -> Vec<Listed> {
    let mut found = Vec::new();
    // SAFETY: scans a shared catalog inside a transaction, and closes what it opens.
    unsafe {
        let relation =
            pg_sys::table_open(pg_sys::DatabaseRelationId, pg_sys::AccessShareLock as i32);
        let scan = pg_sys::table_beginscan_catalog(relation, 0, std::ptr::null_mut());
        loop {
            let tuple = pg_sys::heap_getnext(scan, pg_sys::ScanDirection::ForwardScanDirection);
            if tuple.is_null() {
                break;
            }
            let database = &*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_database>();
            if database.datconnlimit != pg_sys::DATCONNLIMIT_INVALID_DB {
                let name = std::ffi::CStr::from_ptr(database.datname.data.as_ptr());
                found.push(Listed {
                    oid: database.oid.to_u32(),
                    name: datum::printable(name.to_bytes()),
                    is_open: database.datallowconn,
                });
            }
        }
        pg_sys::heap_endscan(scan.cast());
        pg_sys::table_close(relation, pg_sys::AccessShareLock as i32);
    }
    found
}
