//! The search path of the extension's statements.

use pgrx::pg_sys;

/// Sets the search path of a session: pg_catalog only. PostgreSQL plans a kept statement again when
/// the path differs from that of the plan, so it is the same each time.
///
/// # Safety
/// To be restored before the session's level of settings ends.
pub unsafe fn restrict() {
    #[cfg(any(feature = "pg14", feature = "pg15", feature = "pg16"))]
    // SAFETY: PostgreSQL copies the path, and pops it when the transaction aborts.
    unsafe {
        let mut path = pg_sys::OverrideSearchPath { addCatalog: true, ..Default::default() };
        pg_sys::PushOverrideSearchPath(&mut path);
    }
    #[cfg(not(any(feature = "pg14", feature = "pg15", feature = "pg16")))]
    // SAFETY: a setting, which ends with the session's level.
    unsafe {
        pg_sys::RestrictSearchPath();
    }
}

/// # Safety
/// Sessions nest, so the path on top is that of `restrict`.
pub unsafe fn restore() {
    #[cfg(any(feature = "pg14", feature = "pg15", feature = "pg16"))]
    // SAFETY: the caller's promise.
    unsafe {
        pg_sys::PopOverrideSearchPath();
    }
}
