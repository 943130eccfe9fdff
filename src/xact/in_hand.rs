//! What this backend has in hand on the board, and gives up when its transaction fails.

use crate::pg::process;
use crate::shmem::segment::{broadcast, with_board};
use std::cell::Cell;

thread_local! {
    /// The lane that this backend refills, with its entry.
    static REFILLING: Cell<Option<u32>> = const { Cell::new(None) };
    /// The entry whose board this backend builds.
    static BUILDING: Cell<Option<u32>> = const { Cell::new(None) };
    /// This transaction counts the tasks of a database.
    static COUNTING: Cell<bool> = const { Cell::new(false) };
    /// This transaction has called a function of ours.
    static CALLED: Cell<bool> = const { Cell::new(false) };
}

/// Notes that this transaction has called a function of ours: it cannot be prepared, since its
/// changes of the board would be lost.
pub fn note_call() {
    CALLED.set(true);
}

/// Whether it has.
pub(super) fn has_called() -> bool {
    CALLED.get()
}

/// The transaction has ended: its calls are over.
pub(super) fn forget_call() {
    CALLED.set(false);
}

/// Notes the lane that this backend refills, so that an error gives it up.
pub fn refilling(lane: Option<u32>) {
    REFILLING.set(lane);
}

/// Notes the entry whose board this backend builds, so that an error gives it up.
pub fn building(entry: Option<u32>) {
    BUILDING.set(entry);
}

/// Notes that this transaction counts the tasks of a database: its end ends that.
pub fn counting() {
    COUNTING.set(true);
}

/// The counting has ended; `complete`: with a transaction that committed.
pub(super) fn end_counting(complete: bool) {
    if COUNTING.take() {
        with_board(|board| board.end_recount(process::id(), complete));
    }
}

/// Gives up the lane that a failed transaction refilled, and the board that it built.
pub(super) fn give_up() {
    if let Some(lane) = REFILLING.take() {
        with_board(|board| board.abandon_refill(lane, process::id()));
        broadcast();
    }
    if let Some(entry) = BUILDING.take() {
        with_board(|board| board.end_build(entry, process::id()));
    }
}
