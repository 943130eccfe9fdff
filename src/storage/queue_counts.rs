//! Counting what became of tasks, by queue.

use crate::extension::database::Database;
use crate::storage::ending::Ended;
use crate::xact;
use board::{ABORTED, CANCELLED, COMPLETED, EXPIRED, Event, RETRIED};

/// Counts ended ownerships and tasks. `released`: the word of the history for what made the tasks
/// ready again that have not settled.
pub fn note(db: &Database, released: Option<&str>, ended: &[Ended]) {
    let released = released.map(|word| match word {
        EXPIRED => Event::Expired,
        RETRIED => Event::Retried,
        _ => Event::Yielded,
    });
    for some in ended.chunk_by(|one, other| one.queue == other.queue) {
        xact::count(db, &some[0].queue, |counts| {
            for it in some {
                let settled = match it.status {
                    COMPLETED => Some(Event::Completed),
                    ABORTED => Some(Event::Aborted),
                    CANCELLED => Some(Event::Cancelled),
                    _ => None,
                };
                // A lease that expires does so on the last try, too.
                let expired = released.filter(|event| *event == Event::Expired);
                let happened = settled.map_or(released, |_| expired);
                settled.into_iter().chain(happened).for_each(|event| counts.events.note(event, 1));
                if settled.is_some() {
                    counts.add_tasks(it.was_ready, -1);
                    if let Some(length) = it.owned_for {
                        counts.events.note_work(length);
                    }
                }
            }
        });
    }
}
