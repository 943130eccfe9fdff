//! Writes settled tasks into today's partition of `scylla.finished`.

use crate::extension::database::Database;
use crate::pg::datum;
use crate::storage::lookup::Row;
use crate::storage::writers::partition_map::{Given, PartitionMap, Source, partition_map};
use crate::storage::writers::table_writer::TableWriter;
use board::Wall;
use pgrx::pg_sys::{self, Datum, Relation};
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
    /// Opens the partition for tasks that settle at time `at`; `None`: a statement has to insert
    /// them.
    pub fn open(
        db: &Database,
        task: Relation,
        at: Wall,
        command: pg_sys::CommandId,
    ) -> Option<PartitionWriter> {
        // SAFETY: the tables are locked before they are read, the parent first, as statements do.
        // Every relation that was opened is closed when the answer is `None`.
        unsafe {
            let finished = pg_sys::try_table_open(db.finished, LOCK);
            if finished.is_null() {
                return None;
            }
            let partition = partition(finished, at).map(|oid| pg_sys::table_open(oid, LOCK));
            let map = partition.and_then(|partition| partition_map(task, finished, partition));
            let (Some(partition), Some(map)) = (partition, map) else {
                partition
                    .into_iter()
                    .chain([finished])
                    .for_each(|it| pg_sys::table_close(it, KEEP));
                return None;
            };
            Some(PartitionWriter { finished, partition: TableWriter::new(partition, command), map })
        }
    }

    /// Adds a live task's row as a settled one; `tries` is added to its tries. `errors`: its
    /// errors, if they are not those of the live row.
    pub fn add(
        &mut self,
        row: Row,
        tries: i32,
        errors: Option<Datum>,
        given: impl FnOnce() -> Given,
    ) {
        let sources = &self.map.sources;
        // Toast pointers are copied as they are: inserting a row fetches the other table's toast.
        self.partition.add(|| {
            let given = given();
            sources.iter().map(move |source| match *source {
                Source::Kept(column) => row.get(column),
                Source::Errors(column) => errors.or_else(|| row.get(column)),
                Source::Given(number) => given[number],
                Source::Tries(column) => {
                    Some(Datum::from(datum::number(row.get(column)) as i32 + tries))
                }
                Source::Null => None,
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

/// The partition for rows of time `at`; `None`: the default partition, or none.
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
        let bound = (0..bounds.ndatums as usize).rev().take_while(is_ahead).last()?;
        let number = usize::try_from(*bounds.indexes.add(bound)).ok()?;
        Some(*parts.oids.add(number))
    }
}
