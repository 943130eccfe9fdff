//! The views `cron.job` and `cron.job_run_details`: what they show, and their triggers, which do
//! what a change of a row does to pg_cron's tables.

use crate::api::fcinfo::{Call, sql_functions};
use crate::api::trigger::{Event, Trigger};
use crate::error::{self, Result};
use crate::ops::query::runs;
use crate::ops::schedules::cron_table::{self, Job};
use crate::pg::datum;
use crate::pg::named::role;
use crate::shmem::on_board::current_database;
use pgrx::pg_sys::Datum;
use std::ffi::CStr;

sql_functions!(cron_sees_jobs_of, cron_runs, cron_write_job, cron_delete_run);

/// `_cron_sees_jobs_of(role) → boolean`
///
/// Takes a role. Returns whether the caller sees its jobs: its own, or those of all roles.
fn cron_sees_jobs_of(call: &mut Call) -> Result<Option<Datum>> {
    let current = role::current();
    let sees = datum::oid(call.datum(0)) == current || role::bypasses_row_security(current);
    Ok(Some(Datum::from(sees)))
}

/// `_cron_runs() → (id, schedule, role, …) …`
///
/// Takes nothing. Returns a row per run of the jobs that the caller sees.
fn cron_runs(call: &mut Call) -> Result<Option<Datum>> {
    let mut rows = call.rows()?;
    let current = role::current();
    let of = (!role::bypasses_row_security(current)).then_some(current);
    runs::runs(&current_database(), of, |run| rows.add(run));
    Ok(None)
}

/// The trigger instead of a change of `cron.job`.
fn cron_write_job(call: &mut Call) -> Result<Option<Datum>> {
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
fn cron_delete_run(call: &mut Call) -> Result<Option<Datum>> {
    let it = trigger(call)?;
    let [job, run] = [c"jobid", c"runid"].map(|name| it.old_value(name));
    let is_gone = cron_table::delete_run(&current_database(), job, run);
    Ok(Some(if is_gone { it.old_row() } else { Datum::from(0) }))
}

fn trigger<'c>(call: &Call) -> Result<Trigger<'c>> {
    call.require_writable("a change of the schema cron")?;
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
