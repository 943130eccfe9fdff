//! The runs of schedules, submitted: one task each, whose key tells the schedule and the expected
//! time.

use crate::extension::database::Database;
use crate::ops::schedules::owner;
use crate::ops::schedules::timing::Timing;
use crate::ops::submit::created;
use crate::pg::datum::{self, BIGINTS, TEXTS, TIMESTAMPTZS, UUIDS};
use crate::pg::named::database::Named;
use crate::pg::spi::{Rows, Session, statement};
use crate::pg::time;
use crate::pg::uuid::{Uuid, group_hash};
use crate::storage::rows::{ids, ids_in, rank};
use crate::xact::{self, Change, Offer};
use crate::{error, error::Error, guc};
use board::{Event, Micros, Wall};
use pgrx::PgLogLevel;
use pgrx::pg_sys::Datum;
use recurrence::{Misfire, Overlap, Pending};
use std::collections::HashMap;
use std::rc::Rc;

statement!(LOCK, "schedules/lock", [BIGINTS]);
statement!(INSERT_RUNS, "schedules/insert_runs", [UUIDS, BIGINTS, TEXTS, TIMESTAMPTZS, TEXTS]);
statement!(
    ADVANCE,
    "schedules/advance",
    [BIGINTS, TIMESTAMPTZS, TIMESTAMPTZS, UUIDS, BIGINTS, BIGINTS]
);
statement!(DEACTIVATE, "schedules/deactivate", [BIGINTS]);
statement!(FORGET_MISSED, "schedules/forget_missed", [BIGINTS]);

/// A schedule that is locked, to be fired.
pub struct Schedule {
    pub id: i64,
    pub name: Vec<u8>,
    timing: Timing,
    misfire: Misfire,
    pub overlap: Overlap,
    pub next_run: Option<Wall>,
    /// The last run is unfinished. Told only of a schedule that minds.
    unfinished: bool,
    queue: Rc<[u8]>,
    action: Rc<[u8]>,
    priority: i64,
    timeout: Micros,
    group: Option<Vec<u8>>,
}

impl Schedule {
    /// The facts about a run by which the policies decide.
    pub fn pending(&self, next: Wall) -> Pending<'_> {
        Pending {
            series: self.timing.series(),
            next,
            misfire: self.misfire,
            overlap: self.overlap,
            unfinished: self.unfinished,
        }
    }
}

/// Locks active schedules, waiting for no transaction that has one; by next run. One that cannot
/// fire any more becomes inactive. Returns also the ids of these.
pub fn lock(db: &Database, session: &Session, wanted: &[i64]) -> (Vec<Schedule>, Vec<i64>) {
    let rows = session.run(&LOCK, &[bigints(wanted.iter().copied())]);
    let (mut schedules, mut inactive) = (Vec::with_capacity(rows.len()), Vec::new());
    for row in 0..rows.len() {
        let id = datum::number(rows.get(row, 0));
        match schedule(db, &rows, row) {
            Ok(schedule) => schedules.push(schedule),
            Err(why) => {
                why.report(PgLogLevel::WARNING);
                inactive.push(id);
            }
        }
    }
    if !inactive.is_empty() {
        session.run(&DEACTIVATE, &[bigints(inactive.iter().copied())]);
        session.run(&FORGET_MISSED, &[bigints(inactive.iter().copied())]);
    }
    schedules.sort_unstable_by_key(|it| (it.next_run, it.id));
    (schedules, inactive)
}

/// A schedule of a row; else why it cannot fire.
fn schedule(db: &Database, rows: &Rows, row: usize) -> Result<Schedule, Error> {
    let value = |column| rows.get(row, column);
    let text = |column| datum::text(value(column));
    let time = |column| value(column).map(datum::wall);
    let name = text(1);
    let inactive = |why: &str| error::schedule_inactive(&name, why);
    let owner = datum::oid(value(2));
    let queue = text(10);
    let is_sql = datum::number(value(15)) != 0;
    let named =
        value(17).map(|name| Named { name: datum::text(Some(name)), oid: datum::oid(value(18)) });
    owner::may_fire(db, owner, &queue, is_sql, named.as_ref()).map_err(|why| inactive(&why))?;
    let timing = Timing::read(&text(3), &text(4), time(7), time(8));
    let timing = timing.map_err(|why| inactive(&why.sentence()))?;
    let (misfire, overlap) = (Misfire::parse(&text(5)), Overlap::parse(&text(6)));
    let (Some(misfire), Some(overlap)) = (misfire, overlap) else {
        return Err(inactive("Its policy is not known."));
    };
    Ok(Schedule {
        id: datum::number(value(0)),
        timing,
        misfire,
        overlap,
        next_run: time(9),
        queue: queue.into(),
        action: text(11).into(),
        priority: datum::number(value(12)),
        timeout: datum::interval_length(value(13)),
        unfinished: datum::number(value(14)) != 0,
        group: datum::optional_text(value(16)),
        name,
    })
}

/// What becomes of a locked schedule.
pub struct Step<'s> {
    pub schedule: &'s Schedule,
    /// The runs that fire, in order.
    pub fire: Vec<Wall>,
    pub skipped: u64,
    pub next_run: Option<Wall>,
}

/// Submits runs, and notes them in their schedules; how many fired. A run whose key is another
/// task's is skipped.
pub fn take(db: &Database, session: &Session, steps: &[Step]) -> u64 {
    if steps.is_empty() {
        return 0;
    }
    // A microsecond apart, so that the order of the runs is the order of age.
    let count = steps.iter().map(|step| step.fire.len()).sum();
    let (mut created, _) = created::take(db, time::now().wall, count);
    let mut runs = Vec::new();
    for step in steps {
        for at in &step.fire {
            runs.push((
                Uuid::timed(time::unix_millis(created), guc::shard()),
                step.schedule,
                *at,
                created,
            ));
            created = created + Micros(1);
        }
    }
    let inserted = if runs.is_empty() { HashMap::new() } else { insert(session, &runs) };
    for (id, schedule, _, created) in runs.iter().filter(|(id, ..)| inserted.contains_key(id)) {
        let behind = inserted[id];
        let Schedule { queue, action, priority, timeout, .. } = *schedule;
        let rank = rank(*id, *created, *priority);
        let (queue, action, timeout) = (queue.clone(), action.clone(), *timeout);
        let group = schedule.group.as_deref().map(group_hash);
        xact::count(db, &queue, |counts| {
            counts.add_tasks(true, 1);
            counts.events.note(Event::Submitted, 1);
        });
        let offer =
            Offer { queue, action, group, rank, timeout, aged_since: None, row: None, behind };
        xact::at_commit(db, [Change::OfferRun(offer)]);
    }
    for (_, schedule, at, _) in runs.iter().filter(|(id, ..)| !inserted.contains_key(id)) {
        error::log_skipped_run(&schedule.name, &schedule.queue, &key(&schedule.name, *at));
    }
    advance(session, steps, &runs, &inserted);
    let next = steps.iter().filter_map(|step| step.next_run).min();
    xact::at_commit(db, next.map(Change::Run));
    inserted.len() as u64
}

/// A task to submit: its id, whose run it is, the expected time, when it was submitted.
type Run<'s> = (Uuid, &'s Schedule, Wall, Wall);

/// Inserts the tasks of runs: those inserted, and whether each is behind others.
fn insert(session: &Session, runs: &[Run]) -> HashMap<Uuid, bool> {
    // The keys are taken in their order, as by all who submit.
    let mut named: Vec<(Vec<u8>, &Run)> =
        runs.iter().map(|run| (key(&run.1.name, run.2), run)).collect();
    named.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    let created = named.iter().map(|(_, run)| Some(datum::timestamptz(run.3)));
    let groups = named.iter().map(|(_, run)| run.1.group.as_deref().map(datum::varlena));
    let rows = session.run(
        &INSERT_RUNS,
        &[
            ids(named.iter().map(|(_, run)| run.0)),
            bigints(named.iter().map(|(_, run)| run.1.id)),
            Some(datum::array(TEXTS, named.iter().map(|(key, _)| Some(datum::varlena(key))))),
            Some(datum::array(TIMESTAMPTZS, created)),
            Some(datum::array(TEXTS, groups)),
        ],
    );
    ids_in(&rows).zip((0..rows.len()).map(|row| datum::number(rows.get(row, 1)) != 0)).collect()
}

fn advance(session: &Session, steps: &[Step], runs: &[Run], inserted: &HashMap<Uuid, bool>) {
    let mut left = runs;
    let fired: Vec<(Option<(Uuid, Wall)>, u64)> = (steps.iter())
        .map(|step| {
            let own;
            (own, left) = left.split_at(step.fire.len());
            let mut fired = own.iter().filter(|(id, ..)| inserted.contains_key(id));
            let count = fired.clone().count() as u64;
            (fired.next_back().map(|(id, _, at, _)| (*id, *at)), count)
        })
        .collect();
    let last = |it: &(Option<(Uuid, Wall)>, u64)| it.0;
    session.run(
        &ADVANCE,
        &[
            bigints(steps.iter().map(|step| step.schedule.id)),
            times(steps.iter().map(|step| step.next_run)),
            times(fired.iter().map(|it| last(it).map(|(_, at)| at))),
            Some(datum::array(UUIDS, fired.iter().map(|it| last(it).map(|(id, _)| id.datum())))),
            bigints(fired.iter().map(|(_, count)| *count as i64)),
            bigints(
                steps.iter().zip(&fired).map(|(step, (_, count))| {
                    (step.skipped + step.fire.len() as u64 - count) as i64
                }),
            ),
        ],
    );
}

/// The key of a run: the schedule, and the expected time in UTC, as in
/// `nightly@2026-11-21T09:00:00Z`.
fn key(name: &[u8], at: Wall) -> Vec<u8> {
    let mut key = name.to_vec();
    key.extend_from_slice(format!("@{}", time::iso8601(at)).as_bytes());
    key
}

pub fn bigints(values: impl Iterator<Item = i64>) -> Option<Datum> {
    Some(datum::array(BIGINTS, values.map(|it| Some(Datum::from(it)))))
}

fn times(values: impl Iterator<Item = Option<Wall>>) -> Option<Datum> {
    Some(datum::array(TIMESTAMPTZS, values.map(|it| it.map(datum::timestamptz))))
}
