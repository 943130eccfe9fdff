//! Beginning to end leases: what the board is told before the rows change.

use crate::pg::time;
use crate::shmem::database::Database;
use crate::shmem::xact::{self, Change};
use board::{Board, Micros};

/// The scheduler is ending the lease.
pub struct Busy;

/// How long a worker waits for the scheduler to make the first partitions.
const MOST_WAIT: Micros = Micros::from_secs(1);

/// Begins to end the lease of each item, and shows what `begin` answers for it; the commit makes
/// the change. Waits for those that the scheduler is ending.
pub fn begin_each<T: Copy, A>(
    db: &Database,
    items: &[T],
    mut begin: impl FnMut(&mut Board, u32, T) -> Result<(Option<Change>, A), Busy>,
    mut show: impl FnMut(T, A),
) {
    xact::reserve(items.len());
    let started = time::monotonic();
    db.in_steps(
        items,
        |board, entry, it| {
            // Without partitions the first settled tasks would go to the default partition.
            if board.is_unprepared(entry) && time::monotonic() - started < MOST_WAIT {
                return None;
            }
            begin(board, entry, it).ok()
        },
        |it, (change, answer)| {
            xact::at_commit(db, change);
            show(it, answer);
        },
    );
}
