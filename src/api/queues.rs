//! `configure_queue`, `reset_queue`, `pause`, `resume`, `critical_only`, `drop_queue` and
//! `release_worker`.

use crate::api::call::Call;
use crate::api::call::declared::*;
use crate::api::validate;
use crate::error::Result;
use crate::ops::drop_queue;
use crate::ops::lease::release_worker;
use crate::ops::queues::configure;
use crate::ops::supply::identity;
use crate::pg::datum;
use crate::pg::named::role;
use crate::storage::privileges::Privileges;
use crate::xact::on_board::current_database;
use pgrx::pg_sys::Datum;

sql_functions!(
    ConfigureQueue => configure_queue,
    ResetQueue => reset_queue,
    Pause => pause,
    Resume => resume,
    CriticalOnly => critical_only,
    DropQueue => drop_queue,
    ReleaseWorker => release_worker,
);

/// A setting of a queue: its name, and a check that refuses values it cannot have.
type Setting = (&'static str, fn(&str, Datum) -> Result<()>);

/// The arguments of `configure_queue` behind the queue, in their order.
const SETTINGS: [Setting; 12] = [
    ("timeout", longer_than_zero),
    ("retention", zero_or_longer),
    ("max_running", at_least_one),
    ("max_per_second", greater_than_zero),
    ("aging", longer_than_zero),
    ("keep_finished", any),
    ("critical", any),
    ("max_tries", max_tries),
    ("retry_interval", zero_or_longer),
    ("retry_jitter", zero_or_longer),
    ("max_ready", max_ready),
    ("max_running_per_group", at_least_one),
];

const _: () = {
    let declared = declared!(signature of ConfigureQueue);
    assert!(declared.len() == SETTINGS.len() + 1, "SETTINGS and configure_queue differ");
    let mut at = 0;
    while at < SETTINGS.len() {
        let is_same = is_same(SETTINGS[at].0, declared[at + 1].0);
        assert!(is_same, "SETTINGS and the arguments of configure_queue differ");
        at += 1;
    }
};

fn any(_: &str, _: Datum) -> Result<()> {
    Ok(())
}

fn longer_than_zero(name: &str, interval: Datum) -> Result<()> {
    let length = datum::interval_length(Some(interval));
    validate::longer_than_zero(name, (interval, length)).map(|_| ())
}

fn zero_or_longer(name: &str, interval: Datum) -> Result<()> {
    let length = datum::interval_length(Some(interval));
    validate::zero_or_longer(name, (interval, length)).map(|_| ())
}

fn at_least_one(name: &str, number: Datum) -> Result<()> {
    validate::at_least_one(name, i64::from(number.value() as i32)).map(|_| ())
}

fn max_ready(name: &str, number: Datum) -> Result<()> {
    validate::at_least_one(name, number.value() as i64).map(|_| ())
}

fn greater_than_zero(name: &str, number: Datum) -> Result<()> {
    let number = f64::from_bits(number.value() as u64);
    validate::greater_than_zero(name, number).map(|_| ())
}

fn max_tries(_: &str, number: Datum) -> Result<()> {
    validate::max_tries(i64::from(number.value() as i32)).map(|_| ())
}

/// Takes the queue and a value for each of `SETTINGS`. Changes the settings that are given.
fn configure_queue(call: &mut Call, args: ConfigureQueue) -> Result<Option<Datum>> {
    let queue = validate::queue(args.queue.required()?)?;
    call.authorize(&queue)?;
    let [_, settings @ ..] = declared!(values of args: ConfigureQueue);
    for ((name, check), value) in SETTINGS.iter().zip(settings) {
        value.map_or(Ok(()), |value| check(name, value))?;
    }
    configure::configure(&current_database(), &queue, &settings)?;
    Ok(None)
}

/// Takes the queue and the name of one of `SETTINGS`. Takes that back to its default.
fn reset_queue(call: &mut Call, args: ResetQueue) -> Result<Option<Datum>> {
    let queue = validate::queue(args.queue.required()?)?;
    call.authorize(&queue)?;
    let word = args.setting.required()?;
    let setting = SETTINGS.iter().find(|(name, _)| name.as_bytes() == word);
    let (name, _) = setting.ok_or_else(|| {
        let known: Vec<&str> = SETTINGS.iter().map(|(name, _)| *name).collect();
        validate::unknown("setting", &word, &known.join(", "))
    })?;
    configure::reset(&current_database(), &queue, name)?;
    Ok(None)
}

/// Takes the queue. Makes it hand out nothing.
fn pause(call: &mut Call, args: Pause) -> Result<Option<Datum>> {
    let queue = validate::queue(args.queue.required()?)?;
    call.authorize(&queue)?;
    configure::set_paused(&current_database(), &queue, true)?;
    Ok(None)
}

/// Takes the queue. Ends its pause.
fn resume(call: &mut Call, args: Resume) -> Result<Option<Datum>> {
    let queue = validate::queue(args.queue.required()?)?;
    call.authorize(&queue)?;
    configure::set_paused(&current_database(), &queue, false)?;
    Ok(None)
}

/// Takes whether only critical queues hand out tasks from now on.
fn critical_only(_: &mut Call, args: CriticalOnly) -> Result<Option<Datum>> {
    identity::critical_only(&current_database(), args.enabled.required()?);
    Ok(None)
}

/// Takes the queue. Drops its tasks, settings, grants and counts. Returns false if there is no such
/// queue.
fn drop_queue(call: &mut Call, args: DropQueue) -> Result<Option<Datum>> {
    let queue = validate::queue(args.queue.required()?)?;
    call.authorize_with(Privileges::CANCEL, &queue)?;
    Ok(Some(Datum::from(drop_queue::drop_queue(&current_database(), role::current(), &queue)?)))
}

/// Takes the worker. Gives how many leases of it were ended.
fn release_worker(_: &mut Call, args: ReleaseWorker) -> Result<Option<Datum>> {
    let worker = validate::worker(args.worker.required()?)?;
    let released = release_worker::release(&current_database(), &worker);
    Ok(Some(Datum::from(released as i32)))
}
