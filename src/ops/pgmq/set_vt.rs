//! Setting when messages are visible again, without the tokens of their leases.

use crate::error::{self, Result};
use crate::ops::dependencies::count_down::settle_dependents;
use crate::ops::pgmq::finish;
use crate::ops::pgmq::queues::MessageQueue;
use crate::ops::submit::delay;
use crate::pg::datum;
use crate::pg::time;
use crate::pg::uuid::Uuid;
use crate::shmem::database::Database;
use crate::shmem::segment;
use crate::shmem::xact::{self, Change};
use crate::storage::rows::{LIVE, distinct, id_at, ids, ids_in, ids_of, session};
use crate::storage::settle::release as release_rows;
use board::{EXPIRED, Extended, Wall};

/// What became of the lease of a message.
enum Moved {
    Yes,
    /// It has none.
    Unread,
    /// It is being ended.
    Busy,
}

/// Sets when messages are visible again: the deadlines of those that were read, else the time of
/// the task. Returns those that are live, in the order of their ids.
pub fn set_vt(
    db: &Database,
    queue: &MessageQueue,
    wanted: &[Uuid],
    until: Wall,
) -> Result<Vec<Uuid>> {
    let live = live_of(db, queue, wanted)?;
    if until <= time::now().wall {
        release(db, &live);
    }
    for id in &live {
        loop {
            pgrx::check_for_interrupts!();
            match extend(db, *id, until) {
                Moved::Yes => break,
                Moved::Busy => segment::wait(),
                // Another transaction may read it, or delete it, in this moment.
                Moved::Unread if delay::delay(db, *id, until, |_, _| Ok(()))? => break,
                Moved::Unread if !is_live(db, *id) => break,
                Moved::Unread => segment::wait(),
            }
        }
    }
    Ok(live)
}

/// Those of some messages that are live; an error if one is another queue's.
fn live_of(db: &Database, queue: &MessageQueue, wanted: &[Uuid]) -> Result<Vec<Uuid>> {
    let session = session(db);
    let rows = session.run(&LIVE, &[ids(wanted.iter().copied())]);
    let is_other = |row: &usize| *datum::text(rows.get(*row, 1)) != *queue.queue;
    match (0..rows.len()).find(is_other) {
        Some(row) => Err(error::message_of_other_queue(id_at(&rows, row, 0))),
        None => Ok(distinct(ids_in(&rows))),
    }
}

fn is_live(db: &Database, id: Uuid) -> bool {
    !ids_of(&session(db), &LIVE, [id].into_iter()).is_empty()
}

fn extend(db: &Database, id: Uuid, until: Wall) -> Moved {
    let now = time::now();
    let length = until - now.wall;
    let (moved, woken) = db.on_board(|board, entry| {
        let moved = match board.extend_any(entry, id.0, now, length) {
            Some(Extended::Yes(_)) => Moved::Yes,
            Some(Extended::Busy) => Moved::Busy,
            Some(Extended::No) | None => Moved::Unread,
        };
        (moved, board.wants_scheduler(entry).then_some(entry))
    });
    woken.into_iter().for_each(segment::wake_scheduler);
    moved
}

/// Makes messages visible that were read, at once.
pub fn release(db: &Database, wanted: &[Uuid]) {
    if wanted.is_empty() {
        return;
    }
    let endings = finish::begin_ends(db, &distinct(wanted.iter().copied()), Change::Release);
    if endings.is_empty() {
        return;
    }
    let session = session(db);
    let ended = release_rows(db, &session, EXPIRED, &endings);
    settle_dependents(db, &session, &ended);
    let is_live = |id: Uuid| ended.iter().any(|it| it.id == id && !it.is_settled());
    let gone = endings.iter().map(|it| it.id).filter(|id| !is_live(*id));
    xact::at_commit(db, gone.map(|id| Change::Gone(id.0)).collect::<Vec<_>>());
}
