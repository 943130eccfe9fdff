//! Writes submitted tasks into `scylla.task`, where no key and no id of theirs can be a duplicate.

use crate::extension::database::Database;
use crate::pg::datum::Kind;
use crate::pg::relcache;
use crate::storage::writers::columns::{
    checks_commands_only, columns, has_type, is_computed, is_plain, name_of,
};
use crate::storage::writers::indexes::{Index, indexes};
use crate::storage::writers::table_writer::TableWriter;
use board::RowHint;
use pgrx::pg_sys::{self, Datum, FormData_pg_attribute, Oid, Relation};
use std::cell::Cell;
use std::ffi::CStr;
use std::rc::Rc;

/// The unique indexes that the extension made.
const UNIQUE: [&CStr; 3] = [c"task_pkey", c"task_key", c"task_message"];

const LOCK: i32 = pg_sys::RowExclusiveLock as i32;
/// Locks are kept until the end of the transaction.
const KEEP: i32 = pg_sys::NoLock as i32;

/// The length of a type whose values have a length of their own.
const VARLENA: i32 = -1;

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
    /// Has the defaults.
    memory: pg_sys::MemoryContext,
    /// For each column of the table.
    sources: Vec<Source>,
    /// False: only the SQL statement may insert rows.
    fits: bool,
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
    /// Opens the table for rows with these columns; `None`: a statement has to insert them. To be
    /// called with the rights of the tables' owner, as a statement is run.
    pub fn open(db: &Database, given: impl Iterator<Item = TaskColumn>) -> Option<TaskWriter> {
        // SAFETY: the table is locked before it is read, and closed when the answer is `None`.
        unsafe {
            let table = pg_sys::try_table_open(db.task, LOCK);
            if table.is_null() {
                return None;
            }
            let known = KNOWN.take().filter(|known| known.table == db.task);
            let map = known.unwrap_or_else(|| {
                relcache::on_change(table_changed);
                Rc::new(TaskMap::find(table, given.collect()))
            });
            KNOWN.set(Some(map.clone()));
            if !map.fits {
                pg_sys::table_close(table, KEEP);
                return None;
            }
            let command = pg_sys::GetCurrentCommandId(true);
            Some(TaskWriter { writer: TableWriter::new(table, command), map })
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
    unsafe fn find(table: Relation, given: Vec<TaskColumn>) -> TaskMap {
        // SAFETY: an open relation. The context is deleted by `drop`, also when an error comes in
        // between.
        unsafe {
            let mut map = TaskMap {
                table: (*table).rd_id,
                memory: pg_sys::AllocSetContextCreateInternal(
                    pg_sys::TopMemoryContext,
                    c"scylla: defaults of tasks".as_ptr(),
                    pg_sys::ALLOCSET_SMALL_MINSIZE as usize,
                    pg_sys::ALLOCSET_SMALL_INITSIZE as usize,
                    pg_sys::ALLOCSET_SMALL_MAXSIZE as usize,
                ),
                sources: Vec::new(),
                fits: false,
            };
            let columns = columns(table);
            let sources: Option<Vec<Source>> =
                columns.iter().map(|column| map.source(table, column, &given)).collect();
            map.sources = sources.unwrap_or_default();
            let found = map.sources.iter().filter(|it| matches!(it, Source::Given(_))).count();
            map.fits = found == given.len()
                && is_plain(table, pg_sys::RELKIND_RELATION)
                && !(*(*table).rd_rel).relispartition
                && indexes(table).all().iter().all(has_no_other_duplicates)
                && checks_commands_only(table, &columns);
            map
        }
    }

    /// Where a column's values come from; `None`: unknown, or computed.
    ///
    /// # Safety
    /// A column of the open relation.
    unsafe fn source(
        &self,
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
        // SAFETY: an expression or null; a constant is copied to where this map's are.
        unsafe {
            let default = pg_sys::build_column_default(table, column.attnum.into());
            if default.is_null() {
                return (!column.attnotnull).then_some(Source::Default(None));
            }
            if (*default).type_ != pg_sys::NodeTag::T_Const {
                return None;
            }
            let constant = &*default.cast::<pg_sys::Const>();
            let value = constant.constvalue;
            if constant.constisnull || !(constant.constbyval || constant.constlen == VARLENA) {
                return None;
            }
            let before = pg_sys::MemoryContextSwitchTo(self.memory);
            let value = match constant.constbyval {
                true => value,
                false => Datum::from(pg_sys::pg_detoast_datum_copy(value.cast_mut_ptr())),
            };
            pg_sys::MemoryContextSwitchTo(before);
            Some(Source::Default(Some(value)))
        }
    }
}

impl Drop for TaskMap {
    fn drop(&mut self) {
        // SAFETY: made by `find`.
        unsafe { pg_sys::MemoryContextDelete(self.memory) };
    }
}

/// Whether an index refuses no duplicates but those of the extension's own.
fn has_no_other_duplicates(index: &Index) -> bool {
    index.is_plain && (!index.is_unique || UNIQUE.contains(&index.name()))
}
