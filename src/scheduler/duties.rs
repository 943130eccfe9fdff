//! What the clock does, each duty in transactions of its own.

use crate::error;
use crate::guc;
use crate::ops::dependencies::count_down;
use crate::ops::maintenance::{expire, identity, load_board, notify, persist_leases, refill};
use crate::pg::time;
use crate::pg::uuid::Uuid;
use crate::scheduler::process::{attempt, log, transaction};
use crate::shmem::database::{self, Database};
use crate::shmem::segment::with_board;
use crate::shmem::xact;
use crate::storage::rows::ROWS_PER_TX;
use board::{Micros, Monotonic, NotifyRound};
use pgrx::pg_sys;
use pgrx::prelude::*;
use std::cell::Cell;

/// How long a lease is set aside whose row cannot be written.
const QUARANTINE: Micros = Micros::from_secs(60);

/// Does a duty in a transaction of its own, unless the extension is dropped meanwhile: locks the
/// table first that DROP EXTENSION locks first, so that neither waits for the other in a cycle.
pub fn in_extension_transaction<T>(
    db: &Database,
    what: &str,
    duty: impl FnOnce() -> T,
) -> Option<T> {
    transaction(what, || {
        // SAFETY: a lock that the transaction's end releases; the table need not exist.
        unsafe { pg_sys::LockRelationOid(db.task, pg_sys::AccessShareLock as i32) };
        (database::find_again() == Some(*db)).then(duty)
    })
    .flatten()
}

/// Builds the board of a database from its tables.
pub fn build(db: &Database, entry: u32) -> bool {
    in_extension_transaction(db, "build the board", || load_board::build(db, entry)) == Some(true)
}

/// Looks whether the database is open (I12). False when that cannot be told now.
pub fn check_identity(db: &Database, entry: u32) -> bool {
    let looked = in_extension_transaction(db, "check whether the database was copied", || {
        identity::check_identity(db, entry)
    });
    looked.flatten().is_some()
}

/// Looks at the tables anew.
pub fn survey(db: &Database, entry: u32) -> Option<()> {
    in_extension_transaction(db, "survey the tables", || {
        refill::survey(db, entry);
    })
}

/// ListHead leases whose deadline has passed. True when there may be more. One at a time finds the one
/// that is in the way: `one_by_one` are to be tried so, after they failed together.
pub fn expire(db: &Database, entry: u32, one_by_one: &mut usize) -> bool {
    if with_board(|board| board.next_expiry(entry)) > time::monotonic() {
        return false;
    }
    let most = if *one_by_one > 0 { 1 } else { ROWS_PER_TX };
    *one_by_one = one_by_one.saturating_sub(1);
    let mut due = Vec::new();
    let done = in_extension_transaction(db, "expire leases", || {
        due = expire::take_due(db, entry, most);
        expire::expire(db, &mut due);
    });
    if done.is_some() {
        return true;
    }
    if let [(_, slot)] = due.as_slice() {
        let until = time::monotonic() + QUARANTINE;
        with_board(|board| board.defer_expiry(entry, slot.id, until));
        error::quarantined("expire the lease of", Uuid(slot.id), QUARANTINE)
            .report(PgLogLevel::WARNING);
    }
    if due.len() > 1 {
        *one_by_one = due.len();
    }
    !due.is_empty()
}

/// SettledCounts down what returning workers put off, since somebody held the waiting task. As long as
/// somebody does, it waits longer each time: who ends says so (`Change::RowsReleased`).
pub fn run_deferred(db: &Database, entry: u32, pause: &mut Micros) {
    if !with_board(|board| std::mem::take(&mut board.entry_mut(entry).countdown_deferred)) {
        return;
    }
    let (mut all, mut any) = (false, false);
    while !all {
        let taken = in_extension_transaction(db, "count down dependencies", || {
            count_down::run_deferred(db, ROWS_PER_TX)
        });
        let Some((taken, free)) = taken else { break };
        any |= free;
        all = taken < ROWS_PER_TX || !free;
    }
    *pause = if any { xact::COUNTDOWN_DELAY } else { (*pause * 2).min(xact::ROW_RETRY_DELAY) };
    with_board(|board| {
        let it = board.entry_mut(entry);
        it.countdown_deferred |= !all;
        it.countdown_at = time::monotonic() + *pause;
    });
}

/// Writes leases behind that are old enough, and clears away those that are over.
pub fn persist(db: &Database, entry: u32) {
    let mut from = 0;
    loop {
        let leases = persist_leases::find_unpersisted(entry, &mut from);
        if leases.is_empty() {
            break;
        }
        match in_extension_transaction(db, "persist leases", || {
            persist_leases::persist(db, &leases)
        }) {
            Some(written) => persist_leases::note_persisted(entry, &written),
            None => break,
        }
    }
    let over = with_board(|board| std::mem::take(&mut board.entry_mut(entry).ended_persisted));
    if over > 0
        && in_extension_transaction(db, "delete ended leases", || persist_leases::clear_leases(db))
            .is_none()
    {
        with_board(|board| board.entry_mut(entry).ended_persisted += over);
    }
}

/// How often, at most, a failure to announce is logged.
const WARNING_INTERVAL: Micros = Micros::from_secs(60);

thread_local! {
    static NEXT_WARNING: Cell<Monotonic> = const { Cell::new(Monotonic::MIN) };
}

/// Wakes waiting processes, and announces which queues got tasks and which tasks settled, if it is time.
/// An error costs the announcements and nothing else (I11).
pub fn announce(entry: u32) {
    const WHAT: &str = "send notifications";
    notify::go_on_waking(entry);
    let now = time::monotonic();
    let interval = guc::notify_interval();
    let round = with_board(|board| board.begin_round(entry, now, interval));
    let Some(NotifyRound { lanes, queues, unsent }) = round else { return };
    notify::wake_in_round(entry, lanes);
    if unsent
        && let Err(message) = attempt(WHAT, || notify::announce(entry, queues))
        && NEXT_WARNING.get() <= now
    {
        NEXT_WARNING.set(now + WARNING_INTERVAL);
        log(WHAT, &message);
    }
}
