//! Beginning to end leases: what the board is told before the rows change.

use crate::shmem::database::Database;
use crate::shmem::segment;
use crate::shmem::xact::{self, Change};
use board::Board;

/// The scheduler is ending the lease.
pub struct Busy;

/// How often a worker waits for the scheduler to make the first partitions, up to 20 ms each time.
const MOST_WAITS: usize = 50;

/// Begins to end the lease of each item; the commit makes the change that `begin` returns. Waits
/// for those that the scheduler is ending.
pub fn begin_each<T: Copy>(
    db: &Database,
    some: &[T],
    mut begin: impl FnMut(&mut Board, u32, T) -> Result<Option<Change>, Busy>,
) {
    let mut left: Vec<T> = some.to_vec();
    let mut changes = Vec::with_capacity(some.len());
    let mut waits = 0;
    xact::reserve(some.len());
    while !left.is_empty() {
        db.on_board(|board, entry| {
            // Without partitions the first settled tasks would go to the default partition.
            if board.is_unprepared(entry) && waits < MOST_WAITS {
                waits += 1;
                return;
            }
            left.retain(|it| match begin(board, entry, *it) {
                Ok(change) => {
                    changes.extend(change);
                    false
                }
                Err(Busy) => true,
            });
        });
        xact::at_commit(db, changes.drain(..));
        if !left.is_empty() {
            segment::wait();
        }
    }
}
