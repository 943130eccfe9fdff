//! Writes the end of leases to the tables: `settle` moves the tasks' rows to `scylla.finished`;
//! `release` makes the tasks ready again, or aborts those that have no try left.

use crate::extension::database::Database;
use crate::guc;
use crate::pg::datum::{
    self, BOOLS, FLOATS, INTEGER, INTERVAL, JSONBS, Kind, TEXT, TEXTS, TIMESTAMPTZ, TIMESTAMPTZS,
    UUIDS,
};
use crate::pg::spi::{Rows, Session, statement};
use crate::pg::{time, uuid};
use crate::storage::ending::{Ended, Ending};
use crate::storage::move_rows::move_rows;
use crate::storage::{queue_counts, run_counts};
use board::{ABORTED, Backoff, Micros, READY, RETRIED};
use pgrx::pg_sys::Datum;

statement!(
    RELEASE,
    "finish/release",
    [
        TEXT,
        TIMESTAMPTZ,
        UUIDS,
        TEXTS,
        TIMESTAMPTZS,
        BOOLS,
        FLOATS,
        JSONBS,
        INTEGER,
        INTERVAL,
        INTERVAL
    ]
);

/// Moves tasks to `scylla.finished`; returns those that were live. `endings` must be sorted by id;
/// `status` is that of the one at a position.
pub fn settle(
    db: &Database,
    session: &Session,
    status: impl Fn(usize) -> &'static str,
    endings: &[Ending],
) -> Vec<Ended> {
    let ended = move_rows(db, session, status, time::now().wall, endings);
    queue_counts::note(db, None, &ended);
    run_counts::note(db, session, &ended);
    ended
}

/// Makes tasks ready again, or aborts those that have had their last try; returns those that were
/// live. `endings` must be sorted by id.
pub fn release(db: &Database, session: &Session, event: &str, endings: &[Ending]) -> Vec<Ended> {
    let now = time::now().wall;
    let rows: Vec<[Option<Datum>; 6]> = endings.iter().map(|it| values(event, it)).collect();
    let column =
        |(at, kind): (usize, Kind)| Some(datum::array(kind, rows.iter().map(|row| row[at])));
    let columns = [UUIDS, TEXTS, TIMESTAMPTZS, BOOLS, FLOATS, JSONBS];
    let mut arguments = vec![Some(datum::varlena(event.as_bytes())), Some(datum::timestamptz(now))];
    arguments.extend(columns.into_iter().enumerate().map(column));
    arguments.extend([
        Some(Datum::from(guc::max_tries())),
        Some(datum::interval(guc::retry_interval())),
        Some(datum::interval(guc::retry_jitter())),
    ]);
    let rows = session.run(&RELEASE, &arguments);
    let pause = |row| if event == RETRIED { pause_at(&rows, row) } else { Micros::ZERO };
    let ended = |row| Ended::at(&rows, row, status_at(&rows, row)).of(endings, now);
    let ended: Vec<Ended> =
        (0..rows.len()).map(|row| Ended { pause: pause(row), ..ended(row) }).collect();
    queue_counts::note(db, Some(event), &ended);
    run_counts::note(db, session, &ended);
    ended
}

/// The pause before the next try, with its random part. Column 9, `tries`, already includes the try
/// that has just ended.
fn pause_at(rows: &Rows, row: usize) -> Micros {
    let [interval, jitter] = [7, 8].map(|column| datum::interval_length(rows.get(row, column)));
    let retries = (datum::number(rows.get(row, 9)) as i32).saturating_sub(1).max(0);
    let backoff = Backoff { interval, jitter, cap: guc::retry_max_interval() };
    backoff.pause(retries as u32, uuid::random_unit())
}

fn status_at(rows: &Rows, row: usize) -> &'static str {
    if datum::text(rows.get(row, 1)) == READY.as_bytes() { READY } else { ABORTED }
}

/// The values of one ending: id, worker, when the ownership began, whether the history has it,
/// progress, error.
fn values(word: &str, ending: &Ending) -> [Option<Datum>; 6] {
    let lease = ending.lease.as_ref();
    [
        Some(ending.id.datum()),
        lease.map(|it| datum::varlena(it.worker.as_bytes())),
        lease.map(|it| datum::timestamptz(it.since_at)),
        Some(Datum::from(lease.is_some_and(|it| it.in_history()))),
        Some(datum::float(ending.progress(word))),
        ending.error,
    ]
}
