//! Jobs as pg_cron has them: schedules of SQL commands that have a number, a name of their role's own,
//! and the schema `cron`.

use crate::error::{self, Result};
use crate::ops::schedules::definition::Values;
use crate::ops::schedules::register::{self, Existing, Sql, SqlChange};
use crate::pg::datum::{self, BIGINT, BIGINTS, OID, TEXT};
use crate::pg::named::role;
use crate::pg::spi::{Session, statement};
use crate::pg::uuid::Uuid;
use crate::shmem::database::Database;
use crate::storage::rows::session;
use pgrx::pg_sys::{Datum, Oid};

statement!(HAS_PG_CRON, "cron/has_pg_cron", []);
statement!(NAMED, "cron/named", [TEXT, OID]);
statement!(NUMBERED, "cron/numbered", [BIGINT]);
statement!(NAME, "cron/name", [BIGINT, TEXT]);
statement!(HAS_NUMBER, "cron/has_number", [BIGINT]);
statement!(RENUMBER, "cron/renumber", [BIGINT, BIGINT]);

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

/// Schedules a job; of one that has the name already, changes schedule and command. Returns its
/// number.
pub fn schedule(
    db: &Database,
    job: Option<&[u8]>,
    values: &Values,
    owner: Oid,
    sql: Sql,
    active: bool,
) -> Result<i64> {
    let permit = |_: &Existing| Ok(());
    let name = job.and_then(|job| named(db, job, owner));
    if let Some((name, id)) = name {
        let mut given = [None; _];
        given[0] = values[0];
        let change = SqlChange { command: sql[1], ..SqlChange::default() };
        register::alter(db, &name, None, &given, change, permit)?;
        return Ok(id);
    }
    let name = Uuid::random().to_string();
    let id = register::register(db, name.as_bytes(), values, owner, sql, permit)?;
    if !active {
        let change = SqlChange::default();
        register::alter(db, name.as_bytes(), Some(false), &[None; _], change, permit)?;
    }
    session(db).run(&NAME, &[Some(Datum::from(id)), job.map(datum::varlena)]);
    Ok(id)
}

/// The schedule of a job's name and role, and its number.
pub fn named(db: &Database, job: &[u8], owner: Oid) -> Option<(Vec<u8>, i64)> {
    let rows = session(db).run(&NAMED, &[Some(datum::varlena(job)), Some(Datum::from(owner))]);
    (rows.len() > 0).then(|| (datum::text(rows.get(0, 0)), datum::number(rows.get(0, 1))))
}

/// A job by its number: its schedule, its owner, its name.
pub fn numbered(db: &Database, id: i64) -> Option<(Vec<u8>, Oid, Option<Vec<u8>>)> {
    let rows = session(db).run(&NUMBERED, &[Some(Datum::from(id))]);
    (rows.len() > 0).then(|| {
        let owner = datum::oid(rows.get(0, 1));
        (datum::text(rows.get(0, 0)), owner, datum::optional_text(rows.get(0, 2)))
    })
}

/// Whether no schedule has a number.
pub fn has_free_number(db: &Database, id: i64) -> bool {
    session(db).run(&HAS_NUMBER, &[Some(Datum::from(id))]).len() == 0
}

/// Gives a new job the number that it had elsewhere. Later ones get greater numbers.
pub fn renumber(db: &Database, id: i64, wanted: i64) {
    session(db).run(&RENUMBER, &[id, wanted].map(|it| Some(Datum::from(it))));
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
