//! Cancelling: locks the row, then moves it; the commit removes the slot (I3).

use crate::error;
use crate::ops::dependencies::count_down::settle_dependents;
use crate::ops::locking::lock::Locked;
use crate::pg::datum::{self, TEXT};
use crate::pg::spi::{Session, statement};
use crate::pg::uuid::Uuid;
use crate::shmem::database::Database;
use crate::shmem::segment::with_board;
use crate::shmem::xact::{self, AT_ONCE};
use crate::storage::ending::{Ended, Ending};
use crate::storage::rows::{ROWS_PER_TX, ids_in, session, settled};
use crate::storage::settle::settle;
use board::CANCELLED;
use std::collections::HashSet;

statement!(GROUP, "finish/group", [TEXT, TEXT]);

/// Cancels tasks. For each: whether it was live; `None` when there is no such task.
pub fn cancel(db: &Database, wanted: &[Uuid]) -> Vec<Option<bool>> {
    let session = session(db);
    let locked = Locked::lock(db, &session, wanted);
    xact::at_commit(db, (0..locked.ids.len()).map(|at| locked.removal(at)));
    let mut endings: Vec<Ending> = Vec::with_capacity(locked.ids.len());
    for some in locked.ids.chunks(AT_ONCE) {
        // The lease at the time of the lock goes into the history.
        with_board(|board| {
            let entry = db.find(board);
            let lease = |id: &Uuid| board.lease_of(entry?, id.0).map(|(_, lease)| lease);
            endings.extend(some.iter().map(|id| Ending { lease: lease(id), ..Ending::of(*id) }));
        });
    }
    locked.delete_edges(&session, &locked.ids);
    let ended = end(db, &session, &endings);
    let cancelled: HashSet<Uuid> = ended.into_iter().map(|ended| ended.id).collect();
    let others = wanted.iter().copied().filter(|id| !cancelled.contains(id));
    let settled: HashSet<Uuid> = match others.clone().next() {
        None => HashSet::new(),
        Some(_) => settled(&session, others).into_iter().map(|(id, _)| id).collect(),
    };
    let mut seen = HashSet::new();
    let answer = |id: &Uuid| match cancelled.contains(id) {
        true => Some(seen.insert(*id)),
        false => settled.contains(id).then_some(false),
    };
    wanted.iter().map(answer).collect()
}

/// Cancels the live tasks of a group. Returns how many.
pub fn cancel_group(db: &Database, queue: &[u8], group_key: &[u8]) -> i64 {
    let names = [queue, group_key].map(|it| Some(datum::varlena(it)));
    let mut wanted: Vec<Uuid> = ids_in(&session(db).run(&GROUP, &names)).collect();
    // In the order in which every call locks rows.
    wanted.sort_unstable();
    let mut count = 0;
    for some in wanted.chunks(ROWS_PER_TX) {
        count += cancel(db, some).into_iter().filter(|it| *it == Some(true)).count() as i64;
        pgrx::check_for_interrupts!();
    }
    count
}

/// Cancels the live tasks that have no owner. Returns those that have one, or are about to, and what was
/// cancelled.
pub fn cancel_free(
    db: &Database,
    session: &Session,
    wanted: &[Uuid],
) -> (HashSet<Uuid>, Vec<Ended>) {
    let locked = Locked::lock(db, session, wanted);
    let (mut free, mut owned) = (Vec::new(), HashSet::new());
    for (at, id) in locked.ids.iter().enumerate() {
        if error::unwrap_or_raise(locked.withdraw(db, at)) {
            free.push(*id);
        } else {
            owned.insert(*id);
        }
    }
    locked.delete_edges(session, &free);
    let endings: Vec<Ending> = free.into_iter().map(Ending::of).collect();
    let ended = end(db, session, &endings);
    (owned, ended)
}

fn end(db: &Database, session: &Session, endings: &[Ending]) -> Vec<Ended> {
    if endings.is_empty() {
        return Vec::new();
    }
    let ended = settle(db, session, CANCELLED, endings);
    settle_dependents(db, session, &ended);
    ended
}
