//! Work whose error costs what it did, and not the transaction.

use crate::memory;
use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;
use pgrx::{PgTryBuilder, pg_sys};
use std::panic::AssertUnwindSafe;

/// Does some work in a subtransaction, which is rolled back where the work says that nothing of it
/// is to stay. An error goes on to the caller, whose transaction it ends.
pub fn tentatively<T>(work: impl FnOnce() -> (bool, T)) -> T {
    // SAFETY: as in `in_subtransaction`.
    unsafe {
        let before = (pg_sys::CurrentMemoryContext, pg_sys::CurrentResourceOwner);
        pg_sys::BeginInternalSubTransaction(std::ptr::null());
        pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
        let (stays, answer) = work();
        pg_sys::PopActiveSnapshot();
        match stays {
            true => pg_sys::ReleaseCurrentSubTransaction(),
            false => pg_sys::RollbackAndReleaseCurrentSubTransaction(),
        }
        (pg_sys::CurrentMemoryContext, pg_sys::CurrentResourceOwner) = before;
        answer
    }
}

/// Does some work in a subtransaction, under a snapshot of its own; the message of an error that
/// rolled it back. A cancel goes on to the caller.
pub fn in_subtransaction<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    // SAFETY: inside a transaction; context and owner are put back as they were, as PL/pgSQL does.
    let (context, owner) = unsafe {
        let before = (pg_sys::CurrentMemoryContext, pg_sys::CurrentResourceOwner);
        pg_sys::BeginInternalSubTransaction(std::ptr::null());
        before
    };
    let restore = || {
        // SAFETY: as above.
        unsafe {
            pg_sys::CurrentMemoryContext = context;
            pg_sys::CurrentResourceOwner = owner;
        }
    };
    PgTryBuilder::new(AssertUnwindSafe(|| {
        // SAFETY: the snapshot is popped here, or by the end of the subtransaction.
        unsafe {
            pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
            let answer = work();
            pg_sys::PopActiveSnapshot();
            pg_sys::ReleaseCurrentSubTransaction();
            restore();
            Ok(answer)
        }
    }))
    .catch_others(|error| {
        // SAFETY: the error was taken off PostgreSQL's stack by the code that caught it.
        unsafe { pg_sys::RollbackAndReleaseCurrentSubTransaction() };
        restore();
        let report = match &error {
            CaughtError::PostgresError(report) | CaughtError::ErrorReport(report) => report,
            CaughtError::RustPanic { ereport, .. } => ereport,
        };
        if report.sql_error_code() == PgSqlErrorCode::ERRCODE_QUERY_CANCELED {
            error.rethrow();
        }
        memory::replenish();
        Err(report.message().to_owned())
    })
    .execute()
}
