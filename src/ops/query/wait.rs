//! Waiting: for work of queues, and for the end of a task.

use crate::error::{self, Result};
use crate::extension::database::Database;
use crate::ops::lease::worker::NO_QUEUE;
use crate::ops::query::unserved;
use crate::ops::supply::order::Wait;
use crate::ops::supply::search::Asked;
use crate::ops::supply::{Supplied, Supply};
use crate::pg::datum::{self, UUID};
use crate::pg::lock;
use crate::pg::process;
use crate::pg::spi::statement;
use crate::pg::time;
use crate::pg::uuid::Uuid;
use crate::storage::rows::session;
use crate::xact::on_board::current_database;
use crate::xact::{self, latch_wait};
use board::{ActionFilter, Board, LaneRef, Monotonic, Next, Timestamp, WaitFor, WorkerEvent};
use pgrx::pg_sys::Datum;
use std::cell::Cell;

statement!(ENDING, "query/ending", [UUID]);

/// Waits until one of some queues has a ready task that the caller could own, by any action or by
/// some. Returns the index of the first queue that has; `None`: none has until the time given.
pub fn wait_for_work(
    queues: &[&[u8]],
    actions: Option<&[&[u8]]>,
    until: Monotonic,
) -> Option<usize> {
    let filter = ActionFilter::new(actions);
    latch_wait::poll_until(until, || {
        let db = lasting_database();
        xact::wait_for(&db, WaitFor::Work { queues, filter });
        let find = |(at, queue): (usize, &&[u8])| Some((at, find_work(&db, queue, actions)?));
        let found = queues.iter().enumerate().find_map(find);
        match found {
            Some((_, lane)) => xact::end_wait(Some(lane)),
            None => xact::found_nothing(),
        }
        found.map(|(at, _)| at)
    })
}

/// What a worker hears that waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heard {
    /// The queue at this index has work.
    Work(usize),
    Worker(WorkerEvent),
}

/// As `wait_for_work`, for a worker that is to hear, too, of leases that end without it, and when
/// it is asked to stop.
pub fn wait_for_event(
    worker: &[u8],
    queues: &[&[u8]],
    actions: Option<&[&[u8]]>,
    until: Monotonic,
) -> Option<Heard> {
    let filter = ActionFilter::new(actions);
    latch_wait::poll_until(until, || {
        let db = lasting_database();
        xact::wait_for(&db, WaitFor::Event { queues, filter, worker });
        let now = time::now().wall;
        let event = db.on_board(|board, entry| {
            board.note_worker(entry, NO_QUEUE, worker, now);
            board.take_event(entry, process::number(), worker, queues)
        });
        if let Some(event) = event {
            xact::end_wait(None);
            return Some(Heard::Worker(event));
        }
        let find = |(at, queue): (usize, &&[u8])| Some((at, find_work(&db, queue, actions)?));
        let found = queues.iter().enumerate().find_map(find);
        match found {
            Some((_, lane)) => xact::end_wait(Some(lane)),
            None => xact::found_nothing(),
        }
        found.map(|(at, _)| Heard::Work(at))
    })
}

/// This backend's database, whose tables stay until the transaction ends. A process that was about
/// to drop them has done so by then.
fn lasting_database() -> Database {
    lock::share(current_database().task);
    current_database()
}

/// The lane of a queue's next ready task, on the board or in the table.
fn find_work(db: &Database, queue: &[u8], actions: Option<&[&[u8]]>) -> Option<LaneRef> {
    let session = session(db);
    let mut supply = Supply::default();
    let mut wait = Wait::default();
    let asked = Asked { queue, actions, most: 1 };
    wait.until_in_order(db, queue);
    loop {
        pgrx::check_for_interrupts!();
        let now = time::now();
        let (entry, next, task) = db.on_board(|board, entry| {
            let found = board.find_queue(entry, queue);
            // The end of the reason wakes this process.
            if board.blocked(entry, found, now.monotonic, None).is_some() {
                return (entry, Next::Empty, None);
            }
            let next = board.next_in_queue(entry, found, actions, now.wall);
            let task = match next {
                Next::Task(at) => Some((board.lane_of(at), has_room(board, entry, found, now))),
                _ => None,
            };
            (entry, next, task)
        });
        match task {
            Some((lane, true)) => return Some(lane),
            Some((lane, false)) => {
                // Nothing could be owned.
                xact::found_no_room(lane);
                return None;
            }
            None => {}
        }
        match supply.bring(db, &session, entry, &asked, next) {
            Supplied::Again => {}
            Supplied::Found(_) => {
                let has_room = db.on_board(|board, entry| {
                    has_room(board, entry, board.find_queue(entry, queue), now)
                });
                return has_room.then_some(LaneRef::NONE);
            }
            Supplied::Nothing if wait.wait(db, queue) => supply.found(),
            Supplied::Nothing => return None,
        }
    }
}

/// Whether one more task of a queue could be owned.
fn has_room(board: &mut Board, entry: u32, queue: Option<u32>, now: Timestamp) -> bool {
    let fits = board.fits(&mut board.room_for(entry, queue, now.monotonic));
    if !fits {
        board.note_refused(entry, queue, now.monotonic);
    }
    fits
}

/// Waits until a task has settled, and shows its status and result to `show`; `None` when it has
/// not until the time given. `authorize`: whether a task of a queue may be looked at, asked at each
/// look.
pub fn wait_for_task<T>(
    id: Uuid,
    until: Monotonic,
    authorize: impl Fn(&[u8]) -> Result<()>,
    show: impl Fn(String, Option<Datum>) -> T,
) -> Result<Option<T>> {
    let warned = Cell::new(false);
    let look = || {
        let db = lasting_database();
        xact::wait_for(&db, WaitFor::Settled(id.0));
        let session = session(&db);
        let rows = session.run(&ENDING, &[Some(id.datum())]);
        if rows.len() == 0 {
            return Some(Err(error::no_such_task(id)));
        }
        if let Err(denied) = authorize(&datum::text(rows.get(0, 3))) {
            return Some(Err(denied));
        }
        if datum::number(rows.get(0, 2)) == 0 {
            return Some(Err(error::no_result(id)));
        }
        let Some(status) = rows.get(0, 0) else {
            if !warned.replace(true) {
                unserved::warn_of(&db, &datum::text(rows.get(0, 3)));
            }
            return None;
        };
        Some(Ok(show(datum::string(Some(status)), rows.get(0, 1))))
    };
    latch_wait::poll_until(until, look).transpose()
}
