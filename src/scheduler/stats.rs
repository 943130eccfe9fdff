//! The numbers of queues: the scheduler has the tasks counted, and writes the totals.

use crate::memory;
use crate::ops::stats::{recount, totals};
use crate::pg::time;
use crate::scheduler::duties::in_extension_transaction;
use crate::scheduler::helper;
use crate::scheduler::process::Commit;
use crate::shmem::database::Database;
use crate::shmem::segment::with_board;
use board::{Micros, Monotonic};
use pgrx::pg_sys;
use pgrx::prelude::*;
use std::cell::Cell;

/// How often totals are written: a crash loses what happened since.
const WRITE_INTERVAL: Micros = Micros::from_secs(5);
/// How often queues are looked at that may be forgotten.
const LOOK_INTERVAL: Micros = Micros::from_secs(20);
/// How long to wait before a recount that did not come about is tried again.
const TRY_AGAIN: Micros = Micros::from_secs(1);

pub struct Stats {
    next_write: Monotonic,
    next_recount: Monotonic,
    next_look: Monotonic,
}

thread_local! {
    /// The database whose totals this process writes as it ends.
    static WRITTEN_AT_EXIT: Cell<Option<Database>> = const { Cell::new(None) };
}

impl Stats {
    pub fn new() -> Stats {
        let now = time::monotonic();
        Stats {
            next_write: now + WRITE_INTERVAL,
            next_recount: Monotonic::MIN,
            next_look: now + WRITE_INTERVAL,
        }
    }

    /// Has the tasks counted if they are not, which `may_want` tells to be possible, and writes the
    /// totals if it is time.
    pub fn keep(&mut self, db: &Database, entry: u32, may_want: bool) {
        let now = time::monotonic();
        if may_want && now >= self.next_recount && with_board(|board| board.wants_recount(entry)) {
            self.next_recount = now + TRY_AGAIN;
            count(db);
        }
        if now >= self.next_write {
            self.next_write = now + WRITE_INTERVAL;
            write(db, entry);
        }
        if now >= self.next_look {
            self.next_look = now + LOOK_INTERVAL;
            let forget = || totals::forget_unused(db, time::now().wall);
            in_extension_transaction(db, "forget unused queues", Commit::Ahead, forget);
        }
    }
}

/// Counts the tasks if they are few; else the helper does, since that takes its time.
fn count(db: &Database) {
    let counted = in_extension_transaction(db, "count the tasks", Commit::Ahead, || {
        let is_short = recount::is_short(db);
        if is_short {
            recount::recount(db);
        }
        is_short
    });
    if counted == Some(false) {
        helper::start(db);
    }
}

fn write(db: &Database, entry: u32) {
    for unwritten in totals::read(entry) {
        with_board(|board| board.entry_mut(entry).is_writing = true);
        let write = || totals::write(db, unwritten);
        let written = in_extension_transaction(db, "write the totals", Commit::Ahead, write);
        with_board(|board| {
            let it = board.entry_mut(entry);
            it.is_writing = false;
            it.writes = it.writes.wrapping_add(1);
        });
        if written.is_none() {
            break;
        }
    }
}

/// Has this process write the totals when the server stops.
pub fn write_at_exit(db: &Database) {
    if WRITTEN_AT_EXIT.replace(Some(*db)).is_none() {
        // SAFETY: registered once. It runs before PostgreSQL's own, while transactions are
        // possible.
        unsafe { pg_sys::before_shmem_exit(Some(scheduler_exits), pg_sys::Datum::from(0)) };
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn scheduler_exits(_code: core::ffi::c_int, _arg: pg_sys::Datum) {
    let Some(db) = WRITTEN_AT_EXIT.take() else { return };
    // SAFETY: as PostgreSQL does before it removes temporary tables at the same time.
    unsafe { pg_sys::AbortOutOfAnyTransaction() };
    if let Some(entry) = with_board(|board| db.find(board)) {
        memory::with_reserve(|| write(&db, entry));
    }
}
