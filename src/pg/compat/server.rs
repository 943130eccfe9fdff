//! How the library joins the server: shared memory, settings, signals, the write-ahead log.

use pgrx::pg_sys::{self, XLogRecPtr};
#[cfg(not(feature = "pg14"))]
use pgrx::prelude::*;
use std::ffi::CStr;

/// The index of AddinShmemInitLock among the main locks, which bindings do not have.
pub const ADDIN_SHMEM_INIT_LOCK: usize = 21;

type SignalHandler = unsafe extern "C-unwind" fn(signal: core::ffi::c_int);

/// Has a function called when shared memory may be asked for: at once, or by the hook.
///
/// # Safety
/// Called once, in the postmaster, while the library is preloaded.
pub unsafe fn at_shmem_request(request: fn()) {
    #[cfg(feature = "pg14")]
    request();
    #[cfg(not(feature = "pg14"))]
    // SAFETY: the hook is this process's, which is still alone; an earlier one is called first.
    unsafe {
        static mut REQUEST: Option<fn()> = None;
        static mut BEFORE: pg_sys::shmem_request_hook_type = None;
        #[pg_guard]
        unsafe extern "C-unwind" fn hook() {
            // SAFETY: written once, before the hook can be called.
            let (before, request) = unsafe { (BEFORE, REQUEST) };
            if let Some(before) = before {
                // SAFETY: the hook of a library that was loaded earlier.
                unsafe { before() };
            }
            if let Some(request) = request {
                request();
            }
        }
        REQUEST = Some(request);
        BEFORE = pg_sys::shmem_request_hook;
        pg_sys::shmem_request_hook = Some(hook);
    }
}

/// How many processes may run statements: those with the lowest numbers.
pub fn max_processes() -> usize {
    // SAFETY: settings of the server, which do not change while it runs. PostgreSQL 14 counts them
    // only after it has asked for the memory.
    #[cfg(feature = "pg14")]
    let processes = unsafe {
        unsafe extern "C" {
            static autovacuum_max_workers: core::ffi::c_int;
        }
        pg_sys::MaxConnections
            + autovacuum_max_workers
            + 1
            + pg_sys::max_worker_processes
            + pg_sys::max_wal_senders
    };
    #[cfg(not(feature = "pg14"))]
    // SAFETY: as above.
    let processes = unsafe { pg_sys::MaxBackends };
    processes as usize
}

/// Refuses settings that begin with a prefix and were not defined.
pub fn reserve_setting_prefix(prefix: &CStr) {
    // SAFETY: a name that ends with a zero.
    #[cfg(feature = "pg14")]
    unsafe {
        pg_sys::EmitWarningsOnPlaceholders(prefix.as_ptr());
    }
    // SAFETY: as above.
    #[cfg(not(feature = "pg14"))]
    unsafe {
        pg_sys::MarkGUCPrefixReserved(prefix.as_ptr());
    }
}

/// Sets the handler of a signal.
///
/// # Safety
/// The function may run as a signal handler.
pub unsafe fn handle_signal(signal: i32, handler: SignalHandler) {
    #[cfg(not(feature = "pg18"))]
    use pg_sys::pqsignal;
    #[cfg(feature = "pg18")]
    use pg_sys::pqsignal_be as pqsignal;
    // SAFETY: the caller's promise.
    unsafe {
        pqsignal(signal, Some(handler));
    }
}

/// How far the write-ahead log is on the local disk.
pub fn flushed() -> XLogRecPtr {
    // SAFETY: reads a position that all processes share.
    #[cfg(feature = "pg14")]
    return unsafe { pg_sys::GetFlushRecPtr() };
    // SAFETY: as above; the timeline is not asked for.
    #[cfg(not(feature = "pg14"))]
    return unsafe { pg_sys::GetFlushRecPtr(std::ptr::null_mut()) };
}

/// Whether every background worker that the server may have is in use.
pub fn has_no_free_worker() -> bool {
    // SAFETY: reads the head of a list in shared memory, which may be a moment old.
    unsafe {
        let free = &(*pg_sys::ProcGlobal).bgworkerFreeProcs;
        #[cfg(any(feature = "pg14", feature = "pg15"))]
        let is_empty = free.is_null();
        // PostgreSQL initialises the list before any process begins.
        #[cfg(not(any(feature = "pg14", feature = "pg15")))]
        let is_empty = std::ptr::eq(free.head.next, &free.head);
        is_empty
    }
}
