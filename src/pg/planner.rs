//! How the extension's own statements are planned, whatever the session has set.

use crate::pg::settings;
use pgrx::pg_sys;
use pgrx::prelude::*;
use std::ffi::CStr;

/// Marks a statement of the extension among its cursor options, which PostgreSQL hands to the
/// planner as they are. PostgreSQL does not use this bit.
pub const OURS: i32 = 1 << 30;

/// A plan made while a table is empty must not be a scan when it is full (I6): rows are found by
/// index, and joined by hash with what came as arrays. Compiling a plan costs more than running it.
const OFF: [&CStr; 6] = [
    c"enable_seqscan",
    c"enable_bitmapscan",
    c"enable_nestloop",
    c"enable_mergejoin",
    c"enable_sort",
    c"jit",
];

static mut BEFORE: pg_sys::planner_hook_type = None;

/// Hooks into the planner; called while the library is preloaded. The settings are in force while a
/// statement of the extension is planned, not while it runs: a trigger has those of its session.
pub fn register() {
    // SAFETY: the postmaster is alone; an earlier hook is called in turn.
    unsafe {
        BEFORE = pg_sys::planner_hook;
        pg_sys::planner_hook = Some(plan);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn plan(
    query: *mut pg_sys::Query,
    text: *const core::ffi::c_char,
    options: core::ffi::c_int,
    parameters: pg_sys::ParamListInfo,
) -> *mut pg_sys::PlannedStmt {
    // SAFETY: the arguments are handed on as they came.
    let next = |options| unsafe {
        match BEFORE {
            // Guarded, since an error unwinds through here.
            Some(next) => {
                pg_sys::ffi::pg_guard_ffi_boundary(|| next(query, text, options, parameters))
            }
            // Guarded by pgrx already.
            None => pg_sys::standard_planner(query, text, options, parameters),
        }
    };
    if options & OURS == 0 {
        next(options)
    } else {
        settings::with(OFF.map(|name| (name, c"off")), || next(options & !OURS))
    }
}
