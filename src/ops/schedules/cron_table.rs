//! What a change of a row of the views of the schema `cron` does: what the functions of that schema
//! do, with the rights of the role that makes it.

use crate::error::{self, Result};
use crate::extension::database::Database;
use crate::pg::datum::{self, OID, TEXT};
use crate::pg::named::role;
use crate::pg::spi::{Session, statement};
use crate::storage::rows::session;
use pgrx::pg_sys::Datum;

statement!(SCHEDULE, "cron/schedule", [TEXT, TEXT, TEXT, TEXT, TEXT, TEXT]);
statement!(ALTER, "cron/alter", [TEXT, TEXT, TEXT, TEXT, TEXT, TEXT]);
statement!(UNSCHEDULE, "cron/unschedule", [TEXT]);
statement!(HAS_JOB, "cron/has_job", [TEXT, TEXT]);
statement!(RENAME, "cron/rename", [TEXT, TEXT]);
statement!(DELETE_RUN, "cron/delete_run", [TEXT, TEXT, OID]);

/// A row of `cron.job`; each value as text.
pub struct Job {
    /// `None`: it has none yet.
    pub id: Option<Vec<u8>>,
    pub schedule: Vec<u8>,
    pub command: Vec<u8>,
    /// The name and the port of the server.
    pub node: [Vec<u8>; 2],
    pub database: Vec<u8>,
    pub username: Vec<u8>,
    pub active: Vec<u8>,
    pub name: Option<Vec<u8>>,
}

/// What names this server, as pg_cron connects to it.
const LOCAL: [&[u8]; 4] = [b"localhost", b"", b"127.0.0.1", b"::1"];

/// Schedules a job. Returns its number.
pub fn insert(db: &Database, new: &Job) -> Result<i64> {
    if new.id.is_some() {
        return Err(error::fixed_column("jobid"));
    }
    check_node(new)?;
    refuse_second(db, new)?;
    let arguments = [
        // Empty: it has none.
        Some(new.name.as_deref().unwrap_or_default()),
        Some(&*new.schedule),
        Some(&*new.command),
        Some(&*new.database),
        other_role(&new.username),
        Some(&*new.active),
    ];
    let session = as_caller();
    let rows = session.run(&SCHEDULE, &arguments.map(text));
    Ok(datum::number(rows.first()))
}

/// Changes a job.
pub fn update(db: &Database, old: &Job, new: &Job) -> Result<()> {
    if new.id != old.id {
        return Err(error::fixed_column("jobid"));
    }
    if new.node != old.node {
        check_node(new)?;
    }
    if (&new.name, &new.username) != (&old.name, &old.username) {
        refuse_second(db, new)?;
    }
    let changed = |new: &'_ Vec<u8>, old: &Vec<u8>| (new != old).then(|| datum::varlena(new));
    let arguments = [
        text(old.id.as_deref()),
        changed(&new.schedule, &old.schedule),
        changed(&new.command, &old.command),
        changed(&new.database, &old.database),
        changed(&new.username, &old.username),
        // Always given: the call checks the rights where nothing else changes.
        text(Some(&*new.active)),
    ];
    as_caller().run(&ALTER, &arguments);
    if new.name != old.name {
        // The call before has locked the row, and found that the caller may change it.
        session(db).run(&RENAME, &[text(old.id.as_deref()), text(new.name.as_deref())]);
    }
    Ok(())
}

/// Removes a job.
pub fn delete(old: &Job) {
    as_caller().run(&UNSCHEDULE, &[text(old.id.as_deref())]);
}

/// Deletes a run of a job that has ended, if the caller sees it. False: no such run.
pub fn delete_run(db: &Database, job: Option<Vec<u8>>, run: Option<Vec<u8>>) -> bool {
    let [job, run] = [&job, &run].map(|it| text(it.as_deref()));
    session(db).run(&DELETE_RUN, &[job, run, Some(Datum::from(role::current()))]).len() > 0
}

fn text(value: Option<&[u8]>) -> Option<Datum> {
    value.map(datum::varlena)
}

/// A session with the rights of the role that makes the change.
fn as_caller() -> Session {
    Session::new(role::current())
}

/// A role that is not the calling one: only a superuser may name it.
fn other_role(name: &[u8]) -> Option<&[u8]> {
    let current = std::ffi::CString::new(name).ok().and_then(|it| role::named(&it));
    (current != Some(role::current())).then_some(name)
}

/// Refuses a job that would run on another server.
fn check_node(new: &Job) -> Result<()> {
    let [name, _] = &new.node;
    match LOCAL.contains(&&**name) || name.starts_with(b"/") {
        true => Ok(()),
        false => Err(error::other_server(name)),
    }
}

/// Refuses a second job of a name and role.
fn refuse_second(db: &Database, new: &Job) -> Result<()> {
    let Some(name) = &new.name else { return Ok(()) };
    let job = [text(Some(&**name)), text(Some(&*new.username))];
    let exists = session(db).run(&HAS_JOB, &job).len() > 0;
    if exists { Err(error::job_exists(name)) } else { Ok(()) }
}
