//! Writes submitted tasks into `scylla.task`, where no key and no id of theirs can be a duplicate.

use crate::error;
use crate::pg::datum::Kind;
use crate::pg::relcache;
use crate::shmem::database::Database;
use crate::storage::writers::columns::{
    Defaults, columns, has_type, is_computed, is_heap, name_of, require_own,
};
use crate::storage::writers::table_writer::TableWriter;
use board::RowHint;
use pgrx::pg_sys::{self, Datum, FormData_pg_attribute, Oid, Relation};
use std::cell::Cell;
use std::rc::Rc;

const LOCK: i32 = pg_sys::RowExclusiveLock as i32;

/// A column that a submission writes.
#[derive(Clone, Copy)]
pub struct TaskColumn {
    pub name: &'static str,
    /// Its type, as an array's.
    pub kind: Kind,
    /// Whether some tasks have no value.
    pub is_nullable: bool,
}

/// Where a column's value comes from.
enum Source {
    /// The column that was given at this position.
    Given(usize),
    /// The column's default.
    Default(Option<Datum>),
}

/// What was found out about the table.
struct TaskMap {
    table: Oid,
    /// For each column of the table.
    sources: Vec<Source>,
    /// Keeps what they point to.
    _defaults: Defaults,
}

thread_local! {
    static KNOWN: Cell<Option<Rc<TaskMap>>> = const { Cell::new(None) };
}

fn table_changed(table: Oid) {
    let known = KNOWN.take();
    KNOWN.set(known.filter(|it| table != pg_sys::InvalidOid && it.table != table));
}

/// The open table.
pub struct TaskWriter {
    writer: TableWriter,
    map: Rc<TaskMap>,
}

impl TaskWriter {
    /// Opens the table for rows with these columns. To be called with the rights of the tables'
    /// owner, as a statement is run: an index may call functions.
    pub fn open(db: &Database, given: impl Iterator<Item = TaskColumn>) -> TaskWriter {
        // SAFETY: the table is locked before it is read; an error closes it.
        unsafe {
            let table = pg_sys::try_table_open(db.task, LOCK);
            if table.is_null() {
                error::not_in_place().raise();
            }
            let known = KNOWN.take().filter(|known| known.table == db.task);
            let map = known.unwrap_or_else(|| {
                relcache::on_change(table_changed);
                Rc::new(TaskMap::find(db, table, &given.collect::<Vec<_>>()))
            });
            KNOWN.set(Some(map.clone()));
            let command = pg_sys::GetCurrentCommandId(true);
            TaskWriter { writer: TableWriter::new(table, command), map }
        }
    }

    /// Adds a task; `value` gives that of the column at a position.
    pub fn add(&mut self, value: impl Fn(usize) -> Option<Datum>) {
        let sources = &self.map.sources;
        self.writer.add(|| {
            sources.iter().map(move |source| match *source {
                Source::Given(at) => value(at),
                Source::Default(default) => default,
            })
        });
    }

    /// Writes what is buffered, and closes the table. Returns where the rows are, in their order.
    pub fn close(self) -> Vec<RowHint> {
        let rows = self.writer.close();
        // SAFETY: makes the rows visible to what follows.
        unsafe { pg_sys::CommandCounterIncrement() };
        rows
    }
}

impl TaskMap {
    /// # Safety
    /// The relation is open and locked.
    unsafe fn find(db: &Database, table: Relation, given: &[TaskColumn]) -> TaskMap {
        // SAFETY: an open relation.
        unsafe {
            require_own(db, table);
            let defaults = Defaults::new();
            let sources: Option<Vec<Source>> = columns(table)
                .iter()
                .map(|column| source(&defaults, table, column, given))
                .collect();
            let is_given = |it: &&Source| matches!(it, Source::Given(_));
            let sources = sources
                .filter(|all| is_heap(table) && all.iter().filter(is_given).count() == given.len());
            let sources = sources.unwrap_or_else(|| error::altered("scylla.task").raise());
            TaskMap { table: (*table).rd_id, sources, _defaults: defaults }
        }
    }
}

/// Where a column's values come from; `None`: unknown, or computed.
///
/// # Safety
/// A column of the open relation.
unsafe fn source(
    defaults: &Defaults,
    table: Relation,
    column: &FormData_pg_attribute,
    given: &[TaskColumn],
) -> Option<Source> {
    if column.attisdropped {
        return Some(Source::Default(None));
    }
    if is_computed(column) {
        return None;
    }
    let is_it = |it: &TaskColumn| it.name.as_bytes() == name_of(column).to_bytes();
    if let Some(at) = given.iter().position(is_it) {
        let it = &given[at];
        let takes_null = !(it.is_nullable && column.attnotnull);
        let fits = takes_null && has_type(column, it.kind.element().oid, -1);
        return fits.then_some(Source::Given(at));
    }
    // SAFETY: the caller's promise.
    unsafe { defaults.find(table, column) }.map(Source::Default)
}
