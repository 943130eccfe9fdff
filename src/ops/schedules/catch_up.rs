//! Catching up: runs that were missed fire in batches, apart from those that are due now.

use crate::extension::database::Database;
use crate::ops::schedules::runs::{self, Schedule, Step};
use crate::pg::datum::{self, BIGINT, TIMESTAMPTZ};
use crate::pg::spi::statement;
use crate::storage::rows::{ROWS_PER_TX, session};
use board::Wall;
use pgrx::pg_sys::Datum;
use std::collections::HashMap;

statement!(LOCK_MISSED, "schedules/lock_missed", [BIGINT, TIMESTAMPTZ, BIGINT]);
statement!(ADVANCE_MISSED, "schedules/advance_missed", [BIGINT, TIMESTAMPTZ, TIMESTAMPTZ]);

/// How many schedules one batch catches up with.
const SCHEDULES: usize = 20;

/// Missed runs: of which schedule, and until when. They are caught up with in this order, around
/// and around.
pub type MissedKey = (i64, Wall);

/// Before all missed runs.
pub const FIRST: MissedKey = (0, Wall::MIN);

/// Fires a batch of missed runs, those behind a key. Returns how many runs fired, and the key of
/// the last ones; `None`: none come behind the key.
pub fn catch_up(db: &Database, after: MissedKey) -> (u64, Option<MissedKey>) {
    let session = session(db);
    let rows = session.run(
        &LOCK_MISSED,
        &[
            Some(Datum::from(after.0)),
            Some(datum::timestamptz(after.1)),
            Some(Datum::from(SCHEDULES as i64)),
        ],
    );
    let missed: Vec<(MissedKey, Wall)> = (0..rows.len())
        .map(|row| {
            let wall = |column| Wall(datum::number(rows.get(row, column)));
            ((datum::number(rows.get(row, 0)), wall(1)), wall(2))
        })
        .collect();
    let Some((last, _)) = missed.last() else { return (0, None) };
    let mut ids: Vec<i64> = missed.iter().map(|it| it.0.0).collect();
    ids.dedup();
    let (schedules, _) = runs::lock(db, &session, &ids);
    let mut by_id: HashMap<i64, &Schedule> = schedules.iter().map(|it| (it.id, it)).collect();
    let most = ROWS_PER_TX / missed.len();
    let mut steps = Vec::with_capacity(missed.len());
    for ((id, until), from) in &missed {
        // Of one schedule the oldest runs come first; the others wait for another batch.
        let Some(schedule) = by_id.remove(id) else { continue };
        let part = recurrence::catch_up(&schedule.pending(*from), *until, most);
        session.run(
            &ADVANCE_MISSED,
            &[
                Some(Datum::from(*id)),
                Some(datum::timestamptz(*until)),
                part.rest.map(datum::timestamptz),
            ],
        );
        let (fire, skipped, next_run) = (part.fire, part.skipped, schedule.next_run);
        steps.push(Step { schedule, fire, skipped, next_run });
    }
    (runs::take(db, &session, &steps), Some(*last))
}
