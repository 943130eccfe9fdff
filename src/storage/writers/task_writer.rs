//! Writes submitted tasks into `scylla.task`, where no key and no id of theirs can be a duplicate.

use crate::error;
use crate::extension::database::Database;
use crate::pg::datum::Kind;
use crate::pg::relcache;
use crate::storage::columns::{Given, Source, Sources};
use crate::storage::writers::table_writer::TableWriter;
use board::RowHint;
use pgrx::pg_sys::{self, Datum, Oid};
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

impl TaskColumn {
    fn given(self) -> Given {
        let TaskColumn { name, kind, is_nullable } = self;
        Given { name, oid: kind.element().oid, modifier: -1, is_nullable }
    }
}

/// What was found out about the table.
struct TaskMap {
    table: Oid,
    sources: Sources,
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
                error::not_as_installed().raise();
            }
            let known = KNOWN.take().filter(|known| known.table == db.task);
            let map = known.unwrap_or_else(|| {
                relcache::on_change(table_changed);
                let given: Vec<Given> = given.map(TaskColumn::given).collect();
                let sources = Sources::find(db, table, table, &given);
                Rc::new(TaskMap { table: db.task, sources })
            });
            KNOWN.set(Some(map.clone()));
            let command = pg_sys::GetCurrentCommandId(true);
            TaskWriter { writer: TableWriter::new(table, command), map }
        }
    }

    /// Adds a task; `value` gives that of the column at a position.
    pub fn add(&mut self, value: impl Fn(usize) -> Option<Datum>) {
        let sources = &self.map.sources.all;
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
