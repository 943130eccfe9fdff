//! What a caller does for the clock while there is none: owning and returning go on.

use crate::due;
use crate::ops::dependencies::count_down;
use crate::ops::maintenance::{expire, fire, refill};
use crate::pg::process;
use crate::pg::time;
use crate::pg::uuid::Uuid;
use crate::shmem::database::Database;
use crate::shmem::segment::with_board;
use crate::storage::rows::ROWS_PER_TX;
use board::{Board, Timestamp, Wall};

/// Whether a clock would have something to do.
pub fn is_wanted(board: &mut Board, entry: u32, now: Timestamp) -> bool {
    let it = board.entry(entry);
    let fires = it.may_fire_for_caller() && it.next_due <= due::horizon(now.wall);
    fires || it.refresh || it.countdown_deferred || board.next_expiry(entry) <= now.monotonic
}

/// ListHead leases whose deadline has passed, fires what is due, counts down what was put off, a batch of
/// each at the most: the tasks are ready once the caller's transaction commits. Surveys the tables if
/// somebody asked for it.
pub fn serve_inline(db: &Database, entry: u32) {
    // What this transaction alone knows is nobody else's yet.
    if !process::has_written()
        && with_board(|board| std::mem::take(&mut board.entry_mut(entry).refresh))
    {
        refill::survey(db, entry);
    }
    if !process::has_one_snapshot() {
        if with_board(|board| std::mem::take(&mut board.entry_mut(entry).countdown_deferred))
            && count_down::run_deferred(db, ROWS_PER_TX).0 > 0
        {
            // There may be more; and what a rollback takes back is to be taken up again.
            with_board(|board| board.entry_mut(entry).countdown_deferred = true);
        }
        fire_due(db, entry);
        expire::expire(db, &mut expire::take_due(db, entry, ROWS_PER_TX));
    }
}

fn fire_due(db: &Database, entry: u32) {
    let until = due::horizon(time::now().wall);
    let fires = with_board(|board| {
        let it = board.entry_mut(entry);
        let fires = it.may_fire_for_caller() && it.next_due <= until;
        if fires {
            it.next_due = Wall::NEVER;
        }
        fires
    });
    if !fires {
        return;
    }
    let (due, next) = fire::read(db, (Wall::MIN, Uuid(0)), until, ROWS_PER_TX);
    let mut ids: Vec<Uuid> = due.into_iter().map(|(_, id)| id).collect();
    ids.sort_unstable();
    // The next who comes looks again after some fired: a rollback may take that back.
    let next = if ids.is_empty() { next.unwrap_or(Wall::NEVER) } else { Wall::MIN };
    with_board(|board| board.note_due(entry, next));
    if !ids.is_empty() {
        fire::fire(db, &ids, until);
    }
}
