//! The workers that the board knows.

use crate::extension::database::Database;
use crate::shmem::segment::with_board;
use crate::xact::AT_ONCE;
use board::{Wall, Worker};
use std::collections::{HashMap, HashSet};

/// The workers of all queues, those with leases and those that called not long before `now`, each
/// with the deadline of its first lease; in no order. One that called about no queue is shown with
/// an empty queue, unless it is shown with another.
pub fn all(db: &Database, now: Wall) -> Vec<(Worker, Option<Wall>)> {
    let mut workers = known(db, now);
    let in_no_queue = |it: &Worker| it.queue.as_bytes().is_empty();
    let called: HashMap<Vec<u8>, Wall> = (workers.iter())
        .filter(|(it, _)| in_no_queue(it))
        .map(|(it, _)| (it.name.as_bytes().to_vec(), it.last_seen))
        .collect();
    let mut served = HashSet::new();
    for (it, _) in workers.iter_mut().filter(|(it, _)| !in_no_queue(it)) {
        if let Some(at) = called.get(it.name.as_bytes()) {
            it.last_seen = it.last_seen.max(*at);
            served.insert(it.name.as_bytes().to_vec());
        }
    }
    workers.retain(|(it, _)| !(in_no_queue(it) && served.contains(it.name.as_bytes())));
    workers
}

fn known(db: &Database, now: Wall) -> Vec<(Worker, Option<Wall>)> {
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
