//! Changes of PostgreSQL's settings for a while, by its own bookkeeping. If code writes the
//! variable behind a setting directly and a trigger then sets it, PostgreSQL restores the wrong
//! value.

use pgrx::pg_sys::{self, GucAction};
use std::ffi::CStr;

/// Does some work with these settings. If it fails, the abort of the transaction restores them.
pub fn with<T, const N: usize>(values: [(&CStr, &CStr); N], work: impl FnOnce() -> T) -> T {
    // SAFETY: a nest level of settings, ended here.
    let level = unsafe { pg_sys::NewGUCNestLevel() };
    values.into_iter().for_each(|(name, value)| set(name, value, GucAction::GUC_ACTION_SAVE));
    let answer = work();
    // SAFETY: ends the level that began above.
    unsafe { pg_sys::AtEOXact_GUC(true, level) };
    answer
}

/// Sets something until the end of the transaction.
pub fn set_local(name: &CStr, value: &CStr) {
    set(name, value, GucAction::GUC_ACTION_LOCAL);
}

fn set(name: &CStr, value: &CStr, action: GucAction::Type) {
    // SAFETY: two texts that end with a zero.
    unsafe {
        pg_sys::set_config_option(
            name.as_ptr(),
            value.as_ptr(),
            pg_sys::GucContext::PGC_USERSET,
            pg_sys::GucSource::PGC_S_SESSION,
            action,
            true,
            0,
            false,
        );
    }
}
