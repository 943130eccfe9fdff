//! The functions of the schema `cron`, and those that make and drop it.

use crate::api::fcinfo::{Call, sql_functions};
use crate::api::schedules::sql::{checked, fix_columns};
use crate::api::schedules::{TIME_ZONE, check};
use crate::error::{self, Result};
use crate::ops::query::unserved;
use crate::ops::schedules::cron::{self, Foreign};
use crate::ops::schedules::definition::{COLUMNS, Values};
use crate::ops::schedules::register::{self, Existing, SqlChange};
use crate::ops::sql::{QUEUE, rights};
use crate::pg::datum;
use crate::pg::named::{database, role};
use crate::shmem::on_board::current_database;
use pgrx::PgLogLevel;
use pgrx::pg_sys::{Datum, Oid};
use std::ffi::CString;

sql_functions!(
    enable_cron_api,
    disable_cron_api,
    import_cron_jobs,
    cron_schedule,
    cron_unschedule,
    cron_alter
);

/// The longest name of a job, in bytes.
const JOB_MAX: usize = 1_024;

/// `enable_cron_api()`
fn enable_cron_api(call: &mut Call) -> Result<Option<Datum>> {
    call.require_writable("scylla.enable_cron_api()")?;
    cron::enable(&current_database())?;
    Ok(None)
}

/// `disable_cron_api()`
fn disable_cron_api(call: &mut Call) -> Result<Option<Datum>> {
    call.require_writable("scylla.disable_cron_api()")?;
    cron::disable(&current_database());
    Ok(None)
}

/// `import_cron_jobs() → bigint`
///
/// Moves the jobs of pg_cron to schedules of their roles. Leaves those that cannot run, with a warning.
fn import_cron_jobs(call: &mut Call) -> Result<Option<Datum>> {
    call.require_writable("scylla.import_cron_jobs()")?;
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
    rights::find_database(job.database.as_deref(), owner)?;
    let command = checked(job.command.clone())?;
    let mut values = values(Some(datum::varlena(&job.schedule)))?;
    if let Some(zone) = &job.time_zone {
        values[TIME_ZONE] = Some(check(TIME_ZONE, datum::varlena(zone))?);
    }
    let sql = [job.database.as_deref().map(datum::varlena), Some(datum::varlena(&command))];
    let db = current_database();
    if !cron::has_free_number(&db, job.id) {
        return Err(error::number_taken(job.id));
    }
    let name = job.name.as_deref();
    if name.is_some_and(|name| cron::named(&db, name, owner).is_some()) {
        return Err(error::job_exists(name.unwrap_or_default()));
    }
    let id = cron::schedule(&db, name, &values, owner, sql, job.active)?;
    cron::renumber(&db, id, job.id);
    Ok(())
}

/// `_cron_schedule(job_name, schedule, command, database, username, active) → bigint`
fn cron_schedule(call: &mut Call) -> Result<Option<Datum>> {
    call.require_writable("cron.schedule()")?;
    call.permit(QUEUE)?;
    // Empty: it has none.
    let job = Some(call.text(0, "job_name")?).filter(|job| !job.is_empty());
    if let Some(length) = job.as_ref().map(Vec::len).filter(|length| *length > JOB_MAX) {
        return Err(error::bad_length("job_name", 0, JOB_MAX, length));
    }
    let values = values(Some(call.not_null(1, "schedule")?))?;
    let command = checked(call.text(2, "command")?)?;
    let owner = owner(call.optional_text(4))?.unwrap_or_else(role::current);
    rights::check_role(owner)?;
    let wanted = call.optional_text(3);
    find_database(wanted.as_deref(), owner)?;
    let active = call.datum(5).is_none_or(|active| active.value() != 0);
    let sql = [wanted.as_deref().map(datum::varlena), Some(datum::varlena(&command))];
    let db = current_database();
    let id = cron::schedule(&db, job.as_deref(), &values, owner, sql, active)?;
    unserved::warn_of(&db, QUEUE);
    Ok(Some(Datum::from(id)))
}

/// `_cron_unschedule(job_id, job_name) → boolean`
fn cron_unschedule(call: &mut Call) -> Result<Option<Datum>> {
    call.require_writable("cron.unschedule()")?;
    let db = current_database();
    let name = match (call.int(0), call.optional_text(1)) {
        (Some(id), _) => {
            let (name, owner, _) =
                cron::numbered(&db, id).ok_or_else(|| error::no_such_job(&id.to_string()))?;
            if !call.acts_for(owner) {
                return Err(error::not_own_job(id));
            }
            name
        }
        (None, job) => {
            let job = job.unwrap_or_default();
            let found = cron::named(&db, &job, role::current());
            found.ok_or_else(|| error::no_such_job(&datum::printable(job)))?.0
        }
    };
    let permit = |_: &Existing| Ok(());
    Ok(Some(Datum::from(register::unschedule(&db, &name, permit)?)))
}

/// `_cron_alter(job_id, schedule, command, database, username, active)`
fn cron_alter(call: &mut Call) -> Result<Option<Datum>> {
    call.require_writable("cron.alter_job()")?;
    call.permit(QUEUE)?;
    let id = call.int(0).ok_or_else(|| error::missing("job_id"))?;
    let db = current_database();
    let found = cron::numbered(&db, id).filter(|(_, owner, _)| call.acts_for(*owner));
    let (name, before, job) = found.ok_or_else(|| error::no_such_job(&id.to_string()))?;
    if (1..=5).all(|at| call.datum(at).is_none()) {
        return Err(error::nothing_to_alter());
    }
    let mut given = [None; COLUMNS.len()];
    given[0] = call.datum(1).map(|schedule| check(0, schedule)).transpose()?;
    let command = call.optional_text(2).map(checked).transpose()?;
    let owner = owner(call.optional_text(4))?;
    if let Some(new) = owner.filter(|new| *new != before)
        && let Some(job) = job
        && cron::named(&db, &job, new).is_some()
    {
        return Err(error::job_exists(&job));
    }
    let wanted = call.optional_text(3);
    let runs_as = owner.unwrap_or(before);
    rights::check_role(runs_as)?;
    find_database(wanted.as_deref(), runs_as)?;
    let change = SqlChange {
        owner,
        database: wanted.as_deref().map(datum::varlena),
        command: command.as_deref().map(datum::varlena),
    };
    let active = call.datum(5).map(|active| active.value() != 0);
    register::alter(&db, &name, active, &given, change, |_| Ok(()))?;
    Ok(None)
}

/// The definition of a job, which is as pg_cron has it: missed runs are skipped, and a run is while the
/// one before it runs.
fn values(schedule: Option<Datum>) -> Result<Values> {
    let mut values = [None; COLUMNS.len()];
    values[0] = schedule.map(|schedule| check(0, schedule)).transpose()?;
    fix_columns(&mut values);
    values[TIME_ZONE] = Some(datum::varlena(b"UTC"));
    values[6] = Some(datum::varlena(b"skip"));
    values[7] = Some(datum::varlena(b"skip"));
    values[8] = Some(Datum::from(1i32));
    Ok(values)
}

/// The role that a superuser names.
fn owner(name: Option<Vec<u8>>) -> Result<Option<Oid>> {
    let Some(name) = name else { return Ok(None) };
    if !role::is_superuser(role::current()) {
        return Err(error::not_for_others());
    }
    let found = CString::new(name.clone()).ok().and_then(|name| role::named(&name));
    found.map(Some).ok_or_else(|| error::no_role(&name))
}

/// Refuses a database that does not exist, or to which the role may not connect.
fn find_database(name: Option<&[u8]>, role: Oid) -> Result<()> {
    if let Some(name) = name
        && CString::new(name).ok().and_then(|name| database::find(&name)).is_none()
    {
        return Err(error::undefined_database(name));
    }
    rights::find_database(name, role).map(|_| ())
}
