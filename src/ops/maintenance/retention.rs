//! Retention: settled tasks are kept in one partition per day. Partitions are made ahead and
//! dropped when all rows are past retention. A retention below one day deletes rows, some blocks at
//! a time.

use crate::extension::database::{self, Database};
use crate::pg::datum::{self, BIGINT, Kind, OID, TEXTS, TIMESTAMPTZ, TIMESTAMPTZS};
use crate::pg::named::role;
use crate::pg::spi::{Rows, Session, statement};
use crate::pg::{lock, settings, time};
use crate::storage::rows::{ROWS_PER_TX, session};
use board::{Micros, Wall};
use pgrx::pg_sys::{self, Datum};
use std::hash::{DefaultHasher, Hash, Hasher};

statement!(PARTITIONS, "retention/make_partitions", [TIMESTAMPTZ]);
statement!(KEEP_SCHEMA, "retention/keep_schema", []);
statement!(COPY_ACCESS, "retention/copy_access", [OID, TEXTS]);
statement!(DAYS, "retention/partitions", [OID]);
statement!(USE, "retention/note_use", []);
statement!(RULES, "retention/rules", []);

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

impl Day {
    /// Whether it takes tasks of any time: the default partition.
    fn is_default(&self) -> bool {
        self.from.is_none() && self.to.is_none()
    }
}

/// Tasks that are kept equally long are past retention when they were settled before `until`.
#[derive(Clone, Copy)]
struct Limit {
    until: Wall,
    by_rows: bool,
}

impl Limit {
    fn of(retention: Micros, now: Wall) -> Limit {
        Limit { until: now - retention, by_rows: retention < DAY }
    }

    /// Whether all tasks of the partition are past.
    fn covers(&self, day: &Day) -> bool {
        day.to.is_some_and(|to| to <= self.until)
    }

    /// Until when tasks of the partition are to be deleted. None is when they are kept for a day or
    /// more and not all of them are past.
    fn in_day(&self, day: &Day) -> Wall {
        if self.by_rows || self.covers(day) || day.is_default() { self.until } else { Wall::MIN }
    }
}

/// Which settled tasks are past now.
pub struct Past {
    /// Of the queues without a retention of their own.
    others: Limit,
    /// By queue, each with its retention.
    own: Vec<(Vec<u8>, Micros, Limit)>,
}

impl Past {
    /// When tasks are kept for `retention`, and those of some queues for another time.
    pub fn of(retention: Micros, own: Vec<(Vec<u8>, Micros)>) -> Past {
        let now = time::now().wall;
        let own = own.into_iter().map(|(queue, own)| (queue, own, Limit::of(own, now)));
        Past { others: Limit::of(retention, now), own: own.collect() }
    }

    fn limits(&self) -> impl Iterator<Item = &Limit> {
        std::iter::once(&self.others).chain(self.own.iter().map(|(.., limit)| limit))
    }

    /// Whether every row of the partition is past retention.
    pub fn covers(&self, day: &Day) -> bool {
        self.limits().all(|limit| limit.covers(day))
    }

    /// Whether single rows of the partition have to be deleted.
    pub fn cuts(&self, day: &Day) -> bool {
        let is_cut = |until: Wall| until > Wall::MIN && day.from.is_none_or(|from| from <= until);
        day.blocks > 0 && self.limits().any(|limit| is_cut(limit.in_day(day)))
    }

    /// A number for what is to be deleted from the partition, if that does not change with time:
    /// once it is deleted, there is no more.
    pub fn fixed(&self, day: &Day) -> Option<u64> {
        let is_fixed = |limit: &Limit| limit.covers(day) || limit.in_day(day) == Wall::MIN;
        if !self.limits().all(is_fixed) {
            return None;
        }
        let mut hasher = DefaultHasher::new();
        self.others.covers(day).hash(&mut hasher);
        let covering = self.own.iter().filter(|(.., limit)| limit.covers(day));
        covering.for_each(|(queue, retention, _)| (queue, retention.0).hash(&mut hasher));
        // A queue that keeps its tasks longer than others is left out of what covers.
        self.own.len().hash(&mut hasher);
        Some(hasher.finish())
    }
}

/// What one transaction has deleted.
pub struct Deleted {
    pub rows: i64,
    /// The block where the next transaction goes on.
    pub next: i64,
}

/// The queues that keep settled tasks for a time of their own.
pub fn rules(db: &Database) -> Vec<(Vec<u8>, Micros)> {
    let session = session(db);
    let rows = session.run(&RULES, &[]);
    (0..rows.len())
        .map(|row| {
            let queue = datum::text(rows.get(row, 0));
            (queue, datum::interval_length(rows.get(row, 1)))
        })
        .collect()
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
pub fn make_partitions(db: &Database, past: &Past) -> bool {
    let earliest = past.limits().map(|limit| limit.until).min().unwrap_or(Wall::MIN);
    let until = [Some(datum::timestamptz(earliest))];
    if session(db).run(&PARTITIONS, &until).len() == 0 {
        return true;
    }
    if !is_unused(db.table(c"finished_default")) {
        return false;
    }
    // The commands name the tables, so the names must go on to mean the extension's.
    Session::new(role::current()).run(&KEEP_SCHEMA, &[]);
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
    // They do not come from a dump: the database is in use.
    session.run(&USE, &[]);
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

/// Deletes rows past retention from `BLOCKS` blocks of a partition, unless its index is being made.
pub fn delete_past(db: &Database, past: &Past, day: &Day, from: i64) -> Deleted {
    if !lock::try_relation(pg_sys::Oid::from_u32(day.oid), pg_sys::RowExclusiveLock) {
        return Deleted { rows: 0, next: from };
    }
    let session = session(db);
    let to = from.saturating_add(BLOCKS);
    let queues = past.own.iter().map(|(queue, ..)| Some(datum::varlena(queue)));
    let times = past.own.iter().map(|(.., limit)| Some(datum::timestamptz(limit.in_day(day))));
    let parts: Vec<&[u8]> =
        DELETE_PAST.split("scylla.finished_default").map(str::as_bytes).collect();
    let rows = session.run_text(
        &parts.join(&*day.name),
        &DELETE_PAST_KINDS,
        &[
            Some(datum::timestamptz(past.others.in_day(day))),
            Some(datum::array(TEXTS, queues)),
            Some(datum::array(TIMESTAMPTZS, times)),
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
