//! Notice of changed tables and roles, for what a backend caches about them.

use pgrx::pg_sys::{self, Oid};
use pgrx::prelude::*;
use std::cell::RefCell;

thread_local! {
    static LISTENERS: RefCell<Vec<fn(Oid)>> = const { RefCell::new(Vec::new()) };
    static ROLE_LISTENERS: RefCell<Vec<fn()>> = const { RefCell::new(Vec::new()) };
}

/// Calls `listener` with each table that changes from now on, once however often it is registered.
/// The invalid oid means all tables.
pub fn on_change(listener: fn(Oid)) {
    LISTENERS.with_borrow_mut(|listeners| {
        if listeners.is_empty() {
            // SAFETY: registered once for the life of the backend.
            unsafe { pg_sys::CacheRegisterRelcacheCallback(Some(table_changed), 0.into()) };
        }
        if !listeners.iter().any(|it| std::ptr::fn_addr_eq(*it, listener)) {
            listeners.push(listener);
        }
    });
}

#[pg_guard]
unsafe extern "C-unwind" fn table_changed(_arg: pg_sys::Datum, table: Oid) {
    LISTENERS.with_borrow(|listeners| listeners.iter().for_each(|listener| listener(table)));
}

/// Calls `listener` whenever a role or a membership changes from now on, once however often it is
/// registered.
pub fn on_role_change(listener: fn()) {
    ROLE_LISTENERS.with_borrow_mut(|listeners| {
        if listeners.is_empty() {
            use pg_sys::SysCacheIdentifier::{AUTHMEMROLEMEM, AUTHOID, DATABASEOID};
            // The owner of a database is a member of pg_database_owner.
            for cache in [AUTHMEMROLEMEM, AUTHOID, DATABASEOID] {
                // SAFETY: registered once for the life of the backend.
                unsafe {
                    pg_sys::CacheRegisterSyscacheCallback(
                        cache as i32,
                        Some(role_changed),
                        0.into(),
                    );
                }
            }
        }
        if !listeners.iter().any(|it| std::ptr::fn_addr_eq(*it, listener)) {
            listeners.push(listener);
        }
    });
}

#[pg_guard]
unsafe extern "C-unwind" fn role_changed(_arg: pg_sys::Datum, _cache: i32, _hash: u32) {
    ROLE_LISTENERS.with_borrow(|listeners| listeners.iter().for_each(|listener| listener()));
}

/// Hears of the changes that other sessions have committed meanwhile.
pub fn catch_up() {
    // SAFETY: as at the lock of a table, inside a transaction.
    unsafe { pg_sys::AcceptInvalidationMessages() };
}

/// How many blocks a table has; none where it is not there. Its lock is kept until the end of the
/// transaction.
pub fn blocks(table: Oid) -> u32 {
    // SAFETY: opens the table, if it is there, and closes it.
    unsafe {
        let table = pg_sys::try_table_open(table, pg_sys::AccessShareLock as i32);
        if table.is_null() {
            return 0;
        }
        let main = pg_sys::ForkNumber::MAIN_FORKNUM;
        let blocks = pg_sys::RelationGetNumberOfBlocksInFork(table, main);
        pg_sys::table_close(table, pg_sys::NoLock as i32);
        blocks
    }
}

/// Tells all sessions at the commit, and this one at once, that a table has changed.
pub fn announce_change(table: Oid) {
    // SAFETY: a table that exists.
    unsafe { pg_sys::CacheInvalidateRelcacheByRelid(table) };
}
