//! Retention: settled tasks are kept in one partition per day. Partitions are made ahead and
//! dropped when all rows are past retention. A retention below one day deletes rows, some blocks at
//! a time.

use crate::ops::maintenance::identity;
use crate::pg::datum::{self, BIGINT, Kind, OID, TEXTS, TIMESTAMPTZ, TIMESTAMPTZS};
use crate::pg::spi::{Rows, Session, statement};
use crate::pg::{process, settings, time};
use crate::shmem::database::{self, Database};
use crate::storage::rows::{ROWS_PER_TX, session};
use board::{Micros, Wall};
use pgrx::pg_sys::{self, Datum};

statement!(PARTITIONS, "retention/make_partitions", [TIMESTAMPTZ]);
statement!(KEEP_SCHEMA, "retention/keep_schema", []);
statement!(COPY_ACCESS, "retention/copy_access", [OID, TEXTS]);
statement!(DAYS, "retention/partitions", [OID]);

const DELETE_PAST: &str = include_str!("../../../sql/queries/retention/delete_expired.sql");
const DELETE_PAST_KINDS: [Kind; 6] = [TIMESTAMPTZ, TEXTS, TIMESTAMPTZS, BIGINT, BIGINT, BIGINT];

/// How many blocks one transaction scans for rows to delete.
const BLOCKS: i64 = 512;

/// From this retention on only whole partitions are dropped.
const DAY: Micros = Micros::from_days(1);

/// While the scheduler waits for the parent's lock, transactions that settle tasks wait behind it.
fn wait_briefly() {
    settings::set_local(c"lock_timeout", c"50ms");
}

/// A partition of `scylla.finished`.
pub struct Day {
    pub oid: u32,
    /// Quoted for a statement, in the database's encoding.
    pub name: Vec<u8>,
    pub blocks: i64,
    /// The bounds of `updated`; `None`: unbounded.
    from: Option<Wall>,
    to: Option<Wall>,
}

/// Which settled tasks are past retention: those settled before `until`.
#[derive(Clone, Copy)]
pub struct Past {
    until: Wall,
    by_rows: bool,
}

impl Past {
    /// For tasks that are kept for `retention`.
    pub fn of(retention: Micros) -> Past {
        Past { until: time::now().wall - retention, by_rows: retention < DAY }
    }

    /// Whether every row of the partition is past retention.
    pub fn covers(&self, day: &Day) -> bool {
        day.to.is_some_and(|to| to <= self.until)
    }

    /// Whether single rows of the partition have to be deleted.
    pub fn cuts(&self, day: &Day) -> bool {
        let begun = day.from.is_none_or(|from| from <= self.until);
        day.blocks > 0 && begun && (self.by_rows || day.from.is_none() && day.to.is_none())
    }
}

/// What one transaction has deleted.
pub struct Deleted {
    pub rows: i64,
    /// The block where the next transaction goes on.
    pub next: i64,
}

/// All partitions of `scylla.finished`.
pub fn days(db: &Database) -> Vec<Day> {
    let session = session(db);
    let rows = session.run(&DAYS, &[Some(db.finished.into())]);
    let time = |row, column| rows.get(row, column).map(datum::wall);
    (0..rows.len())
        .map(|row| Day {
            oid: datum::number(rows.get(row, 0)) as u32,
            name: datum::text(rows.get(row, 1)),
            blocks: datum::number(rows.get(row, 2)),
            from: time(row, 3),
            to: time(row, 4),
        })
        .collect()
}

/// Makes the missing partitions of yesterday to three days ahead. False when another transaction
/// uses the default partition at this moment.
pub fn make_partitions(db: &Database, past: Past) -> bool {
    let until = [Some(datum::timestamptz(past.until))];
    if session(db).run(&PARTITIONS, &until).len() == 0 {
        return true;
    }
    if !is_unused(db.table(c"finished_default")) {
        return false;
    }
    // The commands name the tables, so the names must go on to mean the extension's.
    Session::new(process::user()).run(&KEEP_SCHEMA, &[]);
    if database::find_again() != Some(*db) {
        return false;
    }
    wait_briefly();
    let session = session(db);
    session.run_text(b"lock table only scylla.finished in access exclusive mode", &[], &[]);
    // Once more, now that no transaction can add rows to the default partition. Readers of the
    // other partitions are not blocked.
    let rows = session.run(&PARTITIONS, &until);
    let names = datum::array(TEXTS, (0..rows.len()).map(|row| rows.get(row, 0)));
    run_commands(&session, &rows, 1);
    let rows = session.run(&COPY_ACCESS, &[Some(db.finished.into()), Some(names)]);
    run_commands(&session, &rows, 0);
    identity::note_use(db);
    true
}

/// Runs the texts in a column of a result.
fn run_commands(session: &Session, rows: &Rows, column: usize) {
    for row in 0..rows.len() {
        session.run_text(&datum::text(rows.get(row, column)), &[], &[]);
    }
}

/// Drops a partition. False when another transaction uses it at this moment.
pub fn drop_day(db: &Database, day: &Day) -> bool {
    let unused = is_unused(pg_sys::Oid::from_u32(day.oid));
    if unused {
        let session = session(db);
        wait_briefly();
        session.run_text(&[b"drop table ", &*day.name].concat(), &[], &[]);
    }
    unused
}

/// Deletes rows past retention from `BLOCKS` blocks of a partition.
pub fn delete_past(db: &Database, past: Past, day: &Day, from: i64) -> Deleted {
    let session = session(db);
    let to = from.saturating_add(BLOCKS);
    let parts: Vec<&[u8]> =
        DELETE_PAST.split("scylla.finished_default").map(str::as_bytes).collect();
    let rows = session.run_text(
        &parts.join(&*day.name),
        &DELETE_PAST_KINDS,
        &[
            Some(datum::timestamptz(past.until)),
            // No queue has a retention of its own yet.
            Some(datum::array(TEXTS, std::iter::empty())),
            Some(datum::array(TIMESTAMPTZS, std::iter::empty())),
            Some(Datum::from(from)),
            Some(Datum::from(to)),
            Some(Datum::from(ROWS_PER_TX as i64)),
        ],
    );
    let deleted = datum::number(rows.get(0, 0));
    let next = if deleted < ROWS_PER_TX as i64 { to } else { datum::number(rows.get(0, 1)) };
    Deleted { rows: deleted, next }
}

/// Whether no other transaction uses a table. A backup may use it for hours: nothing waits for
/// that.
fn is_unused(table: pg_sys::Oid) -> bool {
    let lock = pg_sys::AccessExclusiveLock as i32;
    // SAFETY: the lock, if it was free, is released at once; the parent's comes first.
    unsafe {
        let free = pg_sys::ConditionalLockRelationOid(table, lock);
        if free {
            pg_sys::UnlockRelationOid(table, lock);
        }
        free
    }
}
