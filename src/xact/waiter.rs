//! What this backend waits for on the board.

use crate::extension::database::Database;
use crate::pg::process;
use crate::shmem::segment::{wake_scheduler, with_board};
use board::{Board, LaneRef, WaitFor};
use std::cell::Cell;

thread_local! {
    /// The entry in which this backend has a waiter on the board.
    static WAITING: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Makes this backend wait for something on the board, until it stops or an error, or its end,
/// rolls its transaction back.
pub fn wait_for(db: &Database, wait: WaitFor) {
    let entry = db.enter();
    WAITING.set(Some(entry));
    with_board(|board| board.wait_for(entry, process::number(), wait));
}

/// Notes that this backend looked and found nothing to own, and waits on.
pub fn found_nothing() {
    if let Some(entry) = WAITING.get() {
        wake(entry, |board| board.found_nothing(process::number()));
    }
}

/// Notes that this backend waits on, though a lane has something, since it could not be leased.
pub fn found_no_room(lane: LaneRef) {
    if let Some(entry) = WAITING.get() {
        wake(entry, |board| board.found_no_room(process::number(), lane));
    }
}

/// Ends this backend's waiting, which found work in a lane or did not; a wake-up that it did not
/// use goes to the next process.
pub fn end_wait(found: Option<LaneRef>) {
    if let Some(entry) = WAITING.take() {
        wake(entry, |board| board.end_wait(process::number(), found));
    }
}

/// Does something that may wake other processes, and wakes the scheduler if it is to go on with
/// that.
fn wake(entry: u32, change: impl FnOnce(&mut Board)) {
    let wakes_scheduler = with_board(|board| {
        change(board);
        board.wants_scheduler(entry)
    });
    if wakes_scheduler {
        wake_scheduler(entry);
    }
}
