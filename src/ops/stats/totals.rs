//! The totals of queues in the table. The scheduler adds to them, so that no caller writes a row
//! that others write, too.

use crate::ops::stats::workers;
use crate::pg::datum::{self, BIGINTS, INTEGER, TEXTS, TIMESTAMPTZ, TIMESTAMPTZS};
use crate::pg::spi::statement;
use crate::shmem::database::Database;
use crate::shmem::segment::scan;
use crate::shmem::xact::{self, Change, QueueCounts};
use crate::storage::rows::{batches, distinct, session};
use board::{BUCKETS, Counts, EVENTS, Events, QueueStats, Wall};
use pgrx::pg_sys::Datum;
use std::collections::HashSet;
use std::rc::Rc;

statement!(ADD_TOTALS, "stats/add_totals", [TEXTS, TIMESTAMPTZS, BIGINTS, INTEGER, INTEGER]);
statement!(FORGET_UNUSED, "stats/forget_unused", [TIMESTAMPTZ, TEXTS]);

/// What happened in a queue that the totals do not have yet.
pub struct Unwritten {
    queue: Rc<[u8]>,
    since: Wall,
    events: Events,
}

/// Reads what is to be written, in batches of about as many queues as one transaction writes. Frees
/// the records that have nothing.
pub fn read(entry: u32) -> impl Iterator<Item = Vec<Unwritten>> {
    let found = scan(
        |board| board.stats_end(),
        move |board, at| {
            let found = board.stats_at(at, entry).filter(|it| it.events != Events::NONE).copied();
            board.free_empty_stats(entry, at, 1);
            found
        },
    );
    let unwritten =
        |it: QueueStats| Unwritten { queue: it.queue().into(), since: it.since, events: it.events };
    batches(found.map(move |some| some.into_iter().map(unwritten).collect()))
}

/// Adds events to the totals; at the commit, the board forgets them.
pub fn write(db: &Database, unwritten: Vec<Unwritten>) {
    let numbers = unwritten.iter().flat_map(|it| it.events.numbers());
    let numbers = numbers.map(|number| Some(Datum::from(number as i64)));
    let queues = unwritten.iter().map(|it| Some(datum::varlena(&it.queue)));
    let since = unwritten.iter().map(|it| Some(datum::timestamptz(it.since)));
    let session = session(db);
    let rows = session.run(
        &ADD_TOTALS,
        &[
            Some(datum::array(TEXTS, queues)),
            Some(datum::array(TIMESTAMPTZS, since)),
            Some(datum::array(BIGINTS, numbers)),
            Some(Datum::from(EVENTS as i32)),
            Some(Datum::from(BUCKETS as i32)),
        ],
    );
    let written: HashSet<Vec<u8>> =
        (0..rows.len()).map(|row| datum::text(rows.get(row, 0))).collect();
    // The others are written the next time.
    let unwritten = unwritten.into_iter().filter(|it| written.contains(&*it.queue));
    xact::at_commit(
        db,
        unwritten.map(|Unwritten { queue, events, .. }| {
            let counts = Counts { events, ..Counts::NONE };
            Change::Written(Box::new(QueueCounts { queue, counts }))
        }),
    );
}

/// Forgets the totals of some queues that have nothing else, and were not used for a day.
pub fn forget_unused(db: &Database, now: Wall) {
    let served: Vec<Vec<u8>> =
        workers::all(db, now).iter().map(|(it, _)| it.queue.as_bytes().to_vec()).collect();
    let served = distinct(served.into_iter());
    let served = served.iter().map(|it| Some(datum::varlena(it)));
    let arguments = [Some(datum::timestamptz(now)), Some(datum::array(TEXTS, served))];
    session(db).run(&FORGET_UNUSED, &arguments);
}
