//! The state of this process: its id, its database, its transaction.
//!
//! Each function but the last three reads a variable of PostgreSQL's that belongs to this process,
//! which has one thread.

use pgrx::pg_sys::{self, Oid};

/// The process's id, as `pg_stat_activity` shows it.
pub fn id() -> i32 {
    // SAFETY: see above.
    unsafe { pg_sys::MyProcPid }
}

/// The process's number, its index among all that the server can have: that of its waiter on the
/// board.
pub fn number() -> u32 {
    // SAFETY: see above; it is one of the array's.
    unsafe { pg_sys::MyProc.offset_from((*pg_sys::ProcGlobal).allProcs) as u32 }
}

/// The database that the process is connected to.
pub fn database() -> Oid {
    // SAFETY: see above.
    unsafe { pg_sys::MyDatabaseId }
}

/// Whether the server is a standby, or recovers from a crash.
pub fn is_in_recovery() -> bool {
    // SAFETY: see above; the server's state is read from shared memory.
    unsafe { pg_sys::RecoveryInProgress() }
}

/// Whether the transaction cannot write. On a standby none can.
pub fn is_read_only() -> bool {
    // SAFETY: see above.
    unsafe { pg_sys::XactReadOnly || is_in_recovery() }
}

/// The number of the transaction; 0: it has none, and has written no row.
pub fn transaction() -> u32 {
    // SAFETY: see above.
    unsafe { pg_sys::GetTopTransactionIdIfAny() }.into_inner()
}

/// Whether the transaction has an id: it may have written rows.
pub fn has_written() -> bool {
    transaction() != 0
}

/// Whether the transaction is at REPEATABLE READ or SERIALIZABLE: it cannot change a row that
/// another transaction has changed since its snapshot, which fails with 40001.
pub fn has_one_snapshot() -> bool {
    // SAFETY: see above.
    unsafe { pg_sys::XactIsoLevel >= pg_sys::XACT_REPEATABLE_READ as i32 }
}

/// How deeply savepoints are nested: 1 outside of any.
pub fn nest_level() -> i32 {
    // SAFETY: see above.
    unsafe { pg_sys::GetCurrentTransactionNestLevel() }
}

/// Wakes another process, if it is there.
pub fn wake(pid: i32) {
    // SAFETY: the latch of a process lies in shared memory and outlives the process.
    unsafe {
        let process = pg_sys::BackendPidGetProc(pid);
        if !process.is_null() {
            pg_sys::SetLatch(&raw mut (*process).procLatch);
        }
    }
}

/// Cancels what another process of the server runs.
pub fn interrupt(pid: i32) {
    // SAFETY: a signal that a backend takes at any time.
    unsafe { libc::kill(pid, libc::SIGINT) };
}

/// Terminates another process of the server.
pub fn terminate(pid: i32) {
    // SAFETY: a signal that a backend takes at any time.
    unsafe { libc::kill(pid, libc::SIGTERM) };
}
