//! Back-pressure: a queue with `max_ready` refuses tasks that would be ready at once.

use crate::error::{self, Result};
use crate::ops::submit::draft::Entry;
use crate::pg::time;
use crate::shmem::database::Database;
use crate::shmem::segment::with_board;
use crate::shmem::xact;
use std::rc::Rc;

/// Announces tasks that will be ready when this transaction commits; refuses them where they would be
/// too many. Tasks that wait are passed over.
pub fn announce<'e>(db: &Database, entries: impl Iterator<Item = &'e Entry<'e>>) -> Result<()> {
    let mut counts: Vec<(&Rc<[u8]>, u32)> = Vec::new();
    for entry in entries.filter(|entry| entry.is_ready()) {
        let queue = &entry.draft.queue;
        match counts.iter_mut().find(|it| it.0 == queue) {
            Some((_, count)) => *count += 1,
            None => counts.push((queue, 1)),
        }
    }
    let now = time::now().wall;
    for (queue, count) in counts {
        // Registered first, so that nothing can fail once they are announced.
        xact::count(db, queue, |_| {});
        let announced = with_board(|board| {
            let entry = db.find(board)?;
            board.announce_ready(entry, queue, count, now)
        });
        match announced {
            Some(true) => xact::count(db, queue, |counts| counts.announced += count),
            Some(false) => return Err(error::queue_full(queue)),
            None => {}
        }
    }
    Ok(())
}
