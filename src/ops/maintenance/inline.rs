//! What callers do for a database that no scheduler serves: owning and returning go on.
//!
//! A caller ends leases, fires tasks and counts down as its transaction commits, not before: what
//! it takes in hand for others is theirs again in a moment, however long its transaction was open.

use crate::due;
use crate::error;
use crate::memory;
use crate::ops::dependencies::count_down;
use crate::ops::maintenance::expire::{self, Batch};
use crate::ops::maintenance::{QUARANTINE, fire};
use crate::ops::supply::{order, survey};
use crate::pg::process;
use crate::pg::subtransaction::in_subtransaction;
use crate::pg::time;
use crate::pg::uuid::Uuid;
use crate::shmem::database::{self, Database};
use crate::shmem::segment::with_board;
use crate::storage::rows::ROWS_PER_TX;
use board::{Board, Timestamp, Wall};
use pgrx::pg_sys::{self, XactEvent};
use pgrx::prelude::*;
use std::cell::Cell;

/// Whether a scheduler would have something to do.
pub fn is_wanted(board: &mut Board, entry: u32, now: Timestamp) -> bool {
    let it = board.entry(entry);
    let fires = it.may_fire_for_caller() && it.next_due <= due::horizon(now.wall);
    let counts_down = it.countdown_deferred && it.countdown_at <= now.monotonic;
    let looks = board.has_notes(entry);
    let it = board.entry(entry);
    fires || looks || it.wants_survey() || counts_down || board.next_expiry(entry) <= now.monotonic
}

thread_local! {
    /// The database for which this transaction does the duties as it commits.
    static SERVED: Cell<Option<Database>> = const { Cell::new(None) };
    static REGISTERED: Cell<bool> = const { Cell::new(false) };
}

/// Has this transaction do what is due as it commits: the tasks are ready then. Surveys the tables
/// at once, if that was asked for.
pub fn serve_inline(db: &Database, entry: u32) {
    // Uncommitted rows of this transaction must not get onto the board.
    if !process::has_written() && with_board(|board| board.entry(entry).wants_survey()) {
        survey::survey(db, entry);
    }
    // Rows that changed since a snapshot of before would be refused.
    if !process::has_one_snapshot() {
        if !REGISTERED.replace(true) {
            // SAFETY: registered once for the life of the backend.
            unsafe { pg_sys::RegisterXactCallback(Some(transaction_ends), std::ptr::null_mut()) };
        }
        SERVED.set(Some(*db));
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn transaction_ends(event: XactEvent::Type, _arg: *mut core::ffi::c_void) {
    let served = SERVED.take();
    if event == XactEvent::XACT_EVENT_PRE_COMMIT
        && let Some(db) = served
    {
        memory::with_reserve(|| do_duties(&db));
    }
}

/// Does a batch of each duty. What fails is logged, and costs neither the others nor the caller.
fn do_duties(db: &Database) {
    let found = with_board(|board| {
        let entry = db.find(board)?;
        let it = board.entry(entry);
        // A scheduler may have come meanwhile.
        (it.build_state == board::BuildState::Built && it.scheduler == 0).then_some(entry)
    });
    let Some(entry) = found else { return };
    count_down(db, entry);
    fire_due(db, entry);
    expire(db, entry);
    if with_board(|board| board.has_notes(entry)) {
        let done = guarded(db, "bring tasks of groups forward", || order::serve(db, entry));
        if done.is_none() {
            with_board(|board| board.entry_mut(entry).looks_for_groups = true);
        }
    }
}

/// How many batches of expired leases a call ends at most.
const MOST_BATCHES: usize = 64;

/// Ends a batch of expired leases; after some failed together, some of them one by one.
fn expire(db: &Database, entry: u32) {
    for _ in 0..MOST_BATCHES {
        let run = |work: &mut dyn FnMut()| guarded(db, "expire leases", work).is_some();
        match expire::expire_batch(db, entry, run) {
            Batch::Empty => break,
            Batch::Ended | Batch::Failed => {}
            Batch::Quarantined(id) => {
                // Not for the client, who has nothing to do with it.
                let level = PgLogLevel::LOG_SERVER_ONLY;
                error::quarantined("expire the lease of", id, QUARANTINE).report(level);
            }
        }
        if with_board(|board| board.entry(entry).one_by_one) == 0 {
            break;
        }
    }
}

/// Does a duty in a subtransaction, unless this transaction has dropped the extension.
fn guarded<T>(db: &Database, what: &str, duty: impl FnOnce() -> T) -> Option<T> {
    let done = in_subtransaction(|| (database::find_again() == Some(*db)).then(duty));
    done.unwrap_or_else(|message| {
        error::log_failure(what, &message);
        None
    })
}

fn count_down(db: &Database, entry: u32) {
    let now = time::monotonic();
    let counts_down = with_board(|board| {
        let it = board.entry_mut(entry);
        it.countdown_at <= now && std::mem::take(&mut it.countdown_deferred)
    });
    if !counts_down {
        return;
    }
    let done =
        guarded(db, "count down dependencies", || count_down::run_deferred(db, ROWS_PER_TX).0);
    with_board(|board| {
        let it = board.entry_mut(entry);
        // There may be more; and what a rollback takes back is to be counted down again.
        it.countdown_deferred |= done != Some(0);
        if done.is_none() {
            it.countdown_at = now + QUARANTINE;
        }
    });
}

fn fire_due(db: &Database, entry: u32) {
    let until = due::horizon(time::now().wall);
    let fires = with_board(|board| {
        let it = board.entry_mut(entry);
        let fires = it.may_fire_for_caller() && it.next_due <= until;
        if fires {
            it.next_due = Wall::NEVER;
        }
        fires
    });
    if !fires {
        return;
    }
    let what = "fire what is due";
    let read = || fire::read(db, (Wall::MIN, Uuid(0)), until, ROWS_PER_TX);
    // Once more after some fired: a rollback may take that back, and there may be more.
    let next = match guarded(db, what, read) {
        None => until + QUARANTINE,
        Some((due, next)) if due.is_empty() => next.unwrap_or(Wall::NEVER),
        Some((due, _)) => {
            let mut ids: Vec<Uuid> = due.into_iter().map(|(_, id)| id).collect();
            ids.sort_unstable();
            let fire = |ids: &[Uuid]| guarded(db, what, || fire::fire(db, ids, until)).is_some();
            // One at a time passes over the one that is in the way.
            if fire(&ids) || ids.iter().filter(|id| fire(&[**id])).count() > 0 {
                Wall::MIN
            } else {
                until + QUARANTINE
            }
        }
    };
    with_board(|board| board.note_due(entry, next));
}
