//! Leases that expire, leases that must survive a crash, and the workers that have them.

use crate::error;
use crate::extension::database::Database;
use crate::ops::maintenance::expire::{self, Batch};
use crate::ops::maintenance::{QUARANTINE, persist_leases, workers};
use crate::scheduler::process::{Commit, in_extension_transaction, publish_durable};
use crate::shmem::segment::with_board;
use board::Wall;
use pgrx::prelude::*;

/// Ends leases whose deadline has passed. True when there may be more.
pub fn expire(db: &Database, entry: u32) -> bool {
    // One commit at a time is under way to being durable: others see it in the tables before.
    if !publish_durable() {
        return false;
    }
    let batch = expire::expire_batch(db, entry, |work| {
        in_extension_transaction(db, "expire leases", Commit::Durable, work).is_some()
    });
    if let Batch::Quarantined(id) = batch {
        error::quarantined("expire the lease of", id, QUARANTINE).report(PgLogLevel::WARNING);
    }
    !matches!(batch, Batch::Empty)
}

/// Writes leases that are old enough to the table, and deletes the rows of those that have ended.
pub fn persist(db: &Database, entry: u32) {
    for leases in persist_leases::find_unpersisted(entry) {
        match in_extension_transaction(db, "persist leases", Commit::Durable, || {
            persist_leases::persist(db, &leases)
        }) {
            Some(written) => persist_leases::note_persisted(entry, &written),
            None => break,
        }
    }
    let over = with_board(|board| std::mem::take(&mut board.entry_mut(entry).ended_persisted));
    let clear = || {
        in_extension_transaction(db, "delete ended leases", Commit::Ahead, || {
            persist_leases::clear_leases(db)
        })
    };
    if over > 0 && clear().is_none() {
        with_board(|board| board.entry_mut(entry).ended_persisted += over);
    }
}

/// Forgets workers that are gone, and tells the board which ones drain.
pub fn keep_workers(db: &Database, entry: u32, since: Wall) {
    in_extension_transaction(db, "keep workers", Commit::Ahead, || workers::keep(db, entry, since));
}
