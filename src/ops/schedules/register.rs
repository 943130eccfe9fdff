//! Registering, changing and removing schedules.

use crate::error::{self, Result};
use crate::extension::database::Database;
use crate::ops::schedules::definition::{self, COLUMNS, QUEUE, Values};
use crate::ops::schedules::timing::Timing;
use crate::pg::datum::{self, BIGINT, BIGINTS, BOOL, Kind, OID, TEXT, TIMESTAMPTZ};
use crate::pg::named::database::Named;
use crate::pg::spi::{Session, statement};
use crate::storage::rows::session;
use crate::xact;
use board::{Micros, Wall};
use pgrx::pg_sys::{self, Datum, Oid};

const INSERT_KINDS: [Kind; 24] =
    kinds(&[TIMESTAMPTZ, TEXT, OID, TEXT, TEXT, OID, BIGINT, TEXT, BOOL]);
const UPDATE_KINDS: [Kind; 23] = kinds(&[TIMESTAMPTZ, BIGINT, OID, BOOL, TEXT, TEXT, OID, TEXT]);

statement!(FIND, "schedules/find", [TEXT], |file: &str| file.replace("{which}", "s.name = $1"));
statement!(FIND_BY_ID, "schedules/find", [BIGINT], |file: &str| {
    file.replace("{which}", "s.id = $1")
});
statement!(FIND_JOB, "schedules/find", [TEXT, OID], |file: &str| {
    file.replace("{which}", OF_JOB)
});
statement!(EXISTS, "schedules/exists", [TEXT]);
statement!(EXISTS_JOB, "cron/exists", [TEXT, OID], |file: &str| file.replace("{which}", OF_JOB));
statement!(NEXT_NUMBER, "schedules/next_number", []);
statement!(INSERT, "schedules/insert", INSERT_KINDS);
statement!(UPDATE, "schedules/update", UPDATE_KINDS);
statement!(DELETE, "schedules/delete", [BIGINT]);
statement!(SET_GROUP, "schedules/set_group", [BIGINT, TEXT]);
statement!(FORGET_MISSED, "schedules/forget_missed", [BIGINTS]);

/// The job of a name and of a role, as the index schedule_job has it. A role that is gone has none.
const OF_JOB: &str =
    "s.job = $1 and s.owner::pg_catalog.oid = $2 and s.owner::pg_catalog.oid <> 0::pg_catalog.oid";

/// The types of a definition's columns, and of others behind them.
const fn kinds<const N: usize>(others: &[Kind]) -> [Kind; N] {
    let mut kinds = [TEXT; N];
    let mut at = 0;
    while at < N {
        let is_own = at < COLUMNS.len();
        kinds[at] = if is_own { COLUMNS[at].1 } else { others[at - COLUMNS.len()] };
        at += 1;
    }
    kinds
}

/// Which schedule.
#[derive(Clone, Copy)]
pub enum Which<'w> {
    Name(&'w [u8]),
    Id(i64),
    /// A job of the schema `cron`: its name, and its role.
    Job(&'w [u8], Oid),
}

/// The facts on which a right to change a schedule depends. The row is locked, so they stay.
pub struct Existing {
    pub owner: Oid,
    pub queue: Option<Datum>,
    /// Of a schedule of SQL commands.
    pub sql: Sql,
    /// Its name in the schema `cron`.
    pub job: Option<Vec<u8>>,
}

/// A schedule that was found, and locked.
struct Found {
    id: i64,
    name: Vec<u8>,
    active: bool,
    next_run: Option<Wall>,
    last_run: Option<Wall>,
    values: Values,
    existing: Existing,
}

/// The database and the command of a schedule of SQL commands, as texts, and the database's oid.
pub type Sql = [Option<Datum>; 3];

/// The values of an SQL command.
pub fn sql(database: Option<&Named>, command: &[u8]) -> Sql {
    let name = database.map(|it| datum::varlena(&it.name));
    [name, Some(datum::varlena(command)), database.map(|it| Datum::from(it.oid))]
}

/// The database of an SQL command; `None`: this one.
pub fn database_of(sql: &Sql) -> Option<Named> {
    let name = datum::optional_text(sql[0])?;
    Some(Named { name, oid: datum::oid(sql[2]) })
}

/// What changes of a schedule of SQL commands; `None`: stays.
#[derive(Clone, Copy, Default)]
pub struct SqlChange {
    pub owner: Option<Oid>,
    /// Its name and its oid.
    pub database: Option<[Datum; 2]>,
    pub command: Option<Datum>,
}

/// A schedule beside its definition.
pub struct New<'n> {
    pub id: i64,
    pub name: &'n [u8],
    pub owner: Oid,
    pub sql: Sql,
    /// Its name in the schema `cron`.
    pub job: Option<&'n [u8]>,
    pub active: bool,
}

/// What becomes of a schedule beside its definition.
struct Change {
    owner: Option<Oid>,
    sql: Sql,
    job: Option<Datum>,
    active: bool,
}

/// The names of jobs begin with this, before their number.
pub const OF_JOBS: &[u8] = b"cron:";

/// Registers a schedule, or replaces the one of that name, whose last run is not forgotten. Returns
/// its id. `sql`: of a schedule of SQL commands. `authorize`: whether one that exists may be
/// changed.
pub fn register(
    db: &Database,
    name: &[u8],
    values: &Values,
    owner: Oid,
    sql: Sql,
    authorize: impl Fn(&Existing) -> Result<()>,
) -> Result<i64> {
    let timing = definition::timing(values)?;
    definition::check_retries(values, &timing, values)?;
    let session = session(db);
    // The schedule of that name may come and go until its row is locked.
    loop {
        pgrx::check_for_interrupts!();
        if let Some(found) = find(&session, Which::Name(name)) {
            authorize(&found.existing)?;
            // A name is one of its role's jobs, each of which has a command.
            let is_job = sql[1].is_some() && found.existing.owner == owner;
            let job = found.existing.job.as_deref().filter(|_| is_job).map(datum::varlena);
            let wanted = Change { owner: Some(owner), sql, job, active: true };
            change(db, &session, &found, values, &timing, wanted);
            return Ok(found.id);
        }
        if name.starts_with(OF_JOBS) {
            return Err(error::name_of_jobs());
        }
        let id = next_number(&session);
        let new = New { id, name, owner, sql, job: None, active: true };
        if insert(db, &session, &new, values, &timing) {
            return Ok(id);
        }
    }
}

/// Registers a schedule. False: its number or one of its names is taken.
pub fn create(db: &Database, new: &New, values: &Values) -> Result<bool> {
    let timing = definition::timing(values)?;
    definition::check_retries(values, &timing, values)?;
    Ok(insert(db, &session(db), new, values, &timing))
}

/// A number that no schedule was given yet.
pub fn next_number(session: &Session) -> i64 {
    datum::number(session.run(&NEXT_NUMBER, &[]).first())
}

fn insert(db: &Database, session: &Session, new: &New, values: &Values, timing: &Timing) -> bool {
    let next = if new.active { timing.series().first(now()) } else { None };
    let mut arguments = values.to_vec();
    arguments.extend([
        next.map(datum::timestamptz),
        Some(datum::varlena(new.name)),
        Some(Datum::from(new.owner)),
    ]);
    arguments.extend(new.sql);
    arguments.extend([
        Some(Datum::from(new.id)),
        new.job.map(datum::varlena),
        Some(Datum::from(new.active)),
    ]);
    let is_new = session.run(&INSERT, &arguments).first().is_some();
    if is_new {
        xact::at_commit(db, next.map(xact::Change::Run));
    }
    is_new
}

/// Changes a schedule. Values that are not given stay. `authorize`: whether it may be changed.
/// Returns its id; `None`: there is no such schedule.
pub fn alter(
    db: &Database,
    which: Which,
    active: Option<bool>,
    given: &Values,
    sql: SqlChange,
    authorize: impl Fn(&Existing) -> Result<()>,
) -> Result<Option<i64>> {
    let session = session(db);
    let Some(found) = find(&session, which) else { return Ok(None) };
    authorize(&found.existing)?;
    let [database, command, oid] = found.existing.sql;
    if command.is_some()
        && let Some(at) = definition::OF_TASKS.into_iter().find(|at| given[*at].is_some())
    {
        return Err(error::sql_schedule(&found.name, COLUMNS[at].0));
    }
    let values: Values = std::array::from_fn(|at| given[at].or(found.values[at]));
    let timing = definition::timing(&values)?;
    definition::check_retries(&values, &timing, given)?;
    let wanted = Change {
        owner: sql.owner,
        sql: match sql.database {
            None => [database, sql.command.or(command), oid],
            Some([database, oid]) => [Some(database), sql.command.or(command), Some(oid)],
        },
        job: found.existing.job.as_deref().map(datum::varlena),
        active: active.unwrap_or(found.active),
    };
    change(db, &session, &found, &values, &timing, wanted);
    Ok(Some(found.id))
}

/// Removes a schedule, and forgets its last run. `authorize`: whether it may be removed. False:
/// there is no such schedule.
pub fn unschedule(
    db: &Database,
    which: Which,
    authorize: impl Fn(&Existing) -> Result<()>,
) -> Result<bool> {
    let session = session(db);
    let Some(found) = find(&session, which) else { return Ok(false) };
    authorize(&found.existing)?;
    session.run(&DELETE, &[Some(Datum::from(found.id))]);
    Ok(true)
}

/// Changes a schedule that is locked; tells the board its next run. A run that is due and has not
/// fired stays due, unless other times are wanted. Missed runs go, unless they are wanted still.
fn change(
    db: &Database,
    session: &Session,
    found: &Found,
    values: &Values,
    timing: &Timing,
    wanted: Change,
) {
    let Change { owner, sql, job, active } = wanted;
    let is_same = found.active && definition::have_same_runs(&found.values, values);
    let kept = found.next_run.filter(|_| is_same);
    let series = timing.series();
    let next = match kept {
        _ if !active => None,
        Some(at) => Some(at).filter(|at| timing.ends_at.is_none_or(|end| *at <= end)),
        // The clock may have been set back: no time runs twice.
        None => series.first(found.last_run.map_or(now(), |last| now().max(last + Micros(1)))),
    };
    let mut arguments = values.to_vec();
    arguments.extend([
        next.map(datum::timestamptz),
        Some(Datum::from(found.id)),
        owner.map(Datum::from),
        Some(Datum::from(active)),
    ]);
    arguments.extend(sql);
    arguments.push(job);
    session.run(&UPDATE, &arguments);
    if !is_same || !active || !definition::catches_up(values) {
        let ids = datum::array(BIGINTS, std::iter::once(Some(Datum::from(found.id))));
        session.run(&FORGET_MISSED, &[Some(ids)]);
    }
    xact::at_commit(db, next.map(xact::Change::Run));
}

/// Whether a role has a job of this name.
pub fn has_job(db: &Database, job: &[u8], owner: Oid) -> bool {
    session(db).run(&EXISTS_JOB, &job_key(job, owner)).len() > 0
}

fn job_key(job: &[u8], owner: Oid) -> Vec<Option<Datum>> {
    vec![Some(datum::varlena(job)), Some(Datum::from(owner))]
}

/// Locks a schedule, waiting for another transaction that has it.
fn find(session: &Session, which: Which) -> Option<Found> {
    let (find, exists, key) = match which {
        Which::Id(id) => (&FIND_BY_ID, None, vec![Some(Datum::from(id))]),
        Which::Name(name) => (&FIND, Some(&EXISTS), vec![Some(datum::varlena(name))]),
        Which::Job(job, owner) => (&FIND_JOB, Some(&EXISTS_JOB), job_key(job, owner)),
    };
    let rows = loop {
        let rows = session.run(find, &key);
        // The transaction that had the row may have put another one in its place.
        if rows.len() > 0 || exists.is_none_or(|exists| session.run(exists, &key).len() == 0) {
            break rows;
        }
        pgrx::check_for_interrupts!();
    };
    if rows.len() == 0 {
        return None;
    }
    let value = |column| rows.get(0, column);
    let values: Values = std::array::from_fn(|at| value(7 + at));
    Some(Found {
        id: datum::number(value(0)),
        name: datum::text(value(1)),
        active: datum::number(value(3)) != 0,
        next_run: value(4).map(datum::wall),
        last_run: value(5).map(datum::wall),
        values,
        existing: Existing {
            owner: datum::oid(value(2)),
            queue: values[QUEUE],
            sql: std::array::from_fn(|at| value(7 + COLUMNS.len() + at)),
            job: datum::optional_text(value(6)),
        },
    })
}

/// The time from which runs are registered: that of the transaction, so that `starts_at => now()`
/// is in it.
fn now() -> Wall {
    // SAFETY: reads this backend's transaction state.
    Wall(unsafe { pg_sys::GetCurrentTransactionStartTimestamp() })
}

/// Sets the group of a schedule's runs; `None`: that of their role.
pub fn set_group(db: &Database, schedule: i64, group: Option<&[u8]>) {
    session(db).run(&SET_GROUP, &[Some(Datum::from(schedule)), group.map(datum::varlena)]);
}
