//! Handing out: reads the rows of reserved tasks, and checks them (I5).

use crate::error;
use crate::extension::database::Database;
use crate::ops::queues::max_tries::MaxTries;
use crate::pg::datum;
use crate::pg::process;
use crate::pg::time;
use crate::pg::uuid::Uuid;
use crate::shmem::segment::with_board;
use crate::storage::lookup::{OwnedColumns, TaskLookup};
use crate::storage::rows::share;
use crate::xact;
use board::{Claimed, Event, Events, Micros, Wall};
use pgrx::pg_sys::{self, Datum};

/// A task that a worker owns now. The data live until the next one is shown.
pub struct Owned {
    pub id: Uuid,
    pub token: Uuid,
    pub action: Option<Datum>,
    pub spec: Option<Datum>,
    pub priority: Option<Datum>,
    pub key: Option<Datum>,
    pub tries: i32,
    pub num_failures: Option<Datum>,
    /// `None`: the lease never expires.
    pub deadline: Option<Wall>,
    pub group_key: Option<Datum>,
    pub created: Option<Datum>,
    /// 0: no limit.
    pub max_tries: i32,
    pub meta: Option<Datum>,
}

/// Checks what was taken against the table, under a snapshot taken after it left the board (I5),
/// and shows it in the board's order. Returns how many there were; strays leave the board.
pub fn hand_out(
    db: &Database,
    queue: &[u8],
    taken: Vec<(Claimed, Uuid)>,
    mut show: impl FnMut(Owned),
) -> usize {
    let Some(mut lookup) = TaskLookup::open(db, pg_sys::AccessShareLock) else {
        error::not_created().raise()
    };
    let now = time::now().wall;
    let mut tries = MaxTries::new(db, queue);
    let mut shown = 0;
    let mut events = Events::NONE;
    for (taken, token) in taken {
        match lookup.at(Uuid(taken.id), taken.row) {
            Some(seen) if is_of_queue(&seen, queue) => {
                let [.., ready_since] = seen;
                let waited = ready_since.map_or(Micros::ZERO, |since| now - datum::wall(since));
                events.note_wait(waited);
                let owned = owned(seen, taken, token, |own| tries.of(own));
                show(owned);
                shown += 1;
            }
            // Only what this transaction itself wrote can hide a row that others see. A row of
            // another queue, which has got the id meanwhile, is looked for again in its lane.
            other => {
                let hidden = other.is_some() || process::has_written();
                with_board(|board| board.drop_stray(taken.ticket, hidden));
            }
        }
    }
    lookup.close();
    if shown > 0 {
        events.note(Event::Owned, shown);
        xact::count(db, &share(queue), |counts| counts.events.add(&events));
    }
    shown
}

fn is_of_queue(seen: &OwnedColumns, queue: &[u8]) -> bool {
    // SAFETY: the queue is a text.
    seen[0].is_some_and(|it| unsafe { datum::slice(it) } == queue)
}

fn owned(
    seen: OwnedColumns,
    taken: Claimed,
    token: Uuid,
    max_tries: impl FnOnce(Option<i32>) -> i32,
) -> Owned {
    let [_, action, spec, priority, key, tries, num_failures, group_key, created, limit, meta, _] =
        seen;
    Owned {
        id: Uuid(taken.id),
        token,
        action,
        spec,
        priority,
        key,
        // The ownership that begins is counted, though the row learns of it at its end only.
        tries: datum::number(tries) as i32 + 1,
        num_failures,
        deadline: taken.deadline_at,
        group_key,
        created,
        max_tries: max_tries(limit.map(|it| it.value() as i32)),
        meta,
    }
}
