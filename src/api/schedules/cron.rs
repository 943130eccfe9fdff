//! The functions of the schema `cron`, and those that make and drop it.

use crate::api::call::Call;
use crate::api::call::declared::*;
use crate::api::schedules::check;
use crate::api::schedules::sql::{checked, fix_columns};
use crate::error::{self, Result};
use crate::ops::query::unserved;
use crate::ops::schedules::cron::{self, Foreign};
use crate::ops::schedules::definition::{
    COLUMNS, MAX_TRIES, MISFIRE, OVERLAP, SCHEDULE, TIME_ZONE, Values,
};
use crate::ops::schedules::register::{self, Existing, SqlChange, Which};
use crate::ops::sql::rights;
use crate::pg::datum;
use crate::pg::named::database::{self, Named};
use crate::pg::named::role;
use crate::pg::process;
use crate::shmem::sql_record::QUEUE;
use crate::xact::on_board::current_database;
use pgrx::PgLogLevel;
use pgrx::pg_sys::{Datum, Oid};
use std::ffi::CString;

sql_functions!(
    EnableCronApi => enable_cron_api,
    DisableCronApi => disable_cron_api,
    ImportCronJobs => import_cron_jobs,
    CronSchedule => cron_schedule,
    CronUnschedule => cron_unschedule,
    CronAlter => cron_alter,
);

/// The longest name of a job, in bytes.
const JOB_MAX: usize = 1_024;

fn enable_cron_api(_: &mut Call, _: EnableCronApi) -> Result<Option<Datum>> {
    cron::enable(&current_database())?;
    Ok(None)
}

fn disable_cron_api(_: &mut Call, _: DisableCronApi) -> Result<Option<Datum>> {
    cron::disable(&current_database());
    Ok(None)
}

/// Moves the jobs of pg_cron to schedules of their roles. Leaves those that cannot run, with a
/// warning.
fn import_cron_jobs(_: &mut Call, _: ImportCronJobs) -> Result<Option<Datum>> {
    let db = current_database();
    let mut moved = Vec::new();
    for job in cron::foreign(&db)? {
        match import(&job) {
            Ok(()) => moved.push(job.id),
            Err(why) => error::job_not_imported(job.id, job.name.as_deref(), &why.sentence())
                .report(PgLogLevel::WARNING),
        }
    }
    cron::remove_foreign(&moved);
    Ok(Some(Datum::from(moved.len() as i64)))
}

fn import(job: &Foreign) -> Result<()> {
    if let Some(why) = &job.differs {
        return Err(error::job_differs(why));
    }
    let owner = job.owner.ok_or_else(error::role_gone)?;
    rights::check_role(owner)?;
    let database = rights::find_database(job.database.as_deref(), owner)?;
    let command = checked(job.command.clone())?;
    let mut values = values(&job.schedule)?;
    if let Some(zone) = &job.time_zone {
        values[TIME_ZONE] = Some(check("time_zone", datum::varlena(zone))?);
    }
    let sql = register::sql(database.as_ref(), &command);
    let db = current_database();
    let name = job.name.as_deref();
    if cron::import(&db, job.id, name, &values, owner, sql, job.active)? {
        return Ok(());
    }
    match cron::has_number(&db, job.id) {
        true => Err(error::number_taken(job.id)),
        false => Err(error::job_exists(name.unwrap_or_default())),
    }
}

fn cron_schedule(call: &mut Call, args: CronSchedule) -> Result<Option<Datum>> {
    // Empty: it has none.
    let job = Some(args.job_name.required()?).filter(|job| !job.is_empty());
    if let Some(length) = job.as_ref().map(Vec::len).filter(|length| *length > JOB_MAX) {
        return Err(error::bad_length("job_name", 0, JOB_MAX, length));
    }
    let values = values(&args.schedule.required()?)?;
    let command = checked(args.command.required()?)?;
    let (caller, username) = (role::current(), args.username.optional());
    let authorize = || {
        call.again()?.authorize(QUEUE)?;
        match username.is_some() && !role::is_superuser(caller) {
            true => Err(error::not_for_others()),
            false => Ok(()),
        }
    };
    authorize()?;
    let owner = username.as_deref().map_or(Ok(caller), role_of)?;
    rights::check_role(owner)?;
    let database = find_database(args.database.optional().as_deref(), owner)?;
    let active = args.active.optional().unwrap_or(true);
    let sql = register::sql(database.as_ref(), &command);
    let db = current_database();
    let id = cron::schedule(&db, job.as_deref(), &values, owner, sql, active, authorize)?;
    unserved::warn_of(&db, QUEUE);
    Ok(Some(Datum::from(id)))
}

fn cron_unschedule(call: &mut Call, args: CronUnschedule) -> Result<Option<Datum>> {
    let db = current_database();
    let (removed, job) = match (args.job_id.optional(), args.job_name.optional()) {
        (Some(id), _) => {
            let authorize = |found: &Existing| match own_job(call, id, found)? {
                true => Ok(()),
                false => Err(error::not_own_job(id)),
            };
            (register::unschedule(&db, Which::Id(id), authorize)?, id.to_string())
        }
        (None, job) => {
            let job = job.unwrap_or_default();
            let authorize = |_: &Existing| call.again().map(|_| ());
            let which = Which::Job(&job, role::current());
            (register::unschedule(&db, which, authorize)?, datum::printable(job.clone()))
        }
    };
    if removed { Ok(Some(Datum::from(true))) } else { Err(error::no_such_job(&job)) }
}

fn cron_alter(call: &mut Call, args: CronAlter) -> Result<Option<Datum>> {
    call.authorize(QUEUE)?;
    let (db, caller) = (current_database(), role::current());
    let id = args.job_id.required()?;
    let mut given = [None; COLUMNS.len()];
    given[SCHEDULE] = args.schedule.datum().map(|it| check(args.schedule.name, it)).transpose()?;
    let command = args.command.optional().map(checked).transpose()?;
    let database = args.database.optional().map(|name| named(&name)).transpose()?;
    let owner = args.username.optional().map(|name| role_of(&name)).transpose()?;
    let active = args.active.optional();
    let [_, changes @ ..] = declared!(values of args: CronAlter);
    let authorize = |found: &Existing| {
        if !own_job(call, id, found)? {
            return Err(error::no_such_job(&id.to_string()));
        }
        call.again()?.authorize(QUEUE)?;
        if changes.iter().all(Option::is_none) {
            return Err(error::nothing_to_alter());
        }
        let runs_as = owner.unwrap_or(found.owner);
        if owner.is_some() && !role::is_superuser(caller) {
            return Err(error::not_for_others());
        }
        if let Some(job) = found.job.as_deref().filter(|_| runs_as != found.owner)
            && register::has_job(&db, job, runs_as)
        {
            return Err(error::job_exists(job));
        }
        rights::check_role(runs_as)?;
        let kept = || register::database_of(&found.sql);
        let oid = database.clone().or_else(kept).map_or_else(process::database, |it| it.oid);
        match owner.is_some() || database.is_some() {
            true => {
                database.as_ref().map_or(Ok(()), rights::check_allowed)?;
                rights::check_connect(oid, runs_as)
            }
            false => Ok(()),
        }
    };
    let change = SqlChange {
        owner,
        database: database.as_ref().map(|it| [datum::varlena(&it.name), Datum::from(it.oid)]),
        command: command.as_deref().map(datum::varlena),
    };
    let altered = register::alter(&db, Which::Id(id), active, &given, change, authorize)?;
    altered.map(|_| None).ok_or_else(|| error::no_such_job(&id.to_string()))
}

/// Whether a schedule, which is locked, is a job whose role the caller may act for now.
fn own_job(call: &Call, id: i64, found: &Existing) -> Result<bool> {
    let [_, command, _] = found.sql;
    command.ok_or_else(|| error::no_such_job(&id.to_string()))?;
    Ok(call.again()?.acts_for(found.owner))
}

/// The definition of a job, which is as pg_cron has it: missed runs are skipped, and a run is while
/// the one before it runs.
fn values(schedule: &[u8]) -> Result<Values> {
    let mut values = [None; COLUMNS.len()];
    values[SCHEDULE] = Some(check("schedule", datum::varlena(schedule))?);
    fix_columns(&mut values);
    values[TIME_ZONE] = Some(datum::varlena(b"UTC"));
    values[MISFIRE] = Some(datum::varlena(b"skip"));
    values[OVERLAP] = Some(datum::varlena(b"skip"));
    values[MAX_TRIES] = Some(Datum::from(1i32));
    Ok(values)
}

fn role_of(name: &[u8]) -> Result<Oid> {
    let found = CString::new(name).ok().and_then(|name| role::named(&name));
    found.ok_or_else(|| error::no_role(name))
}

/// The database of a name, to which the role may connect. `None`: this one.
fn find_database(name: Option<&[u8]>, role: Oid) -> Result<Option<Named>> {
    name.map(named).transpose()?;
    rights::find_database(name, role)
}

fn named(name: &[u8]) -> Result<Named> {
    let found = CString::new(name).ok().and_then(|name| database::find(&name));
    let oid = found.ok_or_else(|| error::undefined_database(name))?;
    Ok(Named { name: name.to_vec(), oid })
}
