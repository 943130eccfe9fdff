//! The workers that the board knows.

use crate::shmem::database::Database;
use crate::shmem::segment::{scan, with_board};
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
    let Some(entry) = with_board(|board| db.find(board)) else { return Vec::new() };
    let workers = scan(
        |board| board.workers_end(),
        |board, at| {
            let (it, deadline) = board.worker_at(at, entry)?;
            (!it.is_forgotten(now)).then_some((*it, deadline))
        },
    );
    workers.flatten().collect()
}
