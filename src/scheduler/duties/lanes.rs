//! The board's lanes: built from the tables, brought back, and freed.

use crate::extension::database::Database;
use crate::guc;
use crate::ops::supply::{identity, load_board, survey};
use crate::pg::time;
use crate::scheduler::process::{Commit, in_extension_transaction};
use crate::shmem::segment::{AT_ONCE, repeat, with_board};
use board::{Micros, Monotonic};

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
    in_extension_transaction(db, "survey the tables", Commit::Ahead, || survey::survey(db, entry));
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
        let resume = || survey::resume(db, entry, queue.as_bytes(), most);
        all &= in_extension_transaction(db, what, Commit::Ahead, resume) == Some(true);
    }
    *pause = if all { guc::sweep_interval() } else { (*pause * 2).min(MOST_PAUSE) };
    *next = time::monotonic() + *pause;
}

/// Wakes processes that wait for queues which have a permit again.
pub fn release_permits(entry: u32) {
    let now = time::monotonic();
    while !repeat(usize::MAX, |board| board.release_permit(entry, now).then_some(())).is_empty() {}
}
