//! What the owner of a schedule chooses.

use crate::error::{self, Result};
use crate::guc;
use crate::ops::schedules::timing::Timing;
use crate::pg::datum::{self, BIGINT, INTEGER, INTERVAL, JSONB, Kind, TEXT, TIMESTAMPTZ};
use board::{Backoff, Micros};
use pgrx::pg_sys::Datum;
use recurrence::Misfire;

/// The columns that a caller gives, each with the name of its argument.
pub const COLUMNS: [(&str, Kind); 15] = [
    ("schedule", TEXT),
    ("queue", TEXT),
    ("spec", JSONB),
    ("action", TEXT),
    ("priority", BIGINT),
    ("time_zone", TEXT),
    ("misfire", TEXT),
    ("overlap", TEXT),
    ("max_tries", INTEGER),
    ("retry_interval", INTERVAL),
    ("retry_jitter", INTERVAL),
    ("timeout", INTERVAL),
    ("starts_at", TIMESTAMPTZ),
    ("ends_at", TIMESTAMPTZ),
    ("meta", JSONB),
];

/// The columns of the tasks that workers do. A schedule of SQL commands has them fixed.
pub const OF_TASKS: [usize; 4] = [QUEUE, SPEC, ACTION, PRIORITY];
pub const SCHEDULE: usize = 0;
pub const QUEUE: usize = 1;
pub const SPEC: usize = 2;
pub const ACTION: usize = 3;
pub const PRIORITY: usize = 4;
pub const TIME_ZONE: usize = 5;
pub const MISFIRE: usize = 6;
pub const OVERLAP: usize = 7;
pub const MAX_TRIES: usize = 8;
const RETRY_INTERVAL: usize = 9;
const RETRY_JITTER: usize = 10;
const STARTS_AT: usize = 12;
const ENDS_AT: usize = 13;

/// The values of `COLUMNS`, each checked alone.
pub type Values = [Option<Datum>; COLUMNS.len()];

/// Whether two definitions have the same runs, but for where they end.
pub fn have_same_runs(one: &Values, other: &Values) -> bool {
    let texts =
        [SCHEDULE, TIME_ZONE].into_iter().all(|at| datum::text(one[at]) == datum::text(other[at]));
    texts && one[STARTS_AT].map(datum::wall) == other[STARTS_AT].map(datum::wall)
}

/// Whether missed runs fire later.
pub fn catches_up(values: &Values) -> bool {
    Misfire::parse(&datum::text(values[MISFIRE])) == Some(Misfire::All)
}

/// When a definition runs.
pub fn timing(values: &Values) -> Result<Timing> {
    let [starts_at, ends_at] = [STARTS_AT, ENDS_AT].map(|at| values[at].map(datum::wall));
    if let (Some(starts_at), Some(ends_at)) = (starts_at, ends_at)
        && ends_at < starts_at
    {
        return Err(error::ends_before_it_starts());
    }
    Timing::read(
        &datum::text(values[SCHEDULE]),
        &datum::text(values[TIME_ZONE]),
        starts_at,
        ends_at,
    )
}

/// Refuses a retry policy that does not fit between two runs. `given`: what the call gives, of
/// which something must be about retries or about when the schedule runs.
pub fn check_retries(values: &Values, timing: &Timing, given: &Values) -> Result<()> {
    let [interval, jitter] = [RETRY_INTERVAL, RETRY_JITTER].map(|at| values[at]);
    if given[MAX_TRIES].is_some_and(|tries| tries.value() as i32 == 0) {
        return Err(error::tries_without_limit());
    }
    let is_asked = [SCHEDULE, MAX_TRIES, RETRY_INTERVAL, RETRY_JITTER];
    if interval.is_none() && jitter.is_none() || is_asked.iter().all(|at| given[*at].is_none()) {
        return Ok(());
    }
    // 0: no limit.
    let Some(tries) = values[MAX_TRIES].filter(|tries| tries.value() as i32 != 0) else {
        let argument = if interval.is_some() { "retry_interval" } else { "retry_jitter" };
        return Err(error::retries_without_end(argument));
    };
    let [interval, jitter] = [interval, jitter].map(datum::interval_length);
    let retries = (tries.value() as i32).saturating_sub(1).max(0) as u32;
    let backoff = Backoff { interval, jitter, cap: guc::retry_max_interval() };
    let worst = backoff.worst_case(retries).unwrap_or(Micros::MAX);
    let shortest = timing.recurrence.shortest();
    if worst >= shortest { Err(error::retries_too_long(worst, shortest)) } else { Ok(()) }
}
