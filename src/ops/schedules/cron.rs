//! Jobs as pg_cron has them: schedules of SQL commands that have a number, a name of their role's
//! own, and the schema `cron`.

use crate::error::{self, Result};
use crate::extension::database::Database;
use crate::ops::schedules::definition::Values;
use crate::ops::schedules::register::{self, New, Sql, SqlChange, Which};
use crate::pg::datum::{self, BIGINT, BIGINTS};
use crate::pg::named::role;
use crate::pg::spi::{Session, statement};
use crate::storage::rows::session;
use pgrx::pg_sys::{Datum, Oid};

statement!(HAS_PG_CRON, "cron/has_pg_cron", []);
statement!(HAS_NUMBER, "cron/has_number", [BIGINT]);
statement!(PASS_NUMBER, "cron/pass_number", [BIGINT]);

const ENABLE: &str = include_str!("../../../sql/cron/enable.sql");
const FOREIGN: &str = include_str!("../../../sql/cron/foreign.sql");
const TAKEN: &str = include_str!("../../../sql/cron/taken.sql");
const DISABLE: &str = include_str!("../../../sql/cron/disable.sql");

/// Creates the schema `cron`.
pub fn enable(db: &Database) -> Result<()> {
    let session = session(db);
    if session.run(&HAS_PG_CRON, &[]).len() > 0 {
        return Err(error::pg_cron_is_installed());
    }
    session.run_text(ENABLE.as_bytes(), &[], &[]);
    Ok(())
}

/// Drops the schema `cron`.
pub fn disable(db: &Database) {
    session(db).run_text(DISABLE.as_bytes(), &[], &[]);
}

/// Schedules a job; of one that has the name already, changes schedule and command. `authorize`:
/// whether it still may, once that one is locked. Returns its number.
pub fn schedule(
    db: &Database,
    job: Option<&[u8]>,
    values: &Values,
    owner: Oid,
    sql: Sql,
    active: bool,
    authorize: impl Fn() -> Result<()>,
) -> Result<i64> {
    let mut given = [None; _];
    given[0] = values[0];
    let change = SqlChange { command: sql[1], ..SqlChange::default() };
    // The job of that name may come and go until its row is locked.
    loop {
        pgrx::check_for_interrupts!();
        if let Some(job) = job
            && let which = Which::Job(job, owner)
            && let Some(id) = register::alter(db, which, None, &given, change, |_| authorize())?
        {
            return Ok(id);
        }
        let id = register::next_number(&session(db));
        let name = [register::OF_JOBS, id.to_string().as_bytes()].concat();
        let new = New { id, name: &name, owner, sql, job, active };
        if register::create(db, &new, values)? {
            return Ok(id);
        }
    }
}

/// Creates a job with the number that it had elsewhere; later ones get greater numbers. False: the
/// number is taken, or the role has a job of that name.
pub fn import(
    db: &Database,
    id: i64,
    job: Option<&[u8]>,
    values: &Values,
    owner: Oid,
    sql: Sql,
    active: bool,
) -> Result<bool> {
    let name = [register::OF_JOBS, id.to_string().as_bytes()].concat();
    let new = New { id, name: &name, owner, sql, job, active };
    let is_new = register::create(db, &new, values)?;
    if is_new {
        session(db).run(&PASS_NUMBER, &[Some(Datum::from(id))]);
    }
    Ok(is_new)
}

/// Whether a schedule has a number.
pub fn has_number(db: &Database, id: i64) -> bool {
    session(db).run(&HAS_NUMBER, &[Some(Datum::from(id))]).len() > 0
}

/// A job of pg_cron.
pub struct Foreign {
    pub id: i64,
    pub schedule: Vec<u8>,
    pub command: Vec<u8>,
    /// `None`: this one.
    pub database: Option<Vec<u8>>,
    /// `None`: there is no such role.
    pub owner: Option<Oid>,
    pub active: bool,
    pub name: Option<Vec<u8>>,
    /// Why it would not be the same here.
    pub differs: Option<Vec<u8>>,
    /// In which its schedule is read; `None`: UTC.
    pub time_zone: Option<Vec<u8>>,
}

/// The jobs of pg_cron, locked. Read with the caller's rights, as another extension's table.
pub fn foreign(db: &Database) -> Result<Vec<Foreign>> {
    if session(db).run(&HAS_PG_CRON, &[]).len() == 0 {
        return Err(error::no_pg_cron());
    }
    let session = Session::new(role::current());
    let rows = session.run_foreign(FOREIGN.as_bytes(), &[], &[]);
    let text = |row, column| datum::optional_text(rows.get(row, column));
    let job = |row| Foreign {
        id: datum::number(rows.get(row, 0)),
        schedule: text(row, 1).unwrap_or_default(),
        command: text(row, 2).unwrap_or_default(),
        database: text(row, 3),
        owner: rows.get(row, 4).map(|it| datum::oid(Some(it))),
        active: datum::number(rows.get(row, 5)) != 0,
        name: text(row, 6),
        differs: text(row, 7),
        time_zone: text(row, 8),
    };
    Ok((0..rows.len()).map(job).collect())
}

/// Removes jobs from pg_cron.
pub fn remove_foreign(ids: &[i64]) {
    let ids = datum::array(BIGINTS, ids.iter().map(|id| Some(Datum::from(*id))));
    let session = Session::new(role::current());
    session.run_foreign(TAKEN.as_bytes(), &[BIGINTS], &[Some(ids)]);
}
