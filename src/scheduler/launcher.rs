//! The launcher: finds the databases that have the extension, and keeps one worker for each.

use crate::error;
use crate::pg::process;
use crate::pg::{datum, time};
use crate::scheduler::process::{builder, install_signal_handlers, sleep, transaction};
use crate::shmem::segment::{self, with_board};
use board::{Micros, Monotonic};
use pgrx::bgworkers::{BackgroundWorkerStatus, DynamicBackgroundWorker};
use pgrx::pg_sys;
use pgrx::prelude::*;
use std::collections::HashMap;

/// How often the launcher looks for new databases without being called.
const RESCAN_INTERVAL: Micros = Micros::from_secs(5);
/// How often it checks a scheduler that a command suspends.
const RECHECK_INTERVAL: Micros = Micros::from_millis(100);
/// A scheduler that ran for so long did not die of its start.
const HEALTHY_RUNTIME: Micros = Micros::from_millis(500);
/// How long to wait before a scheduler that keeps dying is started again.
const LEAST_PAUSE: Micros = Micros::from_millis(50);
const MOST_PAUSE: Micros = Micros::from_secs(30);

/// A database, and its worker if one was ever started.
#[derive(Default)]
struct WorkerState {
    worker: Option<DynamicBackgroundWorker>,
    started: Monotonic,
    failures: u32,
    /// No start before then.
    not_before: Monotonic,
    known: bool,
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
    let mut workers: HashMap<u32, WorkerState> = HashMap::new();
    loop {
        let Some(databases) = transaction("list the databases", databases) else {
            sleep(RESCAN_INTERVAL);
            continue;
        };
        workers.retain(|database, _| databases.contains_key(database));
        let mut pause = RESCAN_INTERVAL;
        for (database, name) in databases {
            let post = workers.entry(database).or_default();
            pause = pause.min(post.supervise(database, &name));
        }
        sleep(pause);
    }
}

impl WorkerState {
    /// Starts the database's worker if it is wanted and does not run. Returns when to look again.
    fn supervise(&mut self, database: u32, name: &str) -> Micros {
        let now = time::monotonic();
        let away = segment::is_scheduler_suspended(database);
        if let Some(worker) = &self.worker {
            match worker.pid() {
                Ok(process) if away => {
                    // SAFETY: a signal to a worker of ours that runs.
                    unsafe { libc::kill(process, libc::SIGTERM) };
                    return RECHECK_INTERVAL;
                }
                Ok(_) | Err(BackgroundWorkerStatus::NotYetStarted) => return RESCAN_INTERVAL,
                Err(_) => self.ended(now),
            }
        }
        // A entry without a clock calls for one; a database seen for the first time is looked into.
        let called = with_board(|board| board.note_scheduler_ended(database));
        if away {
            segment::broadcast();
            return RECHECK_INTERVAL;
        }
        if self.known && !called {
            return RESCAN_INTERVAL;
        }
        if now < self.not_before {
            return self.not_before - now;
        }
        self.start(database, name, now)
    }

    fn ended(&mut self, now: Monotonic) {
        self.worker = None;
        self.failures = if now - self.started >= HEALTHY_RUNTIME { 0 } else { self.failures + 1 };
        if self.failures > 0 {
            let pause = (LEAST_PAUSE * (1 << self.failures.min(16))).min(MOST_PAUSE);
            self.not_before = now + pause;
        }
    }

    fn start(&mut self, database: u32, name: &str, now: Monotonic) -> Micros {
        let started = builder("scylla scheduler", "scylla_scheduler")
            .set_argument(Some(pg_sys::Datum::from(database)))
            .set_notify_pid(process::id())
            .set_restart_time(None)
            .load_dynamic();
        match started {
            Ok(worker) => {
                self.worker = Some(worker);
                self.started = now;
                self.known = true;
                RESCAN_INTERVAL
            }
            Err(_) => {
                error::no_scheduler(name).report(PgLogLevel::WARNING);
                self.not_before = now + MOST_PAUSE;
                MOST_PAUSE
            }
        }
    }
}

/// The databases that one can connect to, by their oids.
fn databases() -> HashMap<u32, String> {
    let mut found = HashMap::new();
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
            if database.datallowconn {
                let name = std::ffi::CStr::from_ptr(database.datname.data.as_ptr());
                found.insert(database.oid.to_u32(), datum::printable(name.to_bytes()));
            }
        }
        pg_sys::heap_endscan(scan.cast());
        pg_sys::table_close(relation, pg_sys::AccessShareLock as i32);
    }
    found
}
