//! The settings of queues: written to the table, and known to the board from the commit on.

use crate::error::{self, Result};
use crate::ops::queues::max_tries;
use crate::pg::datum::{self, BIGINT, BOOL, FLOAT, INTEGER, INTERVAL, TEXT};
use crate::pg::process;
use crate::pg::spi::{Rows, statement};
use crate::pg::time;
use crate::shmem::database::Database;
use crate::shmem::segment::{in_steps, with_board};
use crate::shmem::xact::{self, Change};
use crate::storage::rows::session;
use board::{Bucket, Name, QueueSettings};
use pgrx::PgLogLevel;
use pgrx::pg_sys::Datum;

statement!(
    CONFIGURE,
    "queues/configure",
    [
        TEXT, INTERVAL, INTERVAL, INTEGER, FLOAT, INTERVAL, BOOL, BOOL, INTEGER, INTERVAL,
        INTERVAL, BIGINT, INTEGER
    ]
);
statement!(RESET, "queues/reset", [TEXT, TEXT]);
statement!(SET_PAUSED, "queues/set_paused", [TEXT, BOOL]);
statement!(READ, "queues/read", []);
statement!(EXISTS, "queues/exists", [TEXT]);

/// Where `max_tries` is among the settings.
const MAX_TRIES: usize = 7;

/// Changes settings of a queue, given in the order of the statement's parameters; `None` leaves one
/// as it is.
pub fn configure(db: &Database, queue: &[u8], settings: &[Option<Datum>]) -> Result<()> {
    let mut arguments = vec![Some(datum::varlena(queue))];
    arguments.extend_from_slice(settings);
    let session = session(db);
    promise(db, &session.run(&CONFIGURE, &arguments))?;
    if settings[MAX_TRIES].is_some() {
        max_tries::announce_change(db);
    }
    Ok(())
}

/// Takes a setting of a queue back to its default.
pub fn reset(db: &Database, queue: &[u8], setting: &str) -> Result<()> {
    let session = session(db);
    let names = [queue, setting.as_bytes()].map(|it| Some(datum::varlena(it)));
    let rows = session.run(&RESET, &names);
    if rows.len() == 0 {
        check_existence(db, queue)?;
    }
    promise(db, &rows)?;
    max_tries::announce_change(db);
    Ok(())
}

/// Makes a queue hand out nothing, or tasks again.
pub fn set_paused(db: &Database, queue: &[u8], paused: bool) -> Result<()> {
    check_existence(db, queue)?;
    let session = session(db);
    let arguments = [Some(datum::varlena(queue)), Some(Datum::from(paused))];
    promise(db, &session.run(&SET_PAUSED, &arguments))
}

fn check_existence(db: &Database, queue: &[u8]) -> Result<()> {
    if exists(db, queue) { Ok(()) } else { Err(error::no_such_queue(queue)) }
}

/// Whether a queue has settings, or has had a task.
pub fn exists(db: &Database, queue: &[u8]) -> bool {
    // First the board: what it does not count any more is in the table of totals.
    let is_counted =
        with_board(|board| db.find(board).is_some_and(|entry| board.has_stats(entry, queue)));
    is_counted || {
        let session = session(db);
        let found = session.run(&EXISTS, &[Some(datum::varlena(queue))]).first();
        datum::number(found) != 0
    }
}

/// Registers the settings that were written for the commit. The board, if there is one, makes room
/// for them now.
fn promise(db: &Database, rows: &Rows) -> Result<()> {
    for (queue, settings) in (0..rows.len()).map(|row| settings_at(rows, row)) {
        xact::reserve(1);
        let change = Change::Configure(Box::new((Name::new(&queue), settings)));
        let has_room =
            with_board(|board| db.find(board).is_none_or(|entry| board.pin_queue(entry, &queue)));
        if !has_room {
            return Err(error::too_many_queues());
        }
        xact::at_commit(db, [change]);
    }
    Ok(())
}

fn settings_at(rows: &Rows, row: usize) -> (Vec<u8>, QueueSettings) {
    let is_true = |column, default| rows.get(row, column).map_or(default, |it| it.value() != 0);
    let settings = QueueSettings {
        version: datum::number(rows.get(row, 1)) as u64,
        paused: is_true(2, false),
        critical: is_true(3, false),
        timeout: datum::interval_length(rows.get(row, 4)),
        discards: !is_true(5, true),
        max_running: datum::number(rows.get(row, 6)) as u32,
        max_per_second: rows.get(row, 7).map_or(0.0, |it| f64::from_bits(it.value() as u64)),
        aging: datum::interval_length(rows.get(row, 8)),
        max_ready: datum::number(rows.get(row, 9)) as u64,
        max_running_per_group: datum::number(rows.get(row, 10)) as u32,
    };
    (datum::text(rows.get(row, 0)), settings)
}

/// Tells the board the settings of all queues, as the table has them now. Does nothing in a
/// transaction that has written: it may see settings that it rolls back.
pub fn load(db: &Database, entry: u32) {
    if process::has_written() {
        return;
    }
    let session = session(db);
    let rows = session.run(&READ, &[]);
    let all: Vec<(Vec<u8>, QueueSettings)> =
        (0..rows.len()).map(|row| settings_at(&rows, row)).collect();
    let now = time::monotonic();
    let known = in_steps(&all, |board, (queue, settings)| {
        board.configure(entry, queue, settings, now, Bucket::Empty)
    });
    let missing = known.into_iter().filter(|is_known| !is_known).count();
    if missing > 0 {
        error::settings_not_loaded(missing).report(PgLogLevel::WARNING);
    }
}
