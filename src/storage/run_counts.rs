//! Counting the runs of schedules as they settle. The counts are written to a table of their own,
//! and the scheduler adds them to the schedules later, so nothing waits for a schedule's row. A
//! task that is no run costs nothing.

use crate::extension::database::Database;
use crate::pg::datum::{self, BIGINTS, INTEGERS};
use crate::pg::spi::{Session, statement};
use crate::storage::ending::Ended;
use crate::xact::{self, Change};
use board::{ABORTED, COMPLETED};
use pgrx::pg_sys::Datum;

statement!(COUNT_RUNS, "schedules/count_runs", [BIGINTS, INTEGERS, INTEGERS]);

/// Notes the runs among tasks that have settled.
pub fn note(db: &Database, session: &Session, ended: &[Ended]) {
    let count = |it: &Ended| match it.status {
        COMPLETED => Some((it.schedule?, [1, 0])),
        ABORTED => Some((it.schedule?, [0, 1])),
        _ => None,
    };
    let mut counts: Vec<(i64, [i32; 2])> = ended.iter().filter_map(count).collect();
    if counts.is_empty() {
        return;
    }
    counts.sort_unstable_by_key(|(schedule, _)| *schedule);
    counts.dedup_by(|next, sum| {
        let is_same = next.0 == sum.0;
        if is_same {
            (0..2).for_each(|at| sum.1[at] += next.1[at]);
        }
        is_same
    });
    let column = |at: usize| {
        let values = counts.iter().map(|(_, it)| Some(Datum::from(it[at])));
        Some(datum::array(INTEGERS, values))
    };
    let schedules = datum::array(BIGINTS, counts.iter().map(|(it, _)| Some(Datum::from(*it))));
    session.run(&COUNT_RUNS, &[Some(schedules), column(0), column(1)]);
    xact::at_commit(db, [Change::RunsSettled]);
}
