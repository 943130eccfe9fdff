//! Notice of changed tables, for what a backend caches about them.

use pgrx::pg_sys::{self, Oid};
use pgrx::prelude::*;
use std::cell::RefCell;

thread_local! {
    static LISTENERS: RefCell<Vec<fn(Oid)>> = const { RefCell::new(Vec::new()) };
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
