//! Building the board of a database from its tables, by its clock, or by a caller where none runs (I1).

use crate::error;
use crate::ops::maintenance::{identity, persist_leases, refill};
use crate::shmem::database::Database;
use crate::shmem::segment::{self, with_board};
use board::{BuildState, Wall};
use pgrx::PgLogLevel;

/// How many places of the board are cleared under one hold of its lock.
const CLEARED_AT_ONCE: u32 = 256;

/// Builds the board: the leases that were written, then the lanes, each known to the table only until
/// somebody asks. Callers wait until it is open. False when somebody opens or closes the database now.
pub fn build(db: &Database, entry: u32) -> bool {
    clear(entry);
    if identity::check_identity(db, entry).is_none() {
        return false;
    }
    let lost = persist_leases::restore(db, entry);
    if lost > 0 {
        error::leases_lost(lost).report(PgLogLevel::WARNING);
    }
    refill::survey(db, entry);
    with_board(|board| {
        let entry = board.entry_mut(entry);
        entry.build_state = BuildState::Built;
        entry.refresh = false;
        // What was put off before a restart, and what is due, is known to the tables only.
        entry.countdown_deferred = true;
        entry.next_due = Wall::MIN;
    });
    segment::broadcast();
    true
}

/// Takes everything of a entry off the board, and closes it.
pub fn clear(entry: u32) {
    with_board(|board| board.entry_mut(entry).build_state = BuildState::Unbuilt);
    let mut from = Some(0);
    while let Some(at) = from {
        from = with_board(|board| board.clear_entry(entry, at, CLEARED_AT_ONCE));
    }
}
