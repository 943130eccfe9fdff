//! Planning the extension's own statements, independently of the session's settings.

use crate::pg::settings;
use pgrx::pg_sys;
use pgrx::prelude::*;
use std::ffi::{CStr, c_char, c_int};
use std::sync::OnceLock;

/// Marks a statement of the extension among its cursor options, which PostgreSQL hands to the
/// planner as they are. PostgreSQL does not use this bit.
pub const OURS: i32 = 1 << 30;

/// A plan made while a table is empty must not scan it when it is full (I6): indexes find the rows,
/// and hashes join them with arrays. Compiling a plan costs more than running it.
const OFF: [&CStr; 6] = [
    c"enable_seqscan",
    c"enable_bitmapscan",
    c"enable_nestloop",
    c"enable_mergejoin",
    c"enable_sort",
    c"jit",
];

static mut BEFORE: pg_sys::planner_hook_type = None;

/// Checks a statement of the extension before it is planned. It belongs to a higher floor, which
/// registers it.
static CHECK: OnceLock<unsafe fn(*mut pg_sys::Query)> = OnceLock::new();

/// Hooks into the planner; called while the library is preloaded. The settings are in force while a
/// statement of the extension is planned, not while it runs: a function of an index has those of
/// its session. Each time that PostgreSQL plans such a statement, `check` gets it first.
pub fn register(check: unsafe fn(*mut pg_sys::Query)) {
    let _ = CHECK.set(check);
    // SAFETY: the postmaster has one thread, and calls an earlier hook in turn.
    unsafe {
        BEFORE = pg_sys::planner_hook;
        pg_sys::planner_hook = Some(plan);
    }
}

// Declared again: pgrx's wrapper takes an error apart and raises another, without its position.
unsafe extern "C-unwind" {
    fn standard_planner(
        query: *mut pg_sys::Query,
        text: *const c_char,
        options: c_int,
        parameters: pg_sys::ParamListInfo,
    ) -> *mut pg_sys::PlannedStmt;
}

/// Plans any statement of this process. An error of another's statement passes by as it is: there
/// is nothing to drop here.
unsafe extern "C-unwind" fn plan(
    query: *mut pg_sys::Query,
    text: *const c_char,
    options: c_int,
    parameters: pg_sys::ParamListInfo,
) -> *mut pg_sys::PlannedStmt {
    // SAFETY: passes the arguments on unchanged.
    unsafe {
        if options & OURS != 0 {
            plan_ours(query, text, options & !OURS, parameters)
        } else {
            next(query, text, options, parameters)
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn plan_ours(
    query: *mut pg_sys::Query,
    text: *const c_char,
    options: c_int,
    parameters: pg_sys::ParamListInfo,
) -> *mut pg_sys::PlannedStmt {
    if let Some(check) = CHECK.get() {
        // SAFETY: a whole query, as PostgreSQL calls.
        unsafe { check(query) };
    }
    settings::with(OFF.map(|name| (name, c"off")), || {
        // SAFETY: as above. Guarded, since an error unwinds through here.
        unsafe { pg_sys::ffi::pg_guard_ffi_boundary(|| next(query, text, options, parameters)) }
    })
}

/// Calls the hook that was there before, or PostgreSQL's planner.
///
/// # Safety
/// To be called with the arguments of the hook. May leave by a long jump.
unsafe fn next(
    query: *mut pg_sys::Query,
    text: *const c_char,
    options: c_int,
    parameters: pg_sys::ParamListInfo,
) -> *mut pg_sys::PlannedStmt {
    // SAFETY: the caller's promise.
    unsafe {
        match BEFORE {
            Some(before) => before(query, text, options, parameters),
            None => standard_planner(query, text, options, parameters),
        }
    }
}
