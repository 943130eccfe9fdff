//! When tasks are submitted: strictly later than all tasks of the database before, though the clock
//! was set back.
//!
//! The board has the time of the newest task. So that it is not forgotten, the sequence
//! `scylla.created_until` is ahead of it: a time beyond that is given only once the sequence, too,
//! is beyond it. Its record in the write-ahead log comes before that of the commit.

use crate::extension::database::Database;
use crate::pg::datum::{self, BIGINT};
use crate::pg::lock::{self, Locked};
use crate::pg::spi::statement;
use crate::shmem::segment::with_board;
use crate::storage::rows::session_of;
use board::{BuildState, Micros, Wall};
use pgrx::pg_sys::Datum;

statement!(ALLOW_CREATED, "submit/allow_created", [BIGINT]);

/// How far ahead of the newest task the sequence is. After a restart the clock may be behind by
/// this much.
const AHEAD: Micros = Micros::from_secs(1);

/// The time of the first of so many tasks that are submitted now, a microsecond apart; and whether
/// a queue may keep the order of its groups.
pub fn take(db: &Database, now: Wall, count: usize) -> (Wall, bool) {
    let count = count.max(1) as u32;
    loop {
        let taken = with_board(|board| {
            let entry = db.find(board)?;
            let may_order = board.orders() || board.entry(entry).build_state != BuildState::Built;
            Some((board.take_created(entry, now, count), may_order))
        });
        match taken {
            Some((Ok(first), may_order)) => return (first, may_order),
            Some((Err(last), _)) => allow(db, last + AHEAD),
            None => _ = db.enter(),
        }
    }
}

fn allow(db: &Database, until: Wall) {
    // Before the sequence, as DROP EXTENSION does, or the two could be deadlocked.
    lock::share(db.task);
    // Else a process that is late would set the sequence back.
    let sequence = db.table(c"created_until");
    let _lock = Locked::alone(sequence);
    let session = session_of(sequence);
    let rows = session.run(&ALLOW_CREATED, &[Some(Datum::from(until.0))]);
    let [allowed, until] = [0, 1].map(|column| Wall(datum::number(rows.get(0, column))));
    with_board(|board| {
        if let Some(entry) = db.find(board) {
            board.allow_created(entry, allowed, until);
        }
    });
}
