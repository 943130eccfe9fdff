//! Back-pressure: a queue with `max_ready` refuses tasks that would be ready at once.

use crate::error::{self, Result};
use crate::extension::database::Database;
use crate::ops::submit::draft::NewTask;
use crate::ops::submit::keys::Replaced;
use crate::ops::submit::numbers::{Numbers, by_queue};
use crate::pg::time;
use crate::shmem::segment::{any_queue_refuses, with_board};
use crate::xact;
use std::rc::Rc;

/// Announces tasks that will be ready when this transaction commits; refuses them where they would
/// be too many. Tasks that wait are passed over, and as many as those that they replace.
pub fn announce<'e>(
    db: &Database,
    tasks: impl Iterator<Item = &'e NewTask<'e>>,
    replaced: &Replaced,
) -> Result<()> {
    if !any_queue_refuses() {
        return Ok(());
    }
    let refused = |(queue, numbers): (&Rc<[u8]>, Numbers)| {
        let before = replaced.get(queue).map_or(0, |it| it.ready);
        announce_in(db, queue, numbers.ready.saturating_sub(before))
    };
    by_queue(tasks).into_iter().try_for_each(refused)
}

fn announce_in(db: &Database, queue: &Rc<[u8]>, count: u32) -> Result<()> {
    if count == 0 {
        return Ok(());
    }
    // Registered first, so that nothing can fail once they are announced.
    xact::count(db, queue, |_| {});
    let now = time::now().wall;
    let announced = with_board(|board| {
        let entry = db.find(board)?;
        board.announce_ready(entry, queue, count, now)
    });
    match announced {
        Some(true) => xact::count(db, queue, |counts| counts.announced += count),
        Some(false) => return Err(error::queue_full(queue)),
        None => {}
    }
    Ok(())
}
