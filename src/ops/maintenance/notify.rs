//! Announcing by NOTIFY which queues got ready tasks, and which tasks settled (I11).

use crate::pg::uuid::Uuid;
use crate::pg::{datum, settings};
use crate::shmem::segment::with_board;
use crate::shmem::xact::AT_ONCE;
use board::Board;
use pgrx::pg_sys;

/// How many settled tasks one transaction announces.
const MAX_NOTICES_PER_TX: usize = 4_096;

/// Announces so many queues, and settled tasks, by the transaction's commit. While another commit holds the lock
/// of all notifications, nothing is announced: it is kept for the next round.
pub fn announce(entry: u32, queues: u32) {
    // The hints are not worth a wait for the disk or a standby.
    settings::set_local(c"synchronous_commit", c"off");
    if !try_lock() {
        return;
    }
    take_each(
        queues as usize,
        |board| board.next_queue_to_announce(entry),
        |queue| {
            notify(&[b"scylla.", queue.as_bytes()].concat(), "");
        },
    );
    take_each(
        MAX_NOTICES_PER_TX,
        |board| board.next_settled(entry),
        |id| {
            notify(b"scylla_result", &Uuid(id).to_string());
        },
    );
}

/// Takes things off the board, at most so many, in short holds of its lock, and uses each.
fn take_each<T>(most: usize, next: impl Fn(&mut Board) -> Option<T>, mut with: impl FnMut(T)) {
    let mut left = most;
    while left > 0 {
        let most = left.min(AT_ONCE);
        let mut some = Vec::with_capacity(most);
        with_board(|board| some.extend((0..most).map_while(|_| next(board))));
        left = if some.len() < most { 0 } else { left - most };
        some.into_iter().for_each(&mut with);
    }
}

/// Wakes one more process for each of so many lanes that have something.
pub fn wake_in_round(entry: u32, lanes: u32) {
    let mut left = lanes as usize;
    while left > 0 {
        let some = left.min(AT_ONCE);
        with_board(|board| (0..some).for_each(|_| board.wake_in_round(entry)));
        left -= some;
    }
    go_on_waking(entry);
}

/// Goes on with lanes that could not look at enough waiters under one hold of the board's lock.
pub fn go_on_waking(entry: u32) {
    while with_board(|board| board.go_on_waking(entry)) {
        pgrx::check_for_interrupts!();
    }
}

/// A channel has at most 55 bytes, of 63.
fn notify(channel: &[u8], payload: &str) {
    let arguments = [channel, payload.as_bytes()].map(|text| Some(datum::varlena(text)));
    // SAFETY: two texts.
    unsafe { pgrx::direct_function_call_as_datum(pg_sys::pg_notify, &arguments) };
}

/// Takes the lock that PostgreSQL takes to commit notifications, unless somebody has it: whoever
/// does may be waiting for a standby.
fn try_lock() -> bool {
    let tag = pg_sys::LOCKTAG {
        locktag_field1: 0,
        locktag_field2: pg_sys::DatabaseRelationId.to_u32(),
        locktag_field3: 0,
        locktag_field4: 0,
        locktag_type: pg_sys::LockTagType::LOCKTAG_OBJECT as u8,
        locktag_lockmethodid: pg_sys::DEFAULT_LOCKMETHOD as u8,
    };
    // SAFETY: a lock of the transaction, which its end releases.
    let got = unsafe { pg_sys::LockAcquire(&tag, pg_sys::AccessExclusiveLock as i32, false, true) };
    got != pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL
}
