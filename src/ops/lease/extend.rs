//! Heartbeats: move a lease's deadline on the board. No row is written; a rollback does not undo
//! it.

use crate::guc;
use crate::pg::time;
use crate::pg::uuid::{Uuid, token_hash};
use crate::shmem::database::Database;
use crate::shmem::segment;
use crate::shmem::xact::AT_ONCE;
use board::{Extended, Micros, TokenHash};

/// Moves the deadlines of leases to now + `length` (`None`: the length each was taken with). True
/// for each lease whose token is valid.
pub fn extend(
    db: &Database,
    leases: &[(Uuid, Uuid)],
    length: Option<Micros>,
    progress: Option<f64>,
) -> Vec<bool> {
    let length = length.map(|length| length.min(guc::max_lease_timeout()));
    let hashed: Vec<(Uuid, TokenHash)> =
        leases.iter().map(|(id, token)| (*id, token_hash(*token))).collect();
    let mut held = vec![Extended::Busy; hashed.len()];
    loop {
        let now = time::now();
        for (some, held) in hashed.chunks(AT_ONCE).zip(held.chunks_mut(AT_ONCE)) {
            let woken = db.on_board(|board, entry| {
                for ((id, token_hash), held) in some.iter().zip(held.iter_mut()) {
                    if *held == Extended::Busy {
                        *held = board.extend(entry, id.0, token_hash, now, length, progress);
                    }
                }
                board.wants_scheduler(entry).then_some(entry)
            });
            woken.into_iter().for_each(segment::wake_scheduler);
        }
        if !held.contains(&Extended::Busy) {
            return held.into_iter().map(|held| held == Extended::Yes).collect();
        }
        segment::wait();
    }
}
