//! The workers that the board knows.

use crate::shmem::database::Database;
use crate::shmem::segment::with_board;
use crate::shmem::xact::AT_ONCE;
use board::{Wall, Worker};

/// The workers of all queues, those with leases and those that called not long before `now`, each
/// with the deadline of its first lease; in no order.
pub fn all(db: &Database, now: Wall) -> Vec<(Worker, Option<Wall>)> {
    let (mut workers, mut from) = (Vec::new(), 0);
    let Some(entry) = with_board(|board| db.find(board)) else { return workers };
    loop {
        workers.reserve(AT_ONCE);
        let end = with_board(|board| {
            let some = (from..from + AT_ONCE as u32).filter_map(|at| board.worker_at(at, entry));
            let shown = some.filter(|(it, _)| !it.is_forgotten(now));
            workers.extend(shown.map(|(it, deadline)| (*it, deadline)));
            board.workers_end()
        });
        from += AT_ONCE as u32;
        if from >= end {
            return workers;
        }
        pgrx::check_for_interrupts!();
    }
}
