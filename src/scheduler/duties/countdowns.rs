//! Countdowns of dependencies that locked rows have put off.

use crate::extension::database::Database;
use crate::ops::dependencies::count_down;
use crate::pg::time;
use crate::scheduler::process::{Commit, in_extension_transaction, publish_durable};
use crate::shmem::segment::with_board;
use crate::storage::rows::ROWS_PER_TX;
use board::{COUNTDOWN_DELAY, Micros, ROW_RETRY_DELAY};

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
    *pause = if any { COUNTDOWN_DELAY } else { (*pause * 2).min(ROW_RETRY_DELAY) };
    with_board(|board| {
        let it = board.entry_mut(entry);
        it.countdown_deferred |= !all;
        it.countdown_at = time::monotonic() + *pause;
    });
}
