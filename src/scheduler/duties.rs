//! The scheduler's duties, each in transactions of its own.

use crate::error;
use crate::guc;
use crate::ops::dependencies::count_down;
use crate::ops::lease::worker;
use crate::ops::maintenance::expire::{self, Batch};
use crate::ops::maintenance::{QUARANTINE, identity, load_board, notify, persist_leases};
use crate::ops::supply::survey as lanes;
use crate::pg::time;
use crate::scheduler::process::{Commit, attempt, publish_durable, transaction};
use crate::shmem::database::{self, Database};
use crate::shmem::segment::{AT_ONCE, repeat, with_board};
use crate::shmem::xact;
use crate::storage::rows::ROWS_PER_TX;
use board::{Micros, Monotonic, NotifyRound, Wall};
use pgrx::pg_sys;
use pgrx::prelude::*;
use std::cell::Cell;

/// Runs a duty in a transaction of its own, unless the extension is dropped meanwhile. Locks the
/// same table first as DROP EXTENSION does, so that the two do not deadlock.
pub fn in_extension_transaction<T>(
    db: &Database,
    what: &str,
    commit: Commit,
    duty: impl FnOnce() -> T,
) -> Option<T> {
    transaction(what, commit, || {
        // SAFETY: a lock that the transaction's end releases; the table need not exist.
        unsafe { pg_sys::LockRelationOid(db.task, pg_sys::AccessShareLock as i32) };
        (database::find_again() == Some(*db)).then(duty)
    })
    .flatten()
}

/// Builds the board of a database from its tables.
pub fn build(db: &Database, entry: u32) -> bool {
    let what = "build the board";
    in_extension_transaction(db, what, Commit::Ahead, || load_board::build(db, entry)) == Some(true)
}

/// Reads whether the database is open (I12). False when another transaction is changing that.
pub fn check_identity(db: &Database, entry: u32) -> bool {
    let what = "check whether the database was copied";
    let looked =
        in_extension_transaction(db, what, Commit::Ahead, || identity::check_identity(db, entry));
    looked.flatten().is_some()
}

/// Surveys the tables for lanes that the board does not know.
pub fn survey(db: &Database, entry: u32) {
    in_extension_transaction(db, "survey the tables", Commit::Ahead, || lanes::survey(db, entry));
}

/// How many lanes the scheduler reads, at most, to bring back those of a queue that is searched:
/// other duties wait for that.
const MOST_RESUMED: u32 = 8_192;

/// How long to wait at most before it is tried again.
const MOST_PAUSE: Micros = Micros::from_secs(60);

/// Frees the lanes of queues that are searched, wakes processes for these, and brings the lanes
/// back where there is room for all. While there is not, the pause before the next try gets longer.
pub fn cover(db: &Database, entry: u32, pause: &mut Micros, next: &mut Monotonic) {
    let is_searched = with_board(|board| {
        board.wake_searched(entry);
        board.searched(entry) > 0
    });
    if !is_searched {
        *pause = guc::sweep_interval();
        return;
    }
    // Before they are brought back, the slots of workers that are late go, too.
    let is_time = time::monotonic() >= *next;
    let mut from = Some(0);
    while let Some(at) = from {
        from = with_board(|board| board.shed_lanes(entry, at, AT_ONCE as u32, is_time));
    }
    if !is_time {
        return;
    }
    let what = "bring back the lanes of queues";
    let (mut from, mut all) = (0, true);
    while let Some((at, queue)) = with_board(|board| board.next_searched(entry, from)) {
        from = at + 1;
        let most = with_board(|board| board.free_lanes() / 2).min(MOST_RESUMED);
        let resume = || lanes::resume(db, entry, queue.as_bytes(), most);
        all &= in_extension_transaction(db, what, Commit::Ahead, resume) == Some(true);
    }
    *pause = if all { guc::sweep_interval() } else { (*pause * 2).min(MOST_PAUSE) };
    *next = time::monotonic() + *pause;
}

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

/// Runs the countdowns that were deferred because a dependent's row was locked. While rows stay
/// locked the pause gets longer; the end of a transaction that held such rows shortens it
/// (`Change::RowsReleased`).
pub fn run_deferred(db: &Database, entry: u32, pause: &mut Micros) {
    if !with_board(|board| std::mem::take(&mut board.entry_mut(entry).countdown_deferred)) {
        return;
    }
    let what = "count down dependencies";
    let (mut all, mut any) = (false, false);
    while !all && publish_durable() {
        let taken = in_extension_transaction(db, what, Commit::Durable, || {
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
    in_extension_transaction(db, "keep workers", Commit::Ahead, || worker::keep(db, entry, since));
}

/// Wakes processes that wait for queues which have a permit again.
pub fn release_permits(entry: u32) {
    let now = time::monotonic();
    while !repeat(usize::MAX, |board| board.release_permit(entry, now).then_some(())).is_empty() {}
}

/// How often, at most, a failure to announce is logged.
const WARNING_INTERVAL: Micros = Micros::from_secs(60);

thread_local! {
    static NEXT_WARNING: Cell<Monotonic> = const { Cell::new(Monotonic::MIN) };
}

/// Wakes waiting processes, and announces which queues got tasks and which tasks settled, if it is
/// time. An error costs the announcements and nothing else (I11).
pub fn announce(entry: u32) {
    const WHAT: &str = "send notifications";
    notify::go_on_waking(entry);
    let now = time::monotonic();
    let interval = guc::notify_interval();
    let round = with_board(|board| board.begin_round(entry, now, interval));
    let Some(NotifyRound { lanes, queues, unsent }) = round else { return };
    notify::wake_in_round(entry, lanes);
    if unsent
        && let Err(message) = attempt(WHAT, Commit::Ahead, || notify::announce(entry, queues))
        && NEXT_WARNING.get() <= now
    {
        NEXT_WARNING.set(now + WARNING_INTERVAL);
        error::log_failure(WHAT, &message);
        // What fails here is tried again with the next warning.
        let _ = attempt("make room for notifications", Commit::Ahead, notify::make_room);
    }
}
