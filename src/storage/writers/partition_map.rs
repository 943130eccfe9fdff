//! How the columns of `scylla.task` become those of a partition of `scylla.finished`. The order of
//! the columns may differ, and others may have added some.

use crate::error;
use crate::pg::datum::{FLOAT, INTEGER, JSONB, Kind, TEXT, TIMESTAMPTZ};
use crate::pg::relcache;
use crate::shmem::database::Database;
use crate::storage::writers::columns::{
    Defaults, columns, find_column, has_type, is_computed, is_heap, name_of, require_own,
};
use pgrx::PgTupleDesc;
use pgrx::pg_sys::{self, Datum, FormData_pg_attribute, Oid, Relation};
use std::cell::Cell;
use std::ffi::CStr;
use std::rc::Rc;

/// The columns that are copied from the live row.
const KEPT: [&CStr; 25] = [
    c"id",
    c"queue",
    c"action",
    c"priority",
    c"post_result",
    c"created",
    c"run_at",
    c"timeout",
    c"max_tries",
    c"retry_interval",
    c"retry_jitter",
    c"num_failures",
    c"key",
    c"group_key",
    c"schedule",
    c"role",
    c"database",
    c"command",
    c"after",
    c"resubmitted_from",
    c"spec",
    c"errors",
    c"history",
    c"database_oid",
    c"meta",
];

/// The columns that settling sets, and whether each may be null.
const GIVEN: [(&CStr, Kind, bool); 6] = [
    (c"updated", TIMESTAMPTZ, false),
    (c"status", TEXT, false),
    (c"progress", FLOAT, false),
    (c"owner", TEXT, true),
    (c"owned_at", TIMESTAMPTZ, true),
    (c"result", JSONB, true),
];

/// The column that a resubmission sets.
const SET_LATER: &CStr = c"resubmitted_as";

/// The values of `GIVEN`, in its order.
pub type Given = [Option<Datum>; GIVEN.len()];

/// Where a column of a settled task comes from; columns of a live one count from 1.
#[derive(Clone, Copy)]
pub enum Source {
    /// Copied from this column of the live row.
    Kept(i16),
    /// This column of the live row, or what it is to be.
    Errors(i16),
    /// `GIVEN[n]`.
    Given(usize),
    /// This column of the live row, plus the try that ends.
    Tries(i16),
    /// Null: a resubmission sets it.
    SetLater,
    /// The default of a column that others have added; null where it was dropped.
    Default(Option<Datum>),
}

/// What was found out about the tables.
pub struct PartitionMap {
    tables: [Oid; 3],
    /// For each column of the partition.
    pub sources: Vec<Source>,
    /// The last column of the live row that is read.
    pub last: i16,
    /// The columns `followed`, `post_result` and `ready` of the live row.
    pub flags: [i16; 3],
    /// Where its `queue` is.
    pub queue: i16,
    /// Where a live task's `schedule` is.
    pub schedule: i16,
    /// Where its `errors` are.
    pub errors: i16,
    /// Keeps what the sources point to.
    _defaults: Defaults,
}

thread_local! {
    static KNOWN: Cell<Option<Rc<PartitionMap>>> = const { Cell::new(None) };
}

/// How rows move from `task` to `partition`, a partition of `finished`. All three are open and
/// locked, so none can change meanwhile. The answer is kept until one changes.
pub fn partition_map(
    db: &Database,
    task: Relation,
    finished: Relation,
    partition: Relation,
) -> Rc<PartitionMap> {
    // SAFETY: open relations.
    let tables = [task, finished, partition].map(|table| unsafe { (*table).rd_id });
    let known = KNOWN.take().filter(|known| known.tables == tables);
    let known = known.unwrap_or_else(|| {
        relcache::on_change(table_changed);
        // SAFETY: open relations.
        let found = unsafe {
            [task, finished, partition].into_iter().for_each(|table| require_own(db, table));
            find(tables, task, finished, partition)
        };
        Rc::new(found.unwrap_or_else(|| error::altered("scylla.finished").raise()))
    });
    KNOWN.set(Some(known.clone()));
    known
}

fn table_changed(table: Oid) {
    let known = KNOWN.take();
    KNOWN.set(known.filter(|it| table != pg_sys::InvalidOid && !it.tables.contains(&table)));
}

/// `None`: a table has been altered.
///
/// # Safety
/// The relations are open.
unsafe fn find(
    tables: [Oid; 3],
    task: Relation,
    finished: Relation,
    partition: Relation,
) -> Option<PartitionMap> {
    // SAFETY: open relations.
    unsafe {
        let (live, above, settled) = (columns(task), columns(finished), columns(partition));
        let defaults = Defaults::new();
        let added = |name: &CStr| defaults.find(finished, find_column(&above, name)?);
        let sources = settled.iter().map(|it| source(it, &live, added));
        let sources = sources.collect::<Option<Vec<Source>>>().filter(|all| are_whole(all))?;
        let place = |name: &CStr| find_column(&live, name).map(|it| it.attnum);
        let fits = is_heap(task) && is_heap(partition) && is_partitioned_by_updated(tables[1]);
        fits.then_some(())?;
        Some(PartitionMap {
            tables,
            sources,
            last: live.len() as i16,
            flags: [place(c"followed")?, place(c"post_result")?, place(c"ready")?],
            queue: place(c"queue")?,
            schedule: place(c"schedule")?,
            errors: place(c"errors")?,
            _defaults: defaults,
        })
    }
}

fn is_partitioned_by_updated(finished: Oid) -> bool {
    let argument = [Some(finished.into())];
    // SAFETY: a function of PostgreSQL's, with its argument; it answers with a text.
    let key = unsafe { pgrx::direct_function_call::<String>(pg_sys::pg_get_partkeydef, &argument) };
    key.as_deref() == Some("RANGE (updated)")
}

/// Where a column of the partition comes from; `None`: unknown, or computed. `added`: the default
/// of a column that others have added.
fn source(
    column: &FormData_pg_attribute,
    live: &PgTupleDesc,
    added: impl Fn(&CStr) -> Option<Option<Datum>>,
) -> Option<Source> {
    if column.attisdropped {
        return Some(Source::Default(None));
    }
    if is_computed(column) {
        return None;
    }
    let name = name_of(column);
    if name == SET_LATER {
        return (!column.attnotnull).then_some(Source::SetLater);
    }
    if let Some(at) = GIVEN.iter().position(|(given, ..)| *given == name) {
        let (_, kind, null) = GIVEN[at];
        let takes_null = !(null && column.attnotnull);
        return (takes_null && has_type(column, kind.oid, -1)).then_some(Source::Given(at));
    }
    let is_ours = [c"tries", c"errors"].contains(&name) || KEPT.contains(&name);
    if !is_ours {
        return added(name).map(Source::Default);
    }
    let from = find_column(live, name)?;
    let takes_null = from.attnotnull || !column.attnotnull;
    if !takes_null || !has_type(column, from.atttypid, from.atttypmod) {
        None
    } else if name == c"tries" {
        has_type(column, INTEGER.oid, -1).then_some(Source::Tries(from.attnum))
    } else if name == c"errors" {
        Some(Source::Errors(from.attnum))
    } else {
        Some(Source::Kept(from.attnum))
    }
}

/// Whether every expected column is there. Column names are unique within a table, so counting is
/// enough.
fn are_whole(sources: &[Source]) -> bool {
    let there = sources.iter().filter(|it| !matches!(it, Source::Default(_))).count();
    there == KEPT.len() + GIVEN.len() + 2
}
