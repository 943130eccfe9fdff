//! Ending all leases of a worker: their tasks are as after an expiry, but the worker cannot have
//! them back.

use crate::ops::maintenance::expire::{self, Due};
use crate::pg::process;
use crate::shmem::database::Database;
use crate::shmem::segment::AT_ONCE;
use crate::shmem::xact::{self, Change};
use crate::storage::rows::{LOCK, ROWS_PER_TX};
use board::ReleaseCursor;

/// Ends the leases of a worker; returns how many. Waits for transactions that have locked the
/// tasks' rows.
pub fn release(db: &Database, worker: &[u8]) -> usize {
    let mut leases = take(db, worker);
    // Rows are locked in the order of their ids.
    leases.sort_unstable_by_key(|(_, lease)| lease.id);
    for some in leases.chunks_mut(ROWS_PER_TX) {
        expire::expire(db, some, &LOCK);
    }
    leases.len()
}

/// Takes the leases of a worker off the board. They are this transaction's until it ends.
fn take(db: &Database, worker: &[u8]) -> Due {
    let me = process::id();
    let (mut leases, mut next) = (Due::new(), Some(ReleaseCursor::default()));
    while let Some(cursor) = next {
        pgrx::check_for_interrupts!();
        let before = leases.len();
        leases.reserve(AT_ONCE);
        xact::reserve(AT_ONCE);
        next = db.on_board(|board, entry| {
            board.take_leases(entry, worker, me, cursor, AT_ONCE, |ticket, lease| {
                leases.push((ticket, lease));
            })
        });
        xact::at_commit(db, leases[before..].iter().map(|(ticket, _)| Change::Revoke(*ticket)));
    }
    leases
}
