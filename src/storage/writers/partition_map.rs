//! How the columns of `scylla.task` become those of a partition of `scylla.finished`, and whether
//! rows may be moved past the executor. They may when the tables are as the extension made them;
//! only the partition's indexes and the order of columns may differ.

use crate::pg::datum::{FLOAT, INTEGER, JSONB, Kind, TEXT, TIMESTAMPTZ};
use crate::pg::relcache;
use crate::storage::writers::columns::{
    checks_commands_only, columns, find_column, has_type, is_computed, is_plain, name_of,
};
use crate::storage::writers::indexes::indexes;
use pgrx::PgTupleDesc;
use pgrx::pg_sys::{self, Oid, Relation};
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
pub type Given = [Option<pg_sys::Datum>; GIVEN.len()];

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
    /// Null: the column was dropped, or is set later.
    Null,
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
    /// Where its `command` is.
    pub command: i16,
    /// Where its `errors` are.
    pub errors: i16,
    /// False: only the SQL statement may move rows.
    fits: bool,
}

thread_local! {
    static KNOWN: Cell<Option<Rc<PartitionMap>>> = const { Cell::new(None) };
}

/// How rows move from `task` to `partition`, a partition of `finished`; `None`: only by the SQL
/// statement. All three are open and locked, so none can change meanwhile. The answer is kept until
/// one changes.
pub fn partition_map(
    task: Relation,
    finished: Relation,
    partition: Relation,
) -> Option<Rc<PartitionMap>> {
    // SAFETY: open relations.
    let tables = [task, finished, partition].map(|table| unsafe { (*table).rd_id });
    let known = KNOWN.take().filter(|known| known.tables == tables);
    let known = known.unwrap_or_else(|| {
        relcache::on_change(table_changed);
        // SAFETY: open relations.
        Rc::new(unsafe { find(tables, task, finished, partition) })
    });
    KNOWN.set(Some(known.clone()));
    known.fits.then_some(known)
}

fn table_changed(table: Oid) {
    let known = KNOWN.take();
    KNOWN.set(known.filter(|it| table != pg_sys::InvalidOid && !it.tables.contains(&table)));
}

/// # Safety
/// The relations are open.
unsafe fn find(
    tables: [Oid; 3],
    task: Relation,
    finished: Relation,
    partition: Relation,
) -> PartitionMap {
    // SAFETY: open relations.
    unsafe {
        let (live, settled) = (columns(task), columns(partition));
        let sources: Option<Vec<Source>> = settled.iter().map(|it| source(it, &live)).collect();
        let flags = [c"followed", c"post_result", c"ready"]
            .map(|name| Some(find_column(&live, name)?.attnum));
        let [schedule, queue, command, errors] = [c"schedule", c"queue", c"command", c"errors"]
            .map(|name| find_column(&live, name).map(|it| it.attnum));
        let fits = is_plain(task, pg_sys::RELKIND_RELATION)
            && !(*(*task).rd_rel).relhassubclass
            && is_plain(finished, pg_sys::RELKIND_PARTITIONED_TABLE)
            && is_partitioned_by_updated(tables[1])
            && is_plain(partition, pg_sys::RELKIND_RELATION)
            && indexes(partition).all().iter().all(|it| it.is_plain && it.is_builtin)
            && checks_commands_only(finished, &columns(finished))
            && checks_commands_only(partition, &settled)
            && sources.as_deref().is_some_and(are_whole)
            && flags.iter().all(Option::is_some)
            && schedule.is_some()
            && queue.is_some()
            && command.is_some()
            && errors.is_some();
        PartitionMap {
            tables,
            sources: sources.unwrap_or_default(),
            last: live.len() as i16,
            flags: flags.map(Option::unwrap_or_default),
            queue: queue.unwrap_or_default(),
            schedule: schedule.unwrap_or_default(),
            command: command.unwrap_or_default(),
            errors: errors.unwrap_or_default(),
            fits,
        }
    }
}

fn is_partitioned_by_updated(finished: Oid) -> bool {
    let argument = [Some(finished.into())];
    // SAFETY: a function of PostgreSQL's, with its argument; it answers with a text.
    let key = unsafe { pgrx::direct_function_call::<String>(pg_sys::pg_get_partkeydef, &argument) };
    key.as_deref() == Some("RANGE (updated)")
}

/// Where a column of the partition comes from; `None`: unknown, or computed.
fn source(column: &pg_sys::FormData_pg_attribute, live: &PgTupleDesc) -> Option<Source> {
    if column.attisdropped {
        return Some(Source::Null);
    }
    if is_computed(column) {
        return None;
    }
    let name = name_of(column);
    if name == SET_LATER {
        return (!column.attnotnull).then_some(Source::Null);
    }
    if let Some(at) = GIVEN.iter().position(|(given, ..)| *given == name) {
        let (_, kind, null) = GIVEN[at];
        let takes_null = !(null && column.attnotnull);
        return (takes_null && has_type(column, kind.oid, -1)).then_some(Source::Given(at));
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
        KEPT.contains(&name).then_some(Source::Kept(from.attnum))
    }
}

/// Whether every expected column is there. Column names are unique within a table, so counting is
/// enough.
fn are_whole(sources: &[Source]) -> bool {
    let there = sources.iter().filter(|it| !matches!(it, Source::Null)).count();
    there == KEPT.len() + GIVEN.len() + 1
}
