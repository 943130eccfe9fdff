//! Counting the runs of schedules as they settle. What is counted is written beside the schedule, and
//! the scheduler adds it there later: a schedule's row is never waited for. A task that is no run
//! costs nothing.

use crate::pg::datum::{self, BIGINTS, INTEGERS};
use crate::pg::spi::{Session, statement};
use crate::shmem::database::Database;
use crate::shmem::xact::{self, Change};
use crate::storage::ending::Ended;
use board::{ABORTED, COMPLETED};
use pgrx::pg_sys::Datum;
use std::collections::BTreeMap;

statement!(COUNT_RUNS, "schedules/count_runs", [BIGINTS, INTEGERS, INTEGERS]);

/// Notes the runs among tasks that have settled.
pub fn note(db: &Database, session: &Session, ended: &[Ended]) {
    let mut counts: BTreeMap<i64, [i32; 2]> = BTreeMap::new();
    for it in ended {
        let Some(schedule) = it.schedule else { continue };
        match it.status {
            COMPLETED => counts.entry(schedule).or_default()[0] += 1,
            ABORTED => counts.entry(schedule).or_default()[1] += 1,
            _ => {}
        }
    }
    if counts.is_empty() {
        return;
    }
    let column = |at: usize| {
        let values = counts.values().map(|it| Some(Datum::from(it[at])));
        Some(datum::array(INTEGERS, values))
    };
    let schedules = datum::array(BIGINTS, counts.keys().map(|it| Some(Datum::from(*it))));
    session.run(&COUNT_RUNS, &[Some(schedules), column(0), column(1)]);
    xact::at_commit(db, [Change::RunsSettled]);
}
