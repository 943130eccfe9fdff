//! The views `cron.job` and `cron.job_run_details`: what they show, and their triggers, which do
//! what a change of a row does to pg_cron's tables.

use crate::api::call::Call;
use crate::api::call::declared::*;
use crate::api::call::trigger::{Event, Trigger};
use crate::error::{self, Result};
use crate::ops::query::runs;
use crate::ops::schedules::cron_table::{self, Job};
use crate::pg::datum;
use crate::pg::named::role;
use crate::xact::on_board::current_database;
use pgrx::pg_sys::Datum;
use std::ffi::CStr;

sql_functions!(
    CronSeesJobsOf => cron_sees_jobs_of,
    CronRuns => cron_runs,
    CronWriteJob => cron_write_job,
    CronDeleteRun => cron_delete_run,
);

/// Takes a role. Returns whether the caller sees its jobs, by the rules of pg_cron.
fn cron_sees_jobs_of(_: &mut Call, args: CronSeesJobsOf) -> Result<Option<Datum>> {
    let current = role::current();
    let sees = datum::oid(args.role.datum()) == current || role::bypasses_row_security(current);
    Ok(Some(Datum::from(sees)))
}

/// Returns a row per run that the caller sees.
fn cron_runs(call: &mut Call, _: CronRuns) -> Result<Option<Datum>> {
    let mut rows = call.rows()?;
    let current = role::current();
    let of = (!role::bypasses_row_security(current)).then_some(current);
    runs::runs(&current_database(), of, |run| rows.add(run));
    Ok(None)
}

/// The trigger instead of a change of `cron.job`.
fn cron_write_job(call: &mut Call, _: CronWriteJob) -> Result<Option<Datum>> {
    let it = trigger(call)?;
    let db = current_database();
    let row = match it.event() {
        Event::Insert => {
            let id = cron_table::insert(&db, &job(|name| it.new_value(name))?)?;
            it.new_with(c"jobid", Datum::from(id))
        }
        Event::Update => {
            let old = job(|name| it.old_value(name))?;
            cron_table::update(&db, &old, &job(|name| it.new_value(name))?)?;
            it.new_row()
        }
        Event::Delete => {
            cron_table::delete(&job(|name| it.old_value(name))?);
            it.old_row()
        }
    };
    Ok(Some(row))
}

/// The trigger instead of deleting a row of `cron.job_run_details`. A run that has not ended stays:
/// its row is passed over.
fn cron_delete_run(call: &mut Call, _: CronDeleteRun) -> Result<Option<Datum>> {
    let it = trigger(call)?;
    let [job, run] = [c"jobid", c"runid"].map(|name| it.old_value(name));
    let is_gone = cron_table::delete_run(&current_database(), job, run);
    Ok(Some(if is_gone { it.old_row() } else { Datum::from(0) }))
}

fn trigger<'c>(call: &Call) -> Result<Trigger<'c>> {
    call.trigger().ok_or_else(error::not_a_trigger)
}

/// The job of a row.
fn job(value: impl Fn(&CStr) -> Option<Vec<u8>>) -> Result<Job> {
    let needed = |name: &CStr| value(name).ok_or_else(|| error::missing(&name.to_string_lossy()));
    Ok(Job {
        id: value(c"jobid"),
        schedule: needed(c"schedule")?,
        command: needed(c"command")?,
        node: [needed(c"nodename")?, needed(c"nodeport")?],
        database: needed(c"database")?,
        username: needed(c"username")?,
        active: needed(c"active")?,
        name: value(c"jobname"),
    })
}
