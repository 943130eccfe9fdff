//! Writes settled tasks into today's partition of `scylla.finished`.

use crate::error;
use crate::extension::database::Database;
use crate::pg::datum;
use crate::storage::columns::Source;
use crate::storage::lookup::Row;
use crate::storage::writers::partition_map::{PartitionMap, Settled, partition_map};
use crate::storage::writers::table_writer::TableWriter;
use board::Wall;
use pgrx::pg_sys::{self, Relation};
use std::rc::Rc;

const LOCK: i32 = pg_sys::RowExclusiveLock as i32;
/// Locks are kept until the end of the transaction.
const KEEP: i32 = pg_sys::NoLock as i32;

/// The open partition.
pub struct PartitionWriter {
    finished: Relation,
    partition: TableWriter,
    pub map: Rc<PartitionMap>,
}

impl PartitionWriter {
    /// Opens the partition for tasks that settle at time `at`. To be called with the rights of the
    /// tables' owner: an index may call functions.
    pub fn open(
        db: &Database,
        task: Relation,
        at: Wall,
        command: pg_sys::CommandId,
    ) -> PartitionWriter {
        // SAFETY: the tables are locked before they are read, the parent first, as statements do.
        // An error closes them.
        unsafe {
            let finished = pg_sys::try_table_open(db.finished, LOCK);
            if finished.is_null() {
                error::not_as_installed().raise();
            }
            let partition = partition(finished, at)
                .unwrap_or_else(|| error::altered("scylla.finished").raise());
            let partition = pg_sys::table_open(partition, LOCK);
            let map = partition_map(db, task, finished, partition);
            let partition = TableWriter::new(partition, command);
            PartitionWriter { finished, partition, map }
        }
    }

    /// Adds a live task's row as a settled one.
    pub fn add(&mut self, row: Row, settled: impl FnOnce() -> Settled) {
        let map = &self.map;
        // Toast pointers are copied as they are: inserting a row fetches the other table's toast.
        self.partition.add(|| {
            let settled = settled();
            map.sources.all.iter().map(move |source| match *source {
                Source::Given(at) if at < settled.len() => settled[at],
                Source::Given(at) => row.get(map.kept[at - settled.len()]),
                Source::Default(default) => default,
            })
        });
    }

    /// Writes what is buffered, and closes the partition.
    pub fn close(self) {
        self.partition.close();
        // SAFETY: what `open` opened.
        unsafe { pg_sys::table_close(self.finished, KEEP) };
    }
}

/// The partition for rows of time `at`, or the default one. `None`: neither is there.
///
/// # Safety
/// The relation is open, and partitioned by ranges of one timestamptz if it is partitioned at all.
unsafe fn partition(finished: Relation, at: Wall) -> Option<pg_sys::Oid> {
    // SAFETY: bounds are in ascending order; `indexes` has one entry more than there are.
    unsafe {
        if (*(*finished).rd_rel).relkind as u8 != pg_sys::RELKIND_PARTITIONED_TABLE {
            return None;
        }
        // A partition that is being detached takes no more rows.
        let parts = &*pg_sys::RelationGetPartitionDesc(finished, true);
        if parts.nparts == 0 || (*parts.boundinfo).strategy as u8 != b'r' {
            return None;
        }
        let bounds = &*parts.boundinfo;
        let is_ahead = |bound: &usize| match **bounds.kind.add(*bound) {
            pg_sys::PartitionRangeDatumKind::PARTITION_RANGE_DATUM_MINVALUE => false,
            pg_sys::PartitionRangeDatumKind::PARTITION_RANGE_DATUM_MAXVALUE => true,
            _ => datum::wall(**bounds.datums.add(*bound)) > at,
        };
        let bound = (0..bounds.ndatums as usize).rev().take_while(is_ahead).last();
        let number = bound.map(|bound| *bounds.indexes.add(bound)).filter(|it| *it >= 0);
        let number = usize::try_from(number.unwrap_or(bounds.default_index)).ok()?;
        Some(*parts.oids.add(number))
    }
}
