//! The numbers of queues: what the board counts, added to the totals in the table.

use crate::pg::datum::{self, BIGINTS};
use crate::pg::spi::{Rows, statement};
use crate::shmem::database::Database;
use crate::shmem::segment::{self, scan, with_board};
use crate::storage::rows::session;
use board::{Events, Gauges, QueueStats, Wall};
use std::collections::HashMap;

statement!(TOTALS, "stats/totals", []);

/// The numbers of a queue.
pub struct QueueNumbers {
    /// `None`: not known now.
    pub gauges: Option<Gauges>,
    /// How many of the ready ones run.
    pub running: u32,
    /// `None`: nothing has happened.
    pub since: Option<Wall>,
    pub events: Events,
}

/// How often both are read again, since the scheduler writes totals meanwhile.
const ROUNDS: usize = 10;

/// The numbers of all queues, in no order.
pub fn all(db: &Database) -> HashMap<Vec<u8>, QueueNumbers> {
    let mut round = 0;
    loop {
        pgrx::check_for_interrupts!();
        let before = writes(db);
        let queues = read(db);
        round += 1;
        // What is written by now is on the board, too, or was there when the totals were read.
        if round == ROUNDS
            || before.is_none_or(|(_, is_writing)| !is_writing) && before == writes(db)
        {
            return queues;
        }
        segment::wait();
    }
}

/// The queues that have ready tasks, in the order of their names; `None`: not known now.
pub fn with_ready_tasks(db: &Database) -> Option<Vec<Vec<u8>>> {
    let (counted, others) = on_board(db);
    others?;
    let ready = counted.iter().filter(|(_, gauges, _)| gauges.is_some_and(|it| it.ready > 0));
    let mut queues: Vec<_> = ready.map(|(stats, ..)| stats.queue().to_vec()).collect();
    queues.sort_unstable();
    Some(queues)
}

/// How often totals were written, and whether they are being written now.
fn writes(db: &Database) -> Option<(u32, bool)> {
    with_board(|board| {
        let it = board.entry(db.find(board)?);
        Some((it.writes, it.is_writing))
    })
}

fn read(db: &Database) -> HashMap<Vec<u8>, QueueNumbers> {
    let session = session(db);
    let rows = session.run(&TOTALS, &[]);
    let (counted, others) = on_board(db);
    let mut queues: HashMap<Vec<u8>, QueueNumbers> = (0..rows.len())
        .map(|row| {
            let numbers = QueueNumbers {
                gauges: others,
                running: 0,
                since: rows.get(row, 1).map(datum::wall),
                events: events_at(&rows, row),
            };
            (datum::text(rows.get(row, 0)), numbers)
        })
        .collect();
    for (stats, gauges, running) in counted {
        let unwritten = QueueNumbers { gauges, running, since: None, events: Events::NONE };
        let it = queues.entry(stats.queue().to_vec()).or_insert(unwritten);
        it.events.add(&stats.events);
        (it.gauges, it.running) = (gauges, running);
        it.since = Some(it.since.map_or(stats.since, |since| since.min(stats.since)));
    }
    queues
}

fn events_at(rows: &Rows, row: usize) -> Events {
    let mut events = Events::NONE;
    let parts = [
        &mut events.counts[..],
        &mut events.ready_to_owned[..],
        &mut events.owned_to_settled[..],
        &mut events.sums[..],
    ];
    for (at, part) in parts.into_iter().enumerate() {
        // SAFETY: declared as bigint[].
        let written = rows.get(row, 2 + at).and_then(|it| unsafe { datum::elements(BIGINTS, it) });
        for (number, written) in part.iter_mut().zip(written.into_iter().flatten()) {
            *number = datum::number(written) as u64;
        }
    }
    events
}

/// What the board counts of a queue, how many tasks it has, and how many of them run.
type OnBoard = (QueueStats, Option<Gauges>, u32);

/// What the board counts, and how many tasks all other queues have: none, or unknown.
fn on_board(db: &Database) -> (Vec<OnBoard>, Option<Gauges>) {
    let Some(entry) = with_board(|board| db.find(board)) else { return (Vec::new(), None) };
    let counted = scan(
        |board| board.stats_end(),
        |board, at| {
            let it = board.stats_at(at, entry)?;
            Some((*it, board.gauges(entry, Some(it)), board.running_of(it)))
        },
    );
    (counted.flatten().collect(), with_board(|board| board.gauges(entry, None)))
}
