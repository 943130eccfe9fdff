//! What functions keep for the statement that calls them.

use pgrx::pg_sys;
use pgrx::prelude::*;
use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;

thread_local! {
    static KEPT: RefCell<Vec<(pg_sys::MemoryContext, Rc<dyn Any>)>> =
        const { RefCell::new(Vec::new()) };
}

/// What was kept for the statement whose memory this is.
pub fn find<T: 'static>(statement: pg_sys::MemoryContext) -> Option<Rc<T>> {
    KEPT.with_borrow(|kept| {
        let mut found = kept.iter().filter(|it| it.0 == statement);
        found.find_map(|it| it.1.clone().downcast().ok())
    })
}

/// Keeps something until the statement whose memory this is ends.
pub fn keep<T: 'static>(statement: pg_sys::MemoryContext, it: Rc<T>) {
    // SAFETY: the callback lies in the memory whose end it is called for; it is given that memory's
    // address, which it does not read.
    unsafe {
        let size = size_of::<pg_sys::MemoryContextCallback>();
        let callback = pg_sys::MemoryContextAllocZero(statement, size);
        let callback = callback.cast::<pg_sys::MemoryContextCallback>();
        (*callback).func = Some(statement_ends);
        (*callback).arg = statement.cast();
        KEPT.with_borrow_mut(|kept| kept.push((statement, it)));
        pg_sys::MemoryContextRegisterResetCallback(statement, callback);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn statement_ends(statement: *mut core::ffi::c_void) {
    KEPT.with_borrow_mut(|kept| kept.retain(|it| it.0.cast() != statement));
}
