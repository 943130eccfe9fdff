//! Ending all leases of a worker, as if they had expired.

use crate::ops::maintenance::expire::{self, Due};
use crate::pg::process;
use crate::shmem::database::Database;
use crate::shmem::xact::{self, AT_ONCE, Change};
use crate::storage::rows::{LOCK, ROWS_PER_TX};

/// Ends the leases of a worker; returns how many. Waits for transactions that have locked the
/// tasks' rows.
pub fn release(db: &Database, worker: &[u8]) -> usize {
    let mut leases = take(db, worker);
    // Rows are locked in the order of their ids.
    leases.sort_unstable_by_key(|(_, slot)| slot.id);
    for some in leases.chunks_mut(ROWS_PER_TX) {
        expire::expire(db, some, &LOCK);
    }
    leases.len()
}

/// Takes the leases of a worker off the board. They are this transaction's until it ends.
fn take(db: &Database, worker: &[u8]) -> Due {
    let me = process::id();
    let (mut leases, mut from) = (Due::new(), Some(0));
    while let Some(at) = from {
        pgrx::check_for_interrupts!();
        let before = leases.len();
        leases.reserve(AT_ONCE);
        xact::reserve(AT_ONCE);
        from = db.on_board(|board, entry| {
            let to = board.slots_end().min(at + AT_ONCE as u32);
            leases.extend((at..to).filter_map(|at| board.take_lease(entry, at, worker, me)));
            (to < board.slots_end()).then_some(to)
        });
        xact::at_commit(db, leases[before..].iter().map(|(ticket, _)| Change::Expire(*ticket)));
    }
    leases
}
