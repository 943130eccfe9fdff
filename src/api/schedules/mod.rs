//! `schedule`, `unschedule`, `alter_schedule`, `next_runs` and `coming_runs`.

mod cron;
mod cron_table;
mod sql;

use crate::api::call::Call;
use crate::api::call::argument::{Argument, Text};
use crate::api::call::declared::*;
use crate::api::validate;
use crate::error::{self, Result};
use crate::ops::query::unserved;
use crate::ops::schedules::catch_up::{self, catch_up};
use crate::ops::schedules::definition::{
    ACTION, COLUMNS, MISFIRE, OVERLAP, PRIORITY, QUEUE, SCHEDULE, SPEC, TIME_ZONE, Values,
};
use crate::ops::schedules::fire::{self, fire};
use crate::ops::schedules::register::{self, Existing, SqlChange, Which};
use crate::ops::schedules::timing::Timing;
use crate::ops::schedules::upcoming;
use crate::pg::datum;
use crate::pg::named::role;
use crate::pg::named::zone::TimeZone;
use crate::storage::privileges::Privileges;
use crate::storage::rows::ROWS_PER_TX;
use crate::xact::on_board::current_database;
use board::Wall;
use pgrx::pg_sys::Datum;
use recurrence::{Misfire, Overlap};

sql_functions!(
    Schedule => schedule,
    Unschedule => unschedule,
    AlterSchedule => alter_schedule,
    NextRuns => next_runs,
    ComingRuns => coming_runs,
    FireSchedules => fire_schedules,
);

/// The longest name of a schedule and the longest expression, in bytes.
const NAME_MAX: usize = 128;
const EXPRESSION_MAX: usize = 1_000;

/// How many times `next_runs` tells at most.
const RUNS_MAX: i64 = 100_000;

fn schedule(call: &mut Call, args: Schedule) -> Result<Option<Datum>> {
    let name = name_of(&args.name)?;
    let mut values = values(&declared!(each of args: Schedule))?;
    require(&values, &[SCHEDULE, QUEUE, SPEC, ACTION, PRIORITY, MISFIRE, OVERLAP])?;
    values[TIME_ZONE].get_or_insert_with(|| datum::varlena(b"UTC"));
    call.authorize(&datum::text(values[QUEUE]))?;
    let may_change = |found: &Existing| authorize_change(call, &name, found);
    let (db, owner) = (current_database(), role::current());
    let id = register::register(&db, &name, &values, owner, [None; 3], may_change)?;
    unserved::warn_of(&db, &datum::text(values[QUEUE]));
    Ok(Some(Datum::from(id)))
}

fn unschedule(call: &mut Call, args: Unschedule) -> Result<Option<Datum>> {
    let name = name_of(&args.name)?;
    let may_change = |found: &Existing| authorize_change(call, &name, found);
    Ok(Some(Datum::from(register::unschedule(
        &current_database(),
        Which::Name(&name),
        may_change,
    )?)))
}

fn alter_schedule(call: &mut Call, args: AlterSchedule) -> Result<Option<Datum>> {
    let name = name_of(&args.name)?;
    let values = values(&declared!(each of args: AlterSchedule))?;
    let active = args.active.optional();
    let may_change = |found: &Existing| {
        authorize_change(call, &name, found)?;
        call.again()?.authorize(&datum::text(values[QUEUE].or(found.queue)))
    };
    let (db, which, same) = (current_database(), Which::Name(&name), SqlChange::default());
    let altered = register::alter(&db, which, active, &values, same, may_change)?;
    altered.ok_or_else(|| error::no_such_schedule(&name))?;
    unserved::warn_of(&db, &datum::text(values[QUEUE]));
    Ok(None)
}

/// Refuses to change a schedule of another role, but for those who manage its queue. It is locked,
/// and what holds now decides, however long the call waited for that.
fn authorize_change(call: &Call, name: &[u8], found: &Existing) -> Result<()> {
    let call = call.again()?;
    let queue = datum::text(found.queue);
    if call.acts_for(found.owner) || call.may(Privileges::MANAGE, &queue) {
        return Ok(());
    }
    let visible = call.may(Privileges::LOOK, &queue).then_some(&*queue);
    Err(error::denied_on_schedule(call.role(), name, visible))
}

fn next_runs(call: &mut Call, args: NextRuns) -> Result<Option<Datum>> {
    let schedule = expression(&args.schedule.required()?)?;
    let count = args.count.required()?;
    if !(1..=RUNS_MAX).contains(&count) {
        return Err(error::out_of_range("count", "between 1 and 100000"));
    }
    let time_zone = args.time_zone.optional().map_or(Ok("UTC".to_owned()), |it| zone(&it))?;
    let after = validate::time("after", args.after.required()?)?;
    let mut sink = call.rows()?;
    let timing = Timing::read(&schedule, time_zone.as_bytes(), None, None)?;
    for at in upcoming::next_runs(&timing, after, count as usize) {
        sink.add([Some(datum::timestamptz(at))]);
    }
    Ok(None)
}

fn coming_runs(call: &mut Call, args: ComingRuns) -> Result<Option<Datum>> {
    let after = validate::time("after", args.after.required()?)?;
    let until = validate::time("until", args.until.required()?)?;
    let mut sink = call.rows()?;
    let is_visible = |queue: &[u8]| call.may(Privileges::LOOK, queue);
    upcoming::coming_runs(&current_database(), (after, until), is_visible, |run| sink.add(run));
    Ok(None)
}

fn fire_schedules(_: &mut Call, args: FireSchedules) -> Result<Option<Datum>> {
    let now = validate::time("now", args.now.required()?)?;
    let since = validate::time("since", args.since.required()?)?;
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

fn name_of(name: &Argument<Text>) -> Result<Vec<u8>> {
    validate::name(name.required()?, name.name, 1, NAME_MAX)
}

/// The values of a definition among the arguments of a call, each checked alone.
fn values(arguments: &[(&str, Option<Datum>)]) -> Result<Values> {
    let mut values = [None; COLUMNS.len()];
    for (value, (column, _)) in values.iter_mut().zip(COLUMNS) {
        let given = arguments.iter().find(|(name, _)| *name == column).and_then(|it| it.1);
        *value = given.map(|given| check(column, given)).transpose()?;
    }
    Ok(values)
}

/// Refuses a definition without one of these values.
fn require(values: &Values, columns: &[usize]) -> Result<()> {
    match columns.iter().find(|at| values[**at].is_none()) {
        Some(at) => Err(error::missing(COLUMNS[*at].0)),
        None => Ok(()),
    }
}

fn check(column: &str, value: Datum) -> Result<Datum> {
    let text = || datum::text(Some(value));
    let interval = || (value, datum::interval_length(Some(value)));
    match column {
        "schedule" => _ = expression(&text())?,
        "queue" => _ = validate::open_queue(text())?,
        "spec" => _ = validate::spec(value)?,
        "action" => _ = validate::open_action(text())?,
        "priority" => _ = validate::priority(value.value() as i64)?,
        "time_zone" => return Ok(datum::varlena(zone(&text())?.as_bytes())),
        "misfire" if Misfire::parse(&text()).is_none() => {
            return Err(validate::unknown(column, &text(), r#""skip", "once" or "all""#));
        }
        "overlap" if Overlap::parse(&text()).is_none() => {
            return Err(validate::unknown(column, &text(), r#""allow" or "skip""#));
        }
        "max_tries" => _ = validate::max_tries(i64::from(value.value() as i32))?,
        "retry_interval" | "retry_jitter" => _ = validate::zero_or_longer(column, interval())?,
        "timeout" => _ = validate::timeout(interval())?,
        "starts_at" | "ends_at" => _ = validate::time(column, datum::wall(value))?,
        "meta" => _ = validate::meta(value)?,
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
