//! Ending leases whose deadline has passed, by the scheduler or by callers where none runs.

use crate::ops::dependencies::count_down::settle_dependents;
use crate::ops::maintenance::QUARANTINE;
use crate::pg::spi::Statement;
use crate::pg::time;
use crate::pg::uuid::Uuid;
use crate::shmem::database::Database;
use crate::shmem::segment::{repeat, with_board};
use crate::shmem::xact::{self, Change};
use crate::storage::ending::Ending;
use crate::storage::rows::{LIVE, LOCK_UNLOCKED, ROWS_PER_TX, ids_of, session};
use crate::storage::settle::release;
use board::EXPIRED;
use board::{Expired, Lease, Ticket};

/// What came of a batch of expired leases.
pub enum Batch {
    /// None has expired.
    Empty,
    /// There may be more.
    Ended,
    /// They failed together: they are tried one by one next.
    Failed,
    /// It failed alone, and is not tried again for a while.
    Quarantined(Uuid),
}

/// Ends a batch of expired leases, by work that `run` does in a transaction of its own; false: that
/// was rolled back. One by one finds the lease that is in the way of the others.
pub fn expire_batch(
    db: &Database,
    entry: u32,
    run: impl FnOnce(&mut dyn FnMut()) -> bool,
) -> Batch {
    let now = time::monotonic();
    let most = with_board(|board| {
        let is_due = board.next_expiry(entry) <= now;
        let one_by_one = &mut board.entry_mut(entry).one_by_one;
        let most = if *one_by_one > 0 { 1 } else { ROWS_PER_TX };
        *one_by_one -= u32::from(is_due && most == 1);
        is_due.then_some(most)
    });
    let Some(most) = most else { return Batch::Empty };
    let mut due = Vec::new();
    let is_done = run(&mut || {
        due = take_due(db, entry, most);
        expire(db, &mut due, &LOCK_UNLOCKED);
    });
    match due.as_slice() {
        _ if is_done => Batch::Ended,
        [] => Batch::Empty,
        [(_, lease)] => {
            with_board(|board| board.defer_expiry(entry, lease.id, now + QUARANTINE));
            Batch::Quarantined(Uuid(lease.id))
        }
        all => {
            with_board(|board| board.entry_mut(entry).one_by_one = all.len() as u32);
            Batch::Failed
        }
    }
}

/// Leases that this process ends.
pub type Due = Vec<(Ticket, Lease)>;

/// Takes leases whose deadline has passed off the board, at most so many. They are this process's
/// until the transaction ends. Reservations that have run out are free at once: nothing is written
/// of an ownership whose transaction may still roll back.
fn take_due(db: &Database, entry: u32, most: usize) -> Due {
    let mut due = Due::new();
    while due.len() < most {
        let before = due.len();
        due.reserve(most - before);
        xact::reserve(most - before);
        let now = time::monotonic();
        let some = repeat(most - before, |board| board.take_expired(entry, now));
        if some.is_empty() {
            break;
        }
        due.extend(some.into_iter().filter_map(|it| match it {
            Expired::Lease(ticket, lease) => Some((ticket, lease)),
            Expired::Reservation => None,
        }));
        xact::at_commit(db, due[before..].iter().map(|(ticket, _)| Change::Expire(*ticket)));
    }
    due
}

/// Writes the end of leases into their tasks' rows, which `lock` locks: `LOCK_UNLOCKED` never waits
/// for one, and a lease whose row is locked is tried again soon. Tasks that are not live any more
/// leave the board.
pub fn expire(db: &Database, due: &mut [(Ticket, Lease)], lock: &Statement) {
    if due.is_empty() {
        return;
    }
    due.sort_by_key(|(_, lease)| lease.id);
    let session = session(db);
    let all = || due.iter().map(|(_, lease)| Uuid(lease.id));
    let free = ids_of(&session, lock, all());
    let live = if free.len() == due.len() {
        free.clone()
    } else {
        let mut live = ids_of(&session, &LIVE, all());
        live.sort_unstable();
        live
    };
    let is_in = |ids: &[Uuid], lease: &Lease| ids.binary_search(&Uuid(lease.id)).is_ok();
    let endings: Vec<Ending> = (due.iter())
        .filter(|(_, lease)| is_in(&free, lease))
        .map(|(_, lease)| Ending { lease: Some(*lease), ..Ending::of(Uuid(lease.id)) })
        .collect();
    if !endings.is_empty() {
        let mut ended = release(db, &session, EXPIRED, &endings);
        settle_dependents(db, &session, &ended);
        ended.retain(|ended| ended.is_settled());
        xact::at_commit(db, ended.iter().map(|ended| Change::Gone(ended.id.0)));
    }
    let later = time::monotonic() + xact::ROW_RETRY_DELAY;
    for (ticket, lease) in due.iter() {
        if !is_in(&live, lease) {
            xact::at_commit(db, [Change::Gone(lease.id)]);
        } else if !is_in(&free, lease) {
            with_board(|board| board.undo_end(*ticket, later));
        }
    }
}
