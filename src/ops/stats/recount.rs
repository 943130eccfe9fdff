//! Counting the tasks of a database, once after its board was built: from then on each commit adds
//! what it changes.

use crate::pg::datum;
use crate::pg::process;
use crate::pg::relcache;
use crate::pg::spi::{snapshot, statement};
use crate::pg::time;
use crate::shmem::database::Database;
use crate::shmem::segment::AT_ONCE;
use crate::shmem::segment::with_board;
use crate::shmem::xact;
use crate::storage::rows::session;
use board::Gauges;

statement!(COUNT_TASKS, "stats/count_tasks", []);

/// A table of so many blocks is counted in a moment.
const FEW_BLOCKS: u32 = 1_024;

/// Whether the tasks are few enough to be counted between other duties.
pub fn is_short(db: &Database) -> bool {
    relcache::blocks(db.task) <= FEW_BLOCKS
}

/// Counts the tasks of each queue, unless another process counts. What is found holds once this
/// transaction has committed.
pub fn recount(db: &Database) {
    let entry = db.enter();
    snapshot::prepare();
    // One hold of the lock: a commit that the snapshot sees is either counted on the board before,
    // or finds the snapshot there.
    let (number, snapshot) = with_board(|board| {
        snapshot::latest(|end, open| board.begin_recount(entry, process::id(), end, open))
    });
    let Some(number) = number else { return };
    xact::counting();
    let snapshot = snapshot.keep();
    let session = session(db);
    let rows = session.run_under(&COUNT_TASKS, &[], snapshot.as_ptr());
    let found: Vec<(Vec<u8>, Gauges)> = (0..rows.len())
        .map(|row| {
            let [ready, waiting] = [1, 2].map(|column| datum::number(rows.get(row, column)));
            (datum::text(rows.get(row, 0)), Gauges { ready, waiting })
        })
        .collect();
    let now = time::now().wall;
    for some in found.chunks(AT_ONCE) {
        with_board(|board| {
            for (queue, gauges) in some {
                board.add_recounted(entry, number, queue, *gauges, now);
            }
        });
    }
}
