//! Firing: the runs of schedules that are due become tasks, in one transaction with the schedules'
//! next runs. So each expected time has one task at most, whatever crashes.

use crate::extension::database::Database;
use crate::ops::schedules::runs::{self, Step, bigints};
use crate::pg::datum::{self, BIGINT, BIGINTS, TIMESTAMPTZ, TIMESTAMPTZS};
use crate::pg::spi::{Session, statement};
use crate::pg::time;
use crate::storage::rows::{self, session};
use crate::xact::{self, Change};
use board::{Micros, Wall};
use pgrx::pg_sys::Datum;
use recurrence::decide;
use std::collections::HashSet;

statement!(DUE, "schedules/due", [TIMESTAMPTZ, BIGINT, TIMESTAMPTZ, BIGINT]);
statement!(START, "schedules/start", [TIMESTAMPTZ, TIMESTAMPTZ]);
statement!(STILL_DUE, "schedules/still_due", [BIGINTS, TIMESTAMPTZ]);
statement!(NOTE_MISSED, "schedules/note_missed", [BIGINTS, TIMESTAMPTZS, TIMESTAMPTZS]);

/// A run that is later than this was missed.
const LATE: Micros = Micros::from_secs(60);

/// Until when runs were missed, for a scheduler that fires since some time.
pub fn missed_before(now: Wall, since: Wall) -> Wall {
    since.max(now - LATE)
}

/// A position in the due order: when, and which schedule.
pub type DueKey = (Wall, i64);

/// The schedules that are due from a position on until a time, at most so many; and when the next
/// one is after that.
pub fn read(db: &Database, from: DueKey, until: Wall, most: usize) -> (Vec<DueKey>, Option<Wall>) {
    let from = (from.0, Datum::from(from.1));
    rows::read_due(db, &DUE, from, until, most, |rows, row| datum::number(rows.get(row, 0)))
}

/// Makes the schedules due that run at a start, which was at a time. Returns how many are left,
/// since other transactions have them locked.
pub fn start(db: &Database, at: Wall) -> i64 {
    let now = time::now().wall.max(at);
    let session = session(db);
    let rows = session.run(&START, &[at, now].map(|it| Some(datum::timestamptz(it))));
    let [due, left] = [0, 1].map(|column| datum::number(rows.get(0, column)));
    if due > 0 {
        xact::at_commit(db, [Change::Run(now)]);
    }
    left
}

/// What firing did.
#[derive(Default)]
pub struct Fired {
    /// How many tasks were submitted.
    pub runs: u64,
    /// The schedules that another transaction has locked.
    pub locked: Vec<i64>,
    /// Some runs were missed, and fire later.
    pub missed: bool,
}

/// Fires the next run of each schedule that is due; waits for no schedule's row. Runs before
/// `missed_before` were missed.
pub fn fire(db: &Database, wanted: &[i64], until: Wall, missed_before: Wall) -> Fired {
    let session = session(db);
    let (schedules, inactive) = runs::lock(db, &session, wanted);
    let mut steps = Vec::with_capacity(schedules.len());
    let mut missed = Vec::new();
    for schedule in &schedules {
        pgrx::check_for_interrupts!();
        // Delayed meanwhile, or fired.
        let Some(next) = schedule.next_run.filter(|next| *next <= until) else { continue };
        let decision = decide(&schedule.pending(next), missed_before);
        missed.extend(decision.missed.map(|(from, until)| (schedule.id, from, until)));
        steps.push(Step {
            schedule,
            fire: decision.fire.into_iter().collect(),
            skipped: decision.skipped,
            next_run: decision.next,
        });
    }
    note_missed(&session, &missed);
    let runs = runs::take(db, &session, &steps);
    let mut locked = Vec::new();
    if schedules.len() + inactive.len() < wanted.len() {
        let seen = schedules.iter().map(|it| it.id).chain(inactive);
        let seen: HashSet<i64> = seen.collect();
        let others = wanted.iter().copied().filter(|id| !seen.contains(id));
        let until = Some(datum::timestamptz(until));
        let rows = session.run(&STILL_DUE, &[bigints(others), until]);
        locked.extend((0..rows.len()).map(|row| datum::number(rows.get(row, 0))));
    }
    Fired { runs, locked, missed: !missed.is_empty() }
}

fn note_missed(session: &Session, missed: &[(i64, Wall, Wall)]) {
    if missed.is_empty() {
        return;
    }
    let times = |value: fn(&(i64, Wall, Wall)) -> Wall| {
        let values = missed.iter().map(|it| Some(datum::timestamptz(value(it))));
        Some(datum::array(TIMESTAMPTZS, values))
    };
    let ids = bigints(missed.iter().map(|it| it.0));
    session.run(&NOTE_MISSED, &[ids, times(|it| it.1), times(|it| it.2)]);
}
