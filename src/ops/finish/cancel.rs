//! Cancelling: locks the row, then moves it; the commit removes the slot (I3).

use crate::error::{self, Result};
use crate::extension::database::Database;
use crate::ops::dependencies::count_down::settle_dependents;
use crate::ops::locking::lock::Locked;
use crate::pg::datum::{self, TEXT};
use crate::pg::spi::{Session, statement};
use crate::pg::uuid::Uuid;
use crate::storage::ending::{Ended, Ending};
use crate::storage::rows::{ROWS_PER_TX, ids_in, session, settled};
use crate::storage::settle::settle;
use crate::xact;
use board::{CANCELLED, Lease};
use std::collections::HashSet;

statement!(GROUP, "finish/group", [TEXT, TEXT]);

/// Cancels tasks. For each: whether it was live; `None` when there is no such task. `authorize`:
/// whether a task of a queue may be cancelled.
pub fn cancel(
    db: &Database,
    wanted: &[Uuid],
    authorize: impl Fn(Uuid, &[u8]) -> Result<()>,
) -> Result<Vec<Option<bool>>> {
    let session = session(db);
    let locked = Locked::lock(db, &session, wanted);
    locked.authorize(authorize)?;
    let cancelled = cancel_locked(db, &session, &locked, |_, _| true);
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
    Ok(wanted.iter().map(answer).collect())
}

/// Cancels those of some locked tasks that `takes` takes, by their positions and, of a task that is
/// on the board, what that knows. Returns them.
pub fn cancel_locked(
    db: &Database,
    session: &Session,
    locked: &Locked,
    takes: impl Fn(usize, Option<&Lease>) -> bool,
) -> HashSet<Uuid> {
    let mut positions: Vec<usize> = Vec::with_capacity(locked.ids.len());
    let mut endings: Vec<Ending> = Vec::with_capacity(locked.ids.len());
    let ids = locked.ids.iter().map(|id| id.0);
    let known = db.slots_of(ids, |board, slot| Some((board.lease(slot), slot.has_lease())));
    for (at, known) in known.into_iter().enumerate() {
        if takes(at, known.as_ref().map(|it| &it.0)) {
            // The lease at the time of the lock goes into the history.
            let lease = known.filter(|it| it.1).map(|it| it.0);
            positions.push(at);
            endings.push(Ending { lease, ..Ending::of(locked.ids[at]) });
        }
    }
    xact::at_commit(db, positions.iter().map(|at| locked.removal(*at)));
    let ids: Vec<Uuid> = endings.iter().map(|it| it.id).collect();
    locked.delete_edges(session, &ids);
    end(db, session, &endings).into_iter().map(|ended| ended.id).collect()
}

/// Cancels the live tasks of a group. Returns how many.
pub fn cancel_group(db: &Database, queue: &[u8], group_key: &[u8]) -> i64 {
    let names = [queue, group_key].map(|it| Some(datum::varlena(it)));
    let mut wanted: Vec<Uuid> = ids_in(&session(db).run(&GROUP, &names)).collect();
    // In the order in which every call locks rows.
    wanted.sort_unstable();
    let mut count = 0;
    for some in wanted.chunks(ROWS_PER_TX) {
        let session = session(db);
        let locked = Locked::lock(db, &session, some);
        let is_of_queue = |at: usize, _: Option<&Lease>| *locked.queue(at) == *queue;
        count += cancel_locked(db, &session, &locked, is_of_queue).len() as i64;
        pgrx::check_for_interrupts!();
    }
    count
}

/// Cancels the live tasks that have no owner. Returns those that have one, or are about to, and
/// what was cancelled.
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
    let ended = settle(db, session, |_| CANCELLED, endings);
    settle_dependents(db, session, &ended);
    ended
}
