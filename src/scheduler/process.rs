//! What the background processes share: how they start, sleep, handle signals, and run
//! transactions.

use crate::error;
use crate::extension::database::{self, Database};
use crate::memory;
use crate::pg::compat::server;
use crate::pg::time;
use crate::xact::{self, durability};
use board::{Micros, Monotonic};
use pgrx::bgworkers::{BackgroundWorkerBuilder, BgWorkerStartTime};
use pgrx::pg_sys;
use pgrx::prelude::*;
use std::cell::Cell;
use std::panic::AssertUnwindSafe;

pub fn builder(name: &str, function: &str) -> BackgroundWorkerBuilder {
    BackgroundWorkerBuilder::new(name)
        .set_type(name)
        .set_library("scylla")
        .set_function(function)
        .set_start_time(BgWorkerStartTime::RecoveryFinished)
        .enable_spi_access()
}

// Declared here, since the wrappers of pgrx cannot be signal handlers.
unsafe extern "C-unwind" {
    fn die(signal: core::ffi::c_int);
    #[link_name = "SignalHandlerForConfigReload"]
    fn reload(signal: core::ffi::c_int);
}

/// Takes signals as a backend does: SIGTERM ends a wait inside PostgreSQL too.
pub fn install_signal_handlers() {
    // SAFETY: handlers of the server's own.
    unsafe {
        server::handle_signal(libc::SIGTERM, die);
        server::handle_signal(libc::SIGHUP, reload);
        pg_sys::BackgroundWorkerUnblockSignals();
    }
}

/// Sleeps until the latch is set, at most so long; then heeds what came meanwhile. True when the
/// settings were read again.
pub fn sleep(most: Micros) -> bool {
    // SAFETY: waits on this process's latch; the postmaster's death ends the process.
    unsafe {
        pg_sys::WaitLatch(
            pg_sys::MyLatch,
            (pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH) as i32,
            most.max(Micros::ZERO).millis_up(),
            pg_sys::PG_WAIT_EXTENSION,
        );
        pg_sys::ResetLatch(pg_sys::MyLatch);
        heed_interrupts();
        let reload = std::ptr::read_volatile(&raw const pg_sys::ConfigReloadPending) != 0;
        if reload {
            pg_sys::ConfigReloadPending = 0;
            pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP);
        }
        reload
    }
}

/// Heeds what signals asked for, between transactions. A cancel, or a lock timeout that came late,
/// means a duty that is over, and ends nothing.
pub fn heed_interrupts() {
    // SAFETY: plain flags of this process.
    unsafe { std::ptr::write_volatile(&raw mut pg_sys::QueryCancelPending, 0) };
    pgrx::check_for_interrupts!();
}

/// What a transaction's commit waits for. Never for a standby: that would stop the other duties.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Commit {
    /// Nothing. A crash may undo it; whatever was done on account of it since is behind it in the
    /// write-ahead log, and undone too.
    Ahead,
    /// The disk, as long as that is quick. What others rely on is withheld until it is durable.
    Durable,
}

/// Does some work in a transaction of its own. An error is logged and rolls it back: `None`.
pub fn transaction<T>(what: &str, commit: Commit, work: impl FnOnce() -> T) -> Option<T> {
    attempt(what, commit, work).map_err(|message| error::log_failure(what, &message)).ok()
}

/// As `transaction`, but returns the message of an error instead of logging it.
pub fn attempt<T>(what: &str, commit: Commit, work: impl FnOnce() -> T) -> Result<T, String> {
    let level = durability::wanted_level();
    let is_durable = commit == Commit::Durable;
    let flushes = is_durable && may_flush();
    let what_now = std::ffi::CString::new(what).unwrap_or_default();
    // SAFETY: outside of any transaction, in a process that is connected.
    unsafe {
        pg_sys::SetCurrentStatementStartTimestamp();
        pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_RUNNING, what_now.as_ptr());
    }
    let done = PgTryBuilder::new(AssertUnwindSafe(|| {
        // SAFETY: as above; the work runs under an active snapshot, as any command does.
        memory::with_reserve(|| unsafe {
            pg_sys::StartTransactionCommand();
            durability::wait_for_disk_only(flushes);
            if is_durable {
                xact::commit_ahead(level);
            }
            pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
            let answer = work();
            pg_sys::PopActiveSnapshot();
            if flushes {
                timing_flush(|| pg_sys::CommitTransactionCommand());
            } else {
                pg_sys::CommitTransactionCommand();
            }
            Ok(answer)
        })
    }))
    .catch_others(|error| {
        let message = match &error {
            pg_sys::panic::CaughtError::PostgresError(report)
            | pg_sys::panic::CaughtError::ErrorReport(report) => report.message().to_owned(),
            pg_sys::panic::CaughtError::RustPanic { ereport, .. } => ereport.message().to_owned(),
        };
        // SAFETY: the error is off PostgreSQL's stack since it was caught.
        unsafe { pg_sys::AbortCurrentTransaction() };
        Err(message)
    })
    .execute();
    // SAFETY: outside of a transaction; what was counted becomes visible, to autovacuum too.
    unsafe {
        pg_sys::pgstat_report_stat(false);
        pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_IDLE, std::ptr::null());
    }
    done
}

thread_local! {
    /// This process does not wait for the disk before.
    static NEXT_FLUSH: Cell<Monotonic> = const { Cell::new(Monotonic::MIN) };
}

/// How long a wait for the disk takes of which there may be one after the other.
const QUICK_FLUSH: Micros = Micros::from_millis(1);
/// How long a slow disk is left to the WAL writer at most.
const LONGEST_PAUSE: Micros = Micros::from_secs(600);

fn may_flush() -> bool {
    time::monotonic() >= NEXT_FLUSH.get()
}

/// Waits for the disk. The longer that takes, the longer it is left to the WAL writer afterwards,
/// so that a slow disk does not stop the duties that need not wait for it.
fn timing_flush<T>(flush: impl FnOnce() -> T) -> T {
    let begun = time::monotonic();
    let answer = flush();
    let now = time::monotonic();
    let took = now - begun;
    NEXT_FLUSH.set(now + (took * (took.0 / QUICK_FLUSH.0)).min(LONGEST_PAUSE));
    answer
}

/// Makes known what was withheld and is durable by now. True when nothing is withheld any more.
pub fn publish_durable() -> bool {
    if let Some(end) = xact::withheld_until().filter(|_| may_flush()) {
        timing_flush(|| durability::flush(end));
    }
    xact::publish_durable()
}

/// Runs a duty in a transaction of its own, unless the extension is dropped meanwhile. Locks the
/// same table first as DROP EXTENSION does, so that the two do not deadlock.
pub fn in_extension_transaction<T>(
    db: &Database,
    what: &str,
    commit: Commit,
    duty: impl FnOnce() -> T,
) -> Option<T> {
    transaction(what, commit, || {
        // SAFETY: a lock that the transaction's end releases; the table need not exist.
        unsafe { pg_sys::LockRelationOid(db.task, pg_sys::AccessShareLock as i32) };
        (database::find_again() == Some(*db)).then(duty)
    })
    .flatten()
}
