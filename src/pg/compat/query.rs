//! The steps of running a statement at top level.

use pgrx::pg_sys::{self, List, Portal, QueryCompletion, RawStmt};
use std::ffi::c_char;
use std::ptr;

/// Analyzes a statement without parameters, and rewrites it by rules.
///
/// # Safety
/// The statement was parsed from the text, and there is a snapshot if it needs one.
pub unsafe fn analyze(statement: *mut RawStmt, text: *const c_char) -> *mut List {
    #[cfg(feature = "pg14")]
    use pg_sys::pg_analyze_and_rewrite;
    #[cfg(not(feature = "pg14"))]
    use pg_sys::pg_analyze_and_rewrite_fixedparams as pg_analyze_and_rewrite;
    // SAFETY: the caller's promise; there are no parameters.
    unsafe { pg_analyze_and_rewrite(statement, text, ptr::null_mut(), 0, ptr::null_mut()) }
}

/// Runs a portal to its end.
///
/// # Safety
/// The portal was started, and the receiver takes its rows.
pub unsafe fn run_portal(portal: Portal, receiver: *mut pg_sys::DestReceiver) -> QueryCompletion {
    let mut done = QueryCompletion::default();
    let most = i64::MAX;
    // SAFETY: the caller's promise.
    #[cfg(not(feature = "pg18"))]
    unsafe {
        pg_sys::PortalRun(portal, most, true, true, receiver, receiver, &mut done);
    }
    // SAFETY: as above.
    #[cfg(feature = "pg18")]
    unsafe {
        pg_sys::PortalRun(portal, most, true, receiver, receiver, &mut done);
    }
    done
}
