//! Setting when messages are visible again, without the tokens of their leases.

use crate::error::{self, Result};
use crate::extension::database::Database;
use crate::ops::dependencies::count_down::settle_dependents;
use crate::ops::pgmq::finish;
use crate::ops::pgmq::queues::MessageQueue;
use crate::ops::submit::delay;
use crate::pg::time;
use crate::pg::uuid::Uuid;
use crate::shmem::segment;
use crate::storage::ending::Ending;
use crate::storage::rows::{LIVE, distinct, ids_of, session};
use crate::storage::settle::release as release_rows;
use crate::xact::{self, AT_ONCE, Change};
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
    let live = distinct(ids_of(&session(db), &LIVE, wanted.iter().copied()).into_iter());
    if until <= time::now().wall {
        release(db, &live);
    }
    let permit = |id: Uuid, found: &[u8]| match *found == *queue.queue {
        true => Ok(()),
        false => Err(error::message_of_other_queue(id)),
    };
    for id in &live {
        loop {
            pgrx::check_for_interrupts!();
            match extend(db, *id, until) {
                Moved::Yes => break,
                Moved::Busy => segment::wait(),
                // Another transaction may read it, or delete it, in this moment.
                Moved::Unread if delay::delay(db, *id, until, permit)? => break,
                Moved::Unread if !is_live(db, *id) => break,
                Moved::Unread => segment::wait(),
            }
        }
    }
    Ok(live)
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
    let mut endings: Vec<Ending> = Vec::new();
    for some in distinct(wanted.iter().copied()).chunks(AT_ONCE) {
        endings.extend(finish::begin_ends(db, some, Change::Release));
    }
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
