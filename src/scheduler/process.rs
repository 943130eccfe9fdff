//! What the background processes share: how they start, sleep, heed signals, and run transactions.

use board::Micros;
use pgrx::bgworkers::{BackgroundWorkerBuilder, BgWorkerStartTime};
use pgrx::pg_sys;
use pgrx::prelude::*;
use std::panic::AssertUnwindSafe;

pub fn builder(name: &str, function: &str) -> BackgroundWorkerBuilder {
    BackgroundWorkerBuilder::new(name)
        .set_type(name)
        .set_library("scylla")
        .set_function(function)
        .set_start_time(BgWorkerStartTime::RecoveryFinished)
        .enable_spi_access()
}

// Declared anew, since pgrx wraps the server's functions in a way that is no signal handler.
unsafe extern "C-unwind" {
    fn die(signal: core::ffi::c_int);
    #[link_name = "SignalHandlerForConfigReload"]
    fn reload(signal: core::ffi::c_int);
}

/// Takes signals as a backend does: SIGTERM ends a wait inside PostgreSQL too.
pub fn install_signal_handlers() {
    // SAFETY: handlers of the server's own.
    unsafe {
        pg_sys::pqsignal(libc::SIGTERM, Some(die));
        pg_sys::pqsignal(libc::SIGHUP, Some(reload));
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
        pgrx::check_for_interrupts!();
        let reload = std::ptr::read_volatile(&raw const pg_sys::ConfigReloadPending) != 0;
        if reload {
            pg_sys::ConfigReloadPending = 0;
            pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP);
        }
        reload
    }
}

/// Does some work in a transaction of its own. An error is logged and rolls it back: `None`.
pub fn transaction<T>(what: &str, work: impl FnOnce() -> T) -> Option<T> {
    attempt(what, work).map_err(|message| log(what, &message)).ok()
}

pub fn log(what: &str, message: &str) {
    ereport!(
        PgLogLevel::LOG,
        PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION,
        format!("scylla could not {what}: {message}")
    );
}

/// As `transaction`, but returns the message of an error instead of logging it.
pub fn attempt<T>(what: &str, work: impl FnOnce() -> T) -> Result<T, String> {
    let what_now = std::ffi::CString::new(what).unwrap_or_default();
    // SAFETY: outside of any transaction, in a process that is connected.
    unsafe {
        pg_sys::SetCurrentStatementStartTimestamp();
        pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_RUNNING, what_now.as_ptr());
    }
    let done = PgTryBuilder::new(AssertUnwindSafe(|| {
        // SAFETY: as above; the work runs under an active snapshot, as any command does.
        unsafe {
            pg_sys::StartTransactionCommand();
            pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
            let answer = work();
            pg_sys::PopActiveSnapshot();
            pg_sys::CommitTransactionCommand();
            Ok(answer)
        }
    }))
    .catch_others(|error| {
        let message = match &error {
            pg_sys::panic::CaughtError::PostgresError(report)
            | pg_sys::panic::CaughtError::ErrorReport(report) => report.message().to_owned(),
            pg_sys::panic::CaughtError::RustPanic { ereport, .. } => ereport.message().to_owned(),
        };
        // SAFETY: the error was taken off PostgreSQL's stack by whoever caught it.
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
