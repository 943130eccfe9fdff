//! Waiting: for work of a queue, and for the end of a task.

use crate::error::{self, Result};
use crate::ops::maintenance::refill;
use crate::pg::datum::{self, UUID};
use crate::pg::spi::statement;
use crate::pg::uuid::Uuid;
use crate::shmem::database::Database;
use crate::shmem::on_board::current_database;
use crate::shmem::{latch_wait, segment, xact};
use crate::storage::rows::session;
use board::{Monotonic, Next, WaitFor};
use pgrx::pg_sys::Datum;
use std::cell::OnceCell;

statement!(ENDING, "query/ending", [UUID]);

/// Waits until a queue has a ready task; false when it has none until the time given.
pub fn wait_for_work(queue: &[u8], until: Monotonic) -> bool {
    let look = || {
        let db = current_database();
        xact::wait_for(&db, WaitFor::Work(queue));
        has_work(&db, queue).then_some(())
    };
    latch_wait::poll_until(until, look).is_some()
}

/// Whether a queue has a ready task, on the board or in the table.
fn has_work(db: &Database, queue: &[u8]) -> bool {
    let opened = OnceCell::new();
    let table = || opened.get_or_init(|| session(db));
    let mut surveyed = false;
    loop {
        pgrx::check_for_interrupts!();
        let (entry, front, spilled) = db.on_board(|board, entry| {
            if !board.entry(entry).may_hand_out() {
                return (entry, Next::Empty, false);
            }
            (entry, board.next_task(entry, queue, None), board.entry(entry).lanes_spilled > 0)
        });
        match front {
            Next::Task(_) => return true,
            Next::NeedsRefill(dry) if refill::refill(db, table(), entry, queue, &dry) => {}
            Next::Refilling => segment::wait(),
            Next::Empty if spilled && !surveyed => {
                surveyed = true;
                refill::survey_queue(table(), entry, queue);
            }
            // With each slot leased nothing could be owned.
            Next::NeedsRefill(_) | Next::Empty => return false,
        }
    }
}

/// Waits until a task has settled, and shows its status and result to `show`; `None` when it has not
/// until the time given.
pub fn wait_for_task<T>(
    id: Uuid,
    until: Monotonic,
    show: impl Fn(String, Option<Datum>) -> T,
) -> Result<Option<T>> {
    let look = || {
        let db = current_database();
        xact::wait_for(&db, WaitFor::Settled(id.0));
        let session = session(&db);
        let rows = session.run(&ENDING, &[Some(id.datum())]);
        if rows.len() == 0 {
            return Some(Err(error::no_such_task(id)));
        }
        if datum::number(rows.get(0, 2)) == 0 {
            return Some(Err(error::no_result(id)));
        }
        let status = rows.get(0, 0)?;
        Some(Ok(show(datum::string(Some(status)), rows.get(0, 1))))
    };
    latch_wait::poll_until(until, look).transpose()
}
