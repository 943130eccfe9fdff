//! Builds the board of a database from its tables: by its scheduler, or by a caller where none runs
//! (I1).

use crate::error;
use crate::extension::database::Database;
use crate::ops::maintenance::{persist_leases, workers};
use crate::ops::supply::{identity, survey};
use crate::shmem::segment::{self, with_board};
use board::{BuildState, Wall};
use pgrx::PgLogLevel;

/// Builds the board: restores the persisted leases and who drains, then surveys the
/// lanes. A lane's tasks stay in
/// the table until a caller asks for them. Callers wait until the board is built. False when
/// another transaction opens or closes the database at this moment.
pub fn build(db: &Database, entry: u32) -> bool {
    db.clear();
    if identity::check_identity(db, entry).is_none() {
        return false;
    }
    let (restored, lost) = persist_leases::restore(db, entry);
    if lost > 0 {
        error::leases_lost(lost).report(PgLogLevel::WARNING);
    }
    workers::load(db, entry);
    survey::survey(db, entry);
    with_board(|board| {
        let entry = board.entry_mut(entry);
        entry.build_state = BuildState::Built;
        entry.leases_restored = restored as u32;
        // Countdowns deferred before a restart, and due tasks, are known to the tables only.
        entry.countdown_deferred = true;
        entry.next_due = Wall::MIN;
        entry.next_run = Wall::MIN;
        entry.runs_settled = true;
    });
    segment::broadcast();
    true
}
