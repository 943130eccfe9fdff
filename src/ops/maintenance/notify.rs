//! Announcing by NOTIFY which queues got ready tasks, and which tasks settled (I11).

use crate::pg::datum;
use crate::pg::lock::try_lock_database;
use crate::pg::uuid::Uuid;
use crate::shmem::segment::{in_steps, repeat, with_board};
use board::Board;
use pgrx::pg_sys;

/// How many settled tasks one transaction announces.
const MAX_NOTICES_PER_TX: usize = 4_096;

/// Announces so many queues, and settled tasks, at the transaction's commit. While another commit
/// holds the lock of all notifications, nothing is announced, since that commit may wait for a
/// standby: it is kept for the next round.
pub fn announce(entry: u32, queues: u32) {
    if !try_lock_database(pg_sys::InvalidOid, pg_sys::AccessExclusiveLock) {
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
        let some = repeat(left, &next);
        left = if some.is_empty() { 0 } else { left - some.len() };
        some.into_iter().for_each(&mut with);
    }
}

/// Wakes one more process for each of so many lanes that have something.
pub fn wake_in_round(entry: u32, lanes: u32) {
    in_steps(0..lanes, |board, _| board.wake_in_round(entry));
    go_on_waking(entry);
}

/// Goes on with lanes that could not look at enough waiters under one hold of the board's lock.
pub fn go_on_waking(entry: u32) {
    while with_board(|board| board.go_on_waking(entry)) {
        pgrx::check_for_interrupts!();
    }
}

/// Frees what every listener has read of PostgreSQL's queue of notifications. Only who adds to the
/// queue does so, or who asks how full it is; and a full one takes nothing.
pub fn make_room() {
    // SAFETY: a function without arguments.
    unsafe { pgrx::direct_function_call_as_datum(pg_sys::pg_notification_queue_usage, &[]) };
}

/// Sends a notification at the commit. A channel has at most 61 bytes, of 63.
pub fn notify(channel: &[u8], payload: &str) {
    let arguments = [channel, payload.as_bytes()].map(|text| Some(datum::varlena(text)));
    // SAFETY: two texts.
    unsafe { pgrx::direct_function_call_as_datum(pg_sys::pg_notify, &arguments) };
}
