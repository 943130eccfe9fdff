//! What the clock does, each duty in transactions of its own.

use crate::guc;
use crate::ops::dependencies::count_down;
use crate::ops::maintenance::{expire, identity, load_board, notify, persist_leases, refill};
use crate::pg::time;
use crate::scheduler::{attempt, log, transaction};
use crate::shmem::database::{self, Home};
use crate::shmem::segment::with_board;
use crate::shmem::xact;
use board::NotifyRound;
use pgrx::pg_sys;
use pgrx::prelude::*;
use std::cell::Cell;

/// How long a lease is set aside whose row cannot be written, in microseconds.
const ASIDE: i64 = 60_000_000;
/// How many counts one transaction takes up (I10).
const TAKEN_UP_AT_ONCE: usize = 1_000;

/// Does a duty in a transaction of its own, unless the extension is dropped meanwhile: locks the
/// table first that DROP EXTENSION locks first, so that neither waits for the other in a circle.
pub fn at_home<T>(home: &Home, what: &str, duty: impl FnOnce() -> T) -> Option<T> {
    transaction(what, || {
        // SAFETY: a lock that the transaction's end releases; the table need not exist.
        unsafe { pg_sys::LockRelationOid(home.task, pg_sys::AccessShareLock as i32) };
        (database::find_anew() == Some(*home)).then(duty)
    })
    .flatten()
}

/// Builds the board of a database from its tables.
pub fn build(home: &Home, entry: u32) -> bool {
    at_home(home, "build its board", || load_board::build(home, entry)) == Some(true)
}

/// Looks whether the database is open (I12). False when that cannot be told now.
pub fn look(home: &Home, entry: u32) -> bool {
    let looked = at_home(home, "look whether it is open", || identity::look(home, entry));
    looked.flatten().is_some()
}

/// Looks at the tables anew.
pub fn survey(home: &Home, entry: u32) -> Option<()> {
    at_home(home, "survey its tables", || {
        refill::survey(home, entry);
    })
}

/// ListHead leases whose deadline has passed. True when there may be more. One at a time finds the one
/// that is in the way: `singly` are to be tried so, after they failed together.
pub fn reclaim(home: &Home, entry: u32, singly: &mut usize) -> bool {
    if with_board(|board| board.next_expiry(entry)) > time::monotonic() {
        return false;
    }
    let most = if *singly > 0 { 1 } else { expire::BATCH };
    *singly = singly.saturating_sub(1);
    let mut due = Vec::new();
    let done = at_home(home, "reclaim expired leases", || {
        due = expire::take_due(home, entry, most);
        expire::reclaim(home, &mut due);
    });
    if done.is_some() {
        return true;
    }
    if let [(_, slot)] = due.as_slice() {
        let until = time::monotonic() + ASIDE;
        with_board(|board| board.defer_expiry(entry, slot.id, until));
        ereport!(
            PgLogLevel::WARNING,
            PgSqlErrorCode::ERRCODE_WARNING,
            format!("the expired lease of task {} is set aside", crate::pg::uuid::Uuid(slot.id))
        );
    }
    if due.len() > 1 {
        *singly = due.len();
    }
    !due.is_empty()
}

/// Counts down what returning workers put off, since somebody held the waiting task. As long as
/// somebody does, it waits longer each time: who ends says so (`Change::LetGo`).
pub fn take_up(home: &Home, entry: u32, pause: &mut i64) {
    if !with_board(|board| std::mem::take(&mut board.entry_mut(entry).countdown_deferred)) {
        return;
    }
    let (mut all, mut any) = (false, false);
    while !all {
        let taken = at_home(home, "count down dependencies", || {
            count_down::take_up(home, TAKEN_UP_AT_ONCE)
        });
        let Some((taken, free)) = taken else { break };
        any |= free;
        all = taken < TAKEN_UP_AT_ONCE || !free;
    }
    *pause = if any { xact::SOON } else { (*pause * 2).min(xact::LATER) };
    with_board(|board| {
        let it = board.entry_mut(entry);
        it.countdown_deferred |= !all;
        it.countdown_at = time::monotonic() + *pause;
    });
}

/// Writes leases behind that are old enough, and clears away those that are over.
pub fn persist(home: &Home, entry: u32) {
    let mut from = 0;
    loop {
        let leases = persist_leases::find_lasting(entry, &mut from);
        if leases.is_empty() {
            break;
        }
        match at_home(home, "write its leases", || persist_leases::persist(home, &leases)) {
            Some(written) => persist_leases::note_persisted(entry, &written),
            None => break,
        }
    }
    let over = with_board(|board| std::mem::take(&mut board.entry_mut(entry).ended_persisted));
    if over > 0
        && at_home(home, "clear away leases", || persist_leases::clear_leases(home)).is_none()
    {
        with_board(|board| board.entry_mut(entry).ended_persisted += over);
    }
}

/// How often a failure to announce is logged at the most, in microseconds.
const COMPLAIN_EVERY: i64 = 60_000_000;

thread_local! {
    static NEXT_COMPLAINT: Cell<i64> = const { Cell::new(i64::MIN) };
}

/// Announces what became ready and what settled, if it is time; wakes another of those who wait for
/// a queue that has something still. Whatever goes wrong costs the hints and nothing else (I11).
pub fn announce(entry: u32) {
    const WHAT: &str = "announce what is ready";
    let now = time::monotonic();
    let interval = guc::notify_interval();
    let round = with_board(|board| board.begin_round(entry, now, interval));
    let Some(NotifyRound { queues, unsent }) = round else { return };
    if !unsent {
        notify::go_through(entry, queues, false, |_| ());
        return;
    }
    if let Err(message) = attempt(WHAT, || notify::announce(entry, queues))
        && NEXT_COMPLAINT.get() <= now
    {
        NEXT_COMPLAINT.set(now + COMPLAIN_EVERY);
        log(WHAT, &message);
    }
}
