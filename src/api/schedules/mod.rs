//! `schedule`, `unschedule`, `alter_schedule`, `next_runs` and `coming_runs`.

mod cron;
mod cron_table;
mod sql;

use crate::api::fcinfo::{Call, sql_functions};
use crate::api::validate;
use crate::error::{self, Result};
use crate::ops::query::unserved;
use crate::ops::schedules::catch_up::{self, catch_up};
use crate::ops::schedules::definition::{COLUMNS, Values};
use crate::ops::schedules::fire::{self, fire};
use crate::ops::schedules::register::{self, Existing, SqlChange, Which};
use crate::ops::schedules::timing::Timing;
use crate::ops::schedules::upcoming;
use crate::pg::datum;
use crate::pg::named::role;
use crate::pg::named::zone::TimeZone;
use crate::shmem::on_board::current_database;
use crate::storage::privileges::Privileges;
use crate::storage::rows::ROWS_PER_TX;
use board::Wall;
use pgrx::pg_sys::Datum;
use recurrence::{Misfire, Overlap};

sql_functions!(
    schedule as "schedule_0_2",
    unschedule,
    alter_schedule as "alter_schedule_0_2",
    next_runs,
    coming_runs,
    fire_schedules
);

/// The longest name of a schedule and the longest expression, in bytes.
const NAME_MAX: usize = 128;
const EXPRESSION_MAX: usize = 1_000;

/// How many times `next_runs` tells at most.
const RUNS_MAX: i64 = 100_000;

/// `schedule(name, schedule, queue, spec, …) → bigint`
fn schedule(call: &mut Call) -> Result<Option<Datum>> {
    call.require_writable("scylla.schedule()")?;
    let name = name_of(call)?;
    let mut values = values(call, 1)?;
    for (at, argument) in NOT_NULL {
        values[at].ok_or_else(|| error::missing(argument))?;
    }
    values[TIME_ZONE].get_or_insert_with(|| datum::varlena(b"UTC"));
    call.permit(&datum::text(values[QUEUE]))?;
    let may_change = |found: &Existing| permit_change(call, &name, found);
    let (db, owner) = (current_database(), role::current());
    let id = register::register(&db, &name, &values, owner, [None; 3], may_change)?;
    unserved::warn_of(&db, &datum::text(values[QUEUE]));
    Ok(Some(Datum::from(id)))
}

/// `unschedule(name) → boolean`
fn unschedule(call: &mut Call) -> Result<Option<Datum>> {
    call.require_writable("scylla.unschedule()")?;
    let name = name_of(call)?;
    let may_change = |found: &Existing| permit_change(call, &name, found);
    Ok(Some(Datum::from(register::unschedule(
        &current_database(),
        Which::Name(&name),
        may_change,
    )?)))
}

/// `alter_schedule(name, active, schedule, queue, spec, …)`
fn alter_schedule(call: &mut Call) -> Result<Option<Datum>> {
    call.require_writable("scylla.alter_schedule()")?;
    let (name, values) = (name_of(call)?, values(call, 2)?);
    let active = call.datum(1).map(|active| active.value() != 0);
    let may_change = |found: &Existing| {
        permit_change(call, &name, found)?;
        call.again()?.permit(&datum::text(values[QUEUE].or(found.queue)))
    };
    let (db, which, same) = (current_database(), Which::Name(&name), SqlChange::default());
    let altered = register::alter(&db, which, active, &values, same, may_change)?;
    altered.ok_or_else(|| error::no_such_schedule(&name))?;
    unserved::warn_of(&db, &datum::text(values[QUEUE]));
    Ok(None)
}

/// Refuses to change a schedule of another role, but for those who manage its queue. It is locked,
/// and what holds now decides, however long the call waited for that.
fn permit_change(call: &Call, name: &[u8], found: &Existing) -> Result<()> {
    let call = call.again()?;
    let may = call.acts_for(found.owner) || call.may(Privileges::MANAGE, &datum::text(found.queue));
    if may { Ok(()) } else { Err(error::denied_on_schedule(name)) }
}

/// `next_runs(schedule, count, time_zone, after) → timestamptz …`
fn next_runs(call: &mut Call) -> Result<Option<Datum>> {
    let schedule = expression(&call.text(0, "schedule")?)?;
    let count = call.int(1).ok_or_else(|| error::missing("count"))?;
    if !(1..=RUNS_MAX).contains(&count) {
        return Err(error::out_of_range("count", "between 1 and 100000"));
    }
    let time_zone = call.optional_text(2).map_or(Ok("UTC".to_owned()), |it| zone(&it))?;
    let after = validate::time("after", call.time(3, "after")?)?;
    let mut sink = call.rows()?;
    let timing = Timing::read(&schedule, time_zone.as_bytes(), None, None)?;
    for at in upcoming::next_runs(&timing, after, count as usize) {
        sink.add([Some(datum::timestamptz(at))]);
    }
    Ok(None)
}

/// `coming_runs(after, until) → (name, run_at, queue, action) …`
fn coming_runs(call: &mut Call) -> Result<Option<Datum>> {
    let after = validate::time("after", call.time(0, "after")?)?;
    let until = validate::time("until", call.time(1, "until")?)?;
    let mut sink = call.rows()?;
    let is_visible = |queue: &[u8]| call.may(Privileges::LOOK, queue);
    upcoming::coming_runs(&current_database(), (after, until), is_visible, |run| sink.add(run));
    Ok(None)
}

/// `_fire_schedules(now, since) → bigint`
fn fire_schedules(call: &mut Call) -> Result<Option<Datum>> {
    call.require_writable("scylla._fire_schedules()")?;
    let now = validate::time("now", call.time(0, "now")?)?;
    let since = validate::time("since", call.time(1, "since")?)?;
    let (db, missed_before) = (current_database(), fire::missed_before(now, since));
    let mut runs = 0;
    loop {
        pgrx::check_for_interrupts!();
        let (due, _) = fire::read(&db, (Wall::MIN, 0), now, ROWS_PER_TX);
        let ids: Vec<i64> = due.iter().map(|(_, id)| *id).collect();
        let fired = fire(&db, &ids, now, missed_before);
        runs += fired.runs;
        if fired.locked.len() == ids.len() {
            break;
        }
    }
    let (mut after, mut before) = (catch_up::FIRST, runs);
    loop {
        pgrx::check_for_interrupts!();
        let (caught_up, last) = catch_up(&db, after);
        runs += caught_up;
        match last {
            Some(last) => after = last,
            // Nothing was left in a whole round.
            None if runs == before => return Ok(Some(Datum::from(runs as i64))),
            None => (after, before) = (catch_up::FIRST, runs),
        }
    }
}

/// Where the columns of a definition are that a schedule must have.
const NOT_NULL: [(usize, &str); 7] = [
    (0, "schedule"),
    (1, "queue"),
    (2, "spec"),
    (3, "action"),
    (4, "priority"),
    (6, "misfire"),
    (7, "overlap"),
];
const QUEUE: usize = 1;
const TIME_ZONE: usize = 5;

fn name_of(call: &Call) -> Result<Vec<u8>> {
    validate::name(call.text(0, "name")?, "name", 1, NAME_MAX)
}

/// The values of a definition, from an argument on, each checked alone.
fn values(call: &Call, first: usize) -> Result<Values> {
    let mut values = [None; COLUMNS.len()];
    for (at, value) in values.iter_mut().enumerate() {
        *value = call.datum(first + at).map(|given| check(at, given)).transpose()?;
    }
    Ok(values)
}

fn check(at: usize, value: Datum) -> Result<Datum> {
    let text = || datum::text(Some(value));
    let not_negative = |name| {
        validate::zero_or_longer(name, (value, datum::interval_length(Some(value)))).map(|_| ())
    };
    match at {
        0 => _ = expression(&text())?,
        1 => _ = validate::open_queue(text())?,
        2 => _ = validate::spec(value)?,
        3 => _ = validate::action(text())?,
        4 => _ = validate::priority(value.value() as i64)?,
        TIME_ZONE => return Ok(datum::varlena(zone(&text())?.as_bytes())),
        6 if Misfire::parse(&text()).is_none() => {
            return Err(validate::unknown("misfire", &text(), r#""skip", "once" or "all""#));
        }
        7 if Overlap::parse(&text()).is_none() => {
            return Err(validate::unknown("overlap", &text(), r#""allow" or "skip""#));
        }
        8 => _ = validate::max_tries(i64::from(value.value() as i32))?,
        9 => not_negative("retry_interval")?,
        10 => not_negative("retry_jitter")?,
        11 => _ = validate::timeout((value, datum::interval_length(Some(value))))?,
        12 => _ = validate::time("starts_at", datum::wall(value))?,
        13 => _ = validate::time("ends_at", datum::wall(value))?,
        14 => _ = validate::meta(value)?,
        _ => {}
    }
    Ok(value)
}

fn expression(text: &[u8]) -> Result<Vec<u8>> {
    validate::name(text.to_vec(), "schedule", 1, EXPRESSION_MAX)
}

/// The name of a time zone, as the time zone database spells it.
fn zone(text: &[u8]) -> Result<String> {
    let name = validate::name(text.to_vec(), "time_zone", 1, NAME_MAX)?;
    let name = String::from_utf8_lossy(&name);
    TimeZone::find(&name).ok_or_else(|| error::unknown_zone(&name))
}
