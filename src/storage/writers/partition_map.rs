//! How the columns of `scylla.task` become those of a partition of `scylla.finished`. The order of
//! the columns may differ, and others may have added some.

use crate::error;
use crate::extension::database::Database;
use crate::pg::datum::{FLOAT, INTEGER, JSONB, Kind, TEXT, TIMESTAMPTZ};
use crate::pg::relcache;
use crate::storage::columns::{Given, Sources, columns, find_column};
use pgrx::pg_sys::{self, Datum, Oid, Relation};
use std::cell::Cell;
use std::rc::Rc;

/// The columns that are copied from the live row.
const KEPT: [&str; 24] = [
    "id",
    "queue",
    "action",
    "priority",
    "post_result",
    "created",
    "run_at",
    "timeout",
    "max_tries",
    "retry_interval",
    "retry_jitter",
    "num_failures",
    "key",
    "group_key",
    "schedule",
    "role",
    "database",
    "command",
    "after",
    "resubmitted_from",
    "spec",
    "history",
    "database_oid",
    "meta",
];

/// The columns that settling sets, and whether each may be null.
const SET: [(&str, Kind, bool); 8] = [
    ("updated", TIMESTAMPTZ, false),
    ("status", TEXT, false),
    ("progress", FLOAT, false),
    ("owner", TEXT, true),
    ("owned_at", TIMESTAMPTZ, true),
    ("result", JSONB, true),
    ("tries", INTEGER, false),
    ("errors", JSONB, false),
];

/// The values of `SET`, in its order.
pub type Settled = [Option<Datum>; SET.len()];

/// What was found out about the tables.
pub struct PartitionMap {
    tables: [Oid; 3],
    /// Where the partition's columns come from: `SET`, then `kept`.
    pub sources: Sources,
    /// The columns of a live row that are copied. They count from 1.
    pub kept: [i16; KEPT.len()],
    /// The last column of the live row that is read.
    pub last: i16,
    /// The columns `followed`, `post_result` and `ready` of the live row.
    pub flags: [i16; 3],
    pub queue: i16,
    pub schedule: i16,
    pub tries: i16,
    pub errors: i16,
}

thread_local! {
    static KNOWN: Cell<Option<Rc<PartitionMap>>> = const { Cell::new(None) };
}

/// How rows move from `task` to `partition`, a partition of `finished`. The answer is kept until
/// one changes.
///
/// # Safety
/// The relations are open and locked, so none can change meanwhile.
pub unsafe fn partition_map(
    db: &Database,
    task: Relation,
    finished: Relation,
    partition: Relation,
) -> Rc<PartitionMap> {
    // SAFETY: the caller's promise.
    let tables = [task, finished, partition].map(|table| unsafe { (*table).rd_id });
    let known = KNOWN.take().filter(|known| known.tables == tables);
    let known = known.unwrap_or_else(|| {
        relcache::on_change(table_changed);
        // SAFETY: as above.
        let live = unsafe { columns(task) };
        let column = |name| {
            find_column(&live, name).unwrap_or_else(|| error::altered("scylla.task").raise())
        };
        let set = SET.map(|(name, kind, is_nullable)| Given {
            name,
            oid: kind.oid,
            modifier: -1,
            is_nullable,
        });
        let kept = KEPT.map(|name| {
            let from = column(name);
            let (oid, modifier) = (from.atttypid, from.atttypmod);
            Given { name, oid, modifier, is_nullable: !from.attnotnull }
        });
        let given: Vec<Given> = set.into_iter().chain(kept).collect();
        let number = |name| column(name).attnum;
        Rc::new(PartitionMap {
            tables,
            // SAFETY: as above.
            sources: unsafe { Sources::find(db, partition, finished, &given) },
            kept: KEPT.map(number),
            last: live.len() as i16,
            flags: ["followed", "post_result", "ready"].map(number),
            queue: number("queue"),
            schedule: number("schedule"),
            tries: number("tries"),
            errors: number("errors"),
        })
    });
    KNOWN.set(Some(known.clone()));
    known
}

fn table_changed(table: Oid) {
    let known = KNOWN.take();
    KNOWN.set(known.filter(|it| table != pg_sys::InvalidOid && !it.tables.contains(&table)));
}
