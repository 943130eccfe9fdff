//! Registering, changing and removing schedules.

use crate::error::{self, Result};
use crate::ops::schedules::definition::{self, COLUMNS, QUEUE, Values};
use crate::ops::schedules::timing::Timing;
use crate::pg::datum::{self, BIGINT, BIGINTS, BOOL, Kind, OID, TEXT, TIMESTAMPTZ};
use crate::pg::spi::{Session, statement};
use crate::shmem::database::Database;
use crate::shmem::xact::{self, Change};
use crate::storage::rows::session;
use board::{Micros, Wall};
use pgrx::pg_sys::{self, Datum, Oid};

const INSERT_KINDS: [Kind; 20] = kinds(&[TIMESTAMPTZ, TEXT, OID, TEXT, TEXT]);
const UPDATE_KINDS: [Kind; 21] = kinds(&[TIMESTAMPTZ, BIGINT, OID, BOOL, TEXT, TEXT]);

statement!(FIND, "schedules/find", [TEXT]);
statement!(INSERT, "schedules/insert", INSERT_KINDS);
statement!(UPDATE, "schedules/update", UPDATE_KINDS);
statement!(DELETE, "schedules/delete", [TEXT]);
statement!(FORGET_MISSED, "schedules/forget_missed", [BIGINTS]);

/// The types of a definition's columns, and of others behind them.
const fn kinds<const N: usize>(others: &[Kind]) -> [Kind; N] {
    let mut kinds = [TEXT; N];
    let mut at = 0;
    while at < N {
        let is_own = at < COLUMNS.len();
        kinds[at] = if is_own { COLUMNS[at] } else { others[at - COLUMNS.len()] };
        at += 1;
    }
    kinds
}

/// Whose schedule exists already, and of which queue.
pub struct Existing {
    pub owner: Oid,
    pub queue: Option<Datum>,
}

/// A schedule that was found, and locked.
struct Found {
    id: i64,
    owner: Oid,
    active: bool,
    next_run: Option<Wall>,
    last_run: Option<Wall>,
    values: Values,
    sql: Sql,
}

/// The database and the command of a schedule of SQL commands, as texts.
pub type Sql = [Option<Datum>; 2];

/// What changes of a schedule of SQL commands; `None`: stays.
#[derive(Clone, Copy, Default)]
pub struct SqlChange {
    pub owner: Option<Oid>,
    pub database: Option<Datum>,
    pub command: Option<Datum>,
}

/// Registers a schedule, or replaces the one of that name, whose last run is not forgotten. Returns
/// its id. `sql`: of a schedule of SQL commands. `permit`: whether one that exists may be changed.
pub fn register(
    db: &Database,
    name: &[u8],
    values: &Values,
    owner: Oid,
    sql: Sql,
    permit: impl Fn(&Existing) -> Result<()>,
) -> Result<i64> {
    let timing = definition::timing(values)?;
    definition::check_retries(values, &timing, values)?;
    let session = session(db);
    // The schedule of that name may come and go until its row is locked.
    loop {
        pgrx::check_for_interrupts!();
        if let Some(found) = find(&session, name) {
            permit(&found.existing())?;
            let found = Found { sql, ..found };
            change(db, &session, &found, values, &timing, Some(owner), true);
            return Ok(found.id);
        }
        let next = timing.series().first(now());
        let mut arguments = values.to_vec();
        arguments.extend([
            next.map(datum::timestamptz),
            Some(datum::varlena(name)),
            Some(Datum::from(owner)),
        ]);
        arguments.extend(sql);
        if let Some(id) = session.run(&INSERT, &arguments).first() {
            xact::at_commit(db, next.map(Change::Run));
            return Ok(id.value() as i64);
        }
    }
}

/// Changes a schedule. Values that are not given stay. `permit`: whether it may be changed.
pub fn alter(
    db: &Database,
    name: &[u8],
    active: Option<bool>,
    given: &Values,
    sql: SqlChange,
    permit: impl Fn(&Existing) -> Result<()>,
) -> Result<()> {
    let session = session(db);
    let found = find(&session, name).ok_or_else(|| error::no_such_schedule(name))?;
    permit(&found.existing())?;
    if found.sql[1].is_some()
        && let Some((_, argument)) = definition::OF_TASKS.iter().find(|it| given[it.0].is_some())
    {
        return Err(error::sql_schedule(name, argument));
    }
    let values: Values = std::array::from_fn(|at| given[at].or(found.values[at]));
    let timing = definition::timing(&values)?;
    definition::check_retries(&values, &timing, given)?;
    let active = active.unwrap_or(found.active);
    let found =
        Found { sql: [sql.database.or(found.sql[0]), sql.command.or(found.sql[1])], ..found };
    change(db, &session, &found, &values, &timing, sql.owner, active);
    Ok(())
}

/// Removes a schedule, and forgets its last run. False when no schedule has that name. `permit`:
/// whether it may be removed.
pub fn unschedule(
    db: &Database,
    name: &[u8],
    permit: impl Fn(&Existing) -> Result<()>,
) -> Result<bool> {
    let session = session(db);
    if let Some(found) = find(&session, name) {
        permit(&found.existing())?;
    }
    Ok(session.run(&DELETE, &[Some(datum::varlena(name))]).first().is_some())
}

/// Changes a schedule that is locked; tells the board its next run. A run that is due and has not
/// fired stays due, unless other times are wanted. Missed runs go, unless they are wanted still.
fn change(
    db: &Database,
    session: &Session,
    found: &Found,
    values: &Values,
    timing: &Timing,
    owner: Option<Oid>,
    active: bool,
) {
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
    arguments.extend(found.sql);
    session.run(&UPDATE, &arguments);
    if !is_same || !active || !definition::catches_up(values) {
        let ids = datum::array(BIGINTS, std::iter::once(Some(Datum::from(found.id))));
        session.run(&FORGET_MISSED, &[Some(ids)]);
    }
    xact::at_commit(db, next.map(Change::Run));
}

impl Found {
    fn existing(&self) -> Existing {
        Existing { owner: self.owner, queue: self.values[QUEUE] }
    }
}

fn find(session: &Session, name: &[u8]) -> Option<Found> {
    let rows = session.run(&FIND, &[Some(datum::varlena(name))]);
    if rows.len() == 0 {
        return None;
    }
    let value = |column| rows.get(0, column);
    Some(Found {
        id: datum::number(value(0)),
        owner: Oid::from_u32(datum::number(value(1)) as u32),
        active: datum::number(value(2)) != 0,
        next_run: value(3).map(datum::wall),
        last_run: value(4).map(datum::wall),
        values: std::array::from_fn(|at| value(5 + at)),
        sql: std::array::from_fn(|at| value(5 + COLUMNS.len() + at)),
    })
}

/// The time from which runs are registered: that of the transaction, so that `starts_at => now()`
/// is in it.
fn now() -> Wall {
    // SAFETY: reads this backend's transaction state.
    Wall(unsafe { pg_sys::GetCurrentTransactionStartTimestamp() })
}
