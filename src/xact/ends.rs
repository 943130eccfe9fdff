//! When transactions end, as PostgreSQL tells.

use crate::error;
use crate::pg::process;
use crate::xact::apply::{commit, revert};
use crate::xact::pending::{end_level, raise_level};
use crate::xact::{in_hand, withheld};
use pgrx::pg_sys::{self, SubXactEvent, XactEvent};
use pgrx::prelude::*;

/// Asks PostgreSQL to tell; called while the library is preloaded, for all processes of the server.
pub fn register() {
    // SAFETY: registered once, in the memory that each process inherits.
    unsafe {
        pg_sys::RegisterXactCallback(Some(transaction_ends), std::ptr::null_mut());
        pg_sys::RegisterSubXactCallback(Some(subtransaction_ends), std::ptr::null_mut());
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn transaction_ends(event: XactEvent::Type, _arg: *mut core::ffi::c_void) {
    match event {
        XactEvent::XACT_EVENT_PRE_PREPARE if in_hand::has_called() => {
            error::not_preparable().raise()
        }
        XactEvent::XACT_EVENT_COMMIT => {
            in_hand::forget_call();
            let ahead = withheld::take_ahead();
            end_level(1, |pending, _| commit(pending.drain(..), ahead));
            in_hand::end_counting(true);
        }
        XactEvent::XACT_EVENT_ABORT => {
            in_hand::forget_call();
            withheld::take_ahead();
            end_level(1, |pending, from| revert(pending.split_at(from)));
            in_hand::end_counting(false);
        }
        // Only a dropped extension or database gets here. Later callers find its entry and remove
        // it.
        XactEvent::XACT_EVENT_PREPARE => end_level(1, |_, _| {}),
        _ => {}
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn subtransaction_ends(
    event: SubXactEvent::Type,
    _me: pg_sys::SubTransactionId,
    _parent: pg_sys::SubTransactionId,
    _arg: *mut core::ffi::c_void,
) {
    // The level is still the ending one's.
    let level = process::nest_level();
    match event {
        SubXactEvent::SUBXACT_EVENT_COMMIT_SUB => raise_level(level),
        SubXactEvent::SUBXACT_EVENT_ABORT_SUB => {
            end_level(level, |pending, from| revert(pending.split_at(from)));
        }
        _ => {}
    }
}
