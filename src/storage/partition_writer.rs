//! The partition that takes what settles now. Its rows are put in past the executor, many at a time,
//! as PostgreSQL does for its catalogs.

use crate::pg::datum;
use crate::shmem::database::Database;
use crate::storage::column_map::{ColumnMap, Given, Source, column_map};
use crate::storage::lookup::Row;
use board::Wall;
use pgrx::pg_sys::{self, Datum, Relation};
use std::ptr;
use std::rc::Rc;

/// How many rows are put in at once at the most, and of how many bytes.
const MOST: usize = 256;
const MOST_BYTES: u32 = 65_536;

const LOCK: i32 = pg_sys::RowExclusiveLock as i32;
/// Locks stand until the end of the transaction.
const KEEP: i32 = pg_sys::NoLock as i32;

/// The open partition. What making a row needs goes when it is put in; what a scan that is open
/// meanwhile allocates must not.
pub struct PartitionWriter {
    finished: Relation,
    partition: Relation,
    indexes: pg_sys::CatalogIndexState,
    pub map: Rc<ColumnMap>,
    command: pg_sys::CommandId,
    /// The first `filled` hold rows that are not put in yet, of so many bytes.
    slots: Vec<*mut pg_sys::TupleTableSlot>,
    filled: usize,
    bytes: u32,
    /// Of the row that is being made.
    values: Vec<Datum>,
    nulls: Vec<bool>,
    outside: pg_sys::MemoryContext,
    inside: pg_sys::MemoryContext,
}

impl PartitionWriter {
    /// Opens the partition for tasks of an open table that settle at this time; `None`: its rows are
    /// to be put in by a statement.
    pub fn open(
        db: &Database,
        task: Relation,
        at: Wall,
        command: pg_sys::CommandId,
    ) -> Option<PartitionWriter> {
        // SAFETY: the tables are locked before they are looked at, the parent first, as statements
        // do; what was opened in vain is closed.
        unsafe {
            let finished = pg_sys::try_table_open(db.finished, LOCK);
            if finished.is_null() {
                return None;
            }
            let partition = partition(finished, at).map(|oid| pg_sys::table_open(oid, LOCK));
            let known = partition.and_then(|partition| {
                Some((column_map(task, finished, partition)?, indexes(partition)?))
            });
            let (Some(partition), Some((map, indexes))) = (partition, known) else {
                partition
                    .into_iter()
                    .chain([finished])
                    .for_each(|it| pg_sys::table_close(it, KEEP));
                return None;
            };
            let outside = pg_sys::CurrentMemoryContext;
            let inside = pg_sys::AllocSetContextCreateInternal(
                outside,
                c"scylla: rows that settle".as_ptr(),
                pg_sys::ALLOCSET_DEFAULT_MINSIZE as usize,
                pg_sys::ALLOCSET_DEFAULT_INITSIZE as usize,
                pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
            );
            let width = map.sources.len();
            Some(PartitionWriter {
                finished,
                partition,
                indexes,
                map,
                command,
                slots: Vec::new(),
                filled: 0,
                bytes: 0,
                values: vec![Datum::from(0); width],
                nulls: vec![true; width],
                outside,
                inside,
            })
        }
    }

    /// Adds the row of a live task as that of a settled one, which had so many tries more.
    pub fn add(&mut self, row: Row, tries: i32, given: impl FnOnce() -> Given) {
        if self.filled == MOST || self.bytes > MOST_BYTES {
            self.flush();
        }
        // SAFETY: a context of this partition's, left below.
        unsafe { pg_sys::MemoryContextSwitchTo(self.inside) };
        let given = given();
        // Toast pointers go as they are: putting in a row fetches another table's toast.
        for (at, source) in self.map.sources.iter().enumerate() {
            let value = match *source {
                Source::Kept(column) => row.get(column),
                Source::Given(number) => given[number],
                Source::Tries(column) => {
                    Some(Datum::from(datum::number(row.get(column)) as i32 + tries))
                }
                Source::Nothing => None,
            };
            self.nulls[at] = value.is_none();
            self.values[at] = value.unwrap_or(Datum::from(0));
        }
        // SAFETY: as many values as the partition has columns. A slot owns the tuple in it, and both
        // outlive what is inside.
        unsafe {
            let columns = (*self.partition).rd_att;
            assert_eq!((*columns).natts as usize, self.values.len());
            pg_sys::MemoryContextSwitchTo(self.outside);
            if self.filled == self.slots.len() {
                let heap = &raw const pg_sys::TTSOpsHeapTuple;
                self.slots.push(pg_sys::MakeSingleTupleTableSlot(columns, heap));
            }
            let (values, nulls) = (self.values.as_mut_ptr(), self.nulls.as_mut_ptr());
            let tuple = pg_sys::heap_form_tuple(columns, values, nulls);
            self.bytes += (*tuple).t_len;
            pg_sys::ExecStoreHeapTuple(tuple, self.slots[self.filled], true);
        }
        self.filled += 1;
    }

    /// Puts in the rows that were added.
    fn flush(&mut self) {
        let (filled, slots) = (self.filled as i32, self.slots.as_mut_ptr());
        // SAFETY: the first slots hold rows of the open table; its indexes are open, too, and none
        // has an expression, which alone would need an executor's state.
        unsafe {
            pg_sys::MemoryContextSwitchTo(self.inside);
            let none = ptr::null_mut();
            pg_sys::heap_multi_insert(self.partition, slots, filled, self.command, 0, none);
            let (mut values, mut nulls) = ([Datum::from(0); KEYS], [false; KEYS]);
            for slot in &self.slots[..self.filled] {
                for (index, info) in each(self.indexes).filter(|(_, it)| (**it).ii_ReadyForInserts)
                {
                    let (values, nulls) = (values.as_mut_ptr(), nulls.as_mut_ptr());
                    pg_sys::FormIndexDatum(info, *slot, ptr::null_mut(), values, nulls);
                    // Not the tuple's own place: one with toast was put in as a copy.
                    let place = &raw mut (**slot).tts_tid;
                    let unique = match (*(*index).rd_index).indisunique {
                        true => pg_sys::IndexUniqueCheck::UNIQUE_CHECK_YES,
                        false => pg_sys::IndexUniqueCheck::UNIQUE_CHECK_NO,
                    };
                    pg_sys::index_insert(
                        index,
                        values,
                        nulls,
                        place,
                        self.partition,
                        unique,
                        false,
                        info,
                    );
                }
            }
            pg_sys::MemoryContextSwitchTo(self.outside);
            pg_sys::MemoryContextReset(self.inside);
        }
        (self.filled, self.bytes) = (0, 0);
    }

    /// Puts in what is left, and closes the partition.
    pub fn close(mut self) {
        if self.filled > 0 {
            self.flush();
        }
        // SAFETY: what open opened, in the other order.
        unsafe {
            pg_sys::MemoryContextDelete(self.inside);
            self.slots.iter().for_each(|slot| pg_sys::ExecDropSingleTupleTableSlot(*slot));
            pg_sys::CatalogCloseIndexes(self.indexes);
            pg_sys::table_close(self.partition, KEEP);
            pg_sys::table_close(self.finished, KEEP);
        }
    }
}

const KEYS: usize = pg_sys::INDEX_MAX_KEYS as usize;

/// The partition that takes a row of this time; `None`: the default one, or none.
///
/// # Safety
/// The relation is open, and partitioned by ranges of one timestamptz if it is partitioned at all.
unsafe fn partition(finished: Relation, at: Wall) -> Option<pg_sys::Oid> {
    // SAFETY: bounds are in ascending order; `indexes` has one entry more than there are.
    unsafe {
        if (*(*finished).rd_rel).relkind as u8 != pg_sys::RELKIND_PARTITIONED_TABLE {
            return None;
        }
        // One that is being detached takes nothing more.
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

/// The indexes of an open table; `None` if there is one that takes more than the values of columns.
///
/// # Safety
/// The relation is open and locked.
unsafe fn indexes(table: Relation) -> Option<pg_sys::CatalogIndexState> {
    // SAFETY: opened here, and closed if in vain.
    unsafe {
        let indexes = pg_sys::CatalogOpenIndexes(table);
        let are_plain = each(indexes).all(|(index, info)| {
            (*(*index).rd_rel).relam == pg_sys::BTREE_AM_OID
                && (*(*index).rd_index).indimmediate
                && (*info).ii_Expressions.is_null()
                && (*info).ii_Predicate.is_null()
                && (*info).ii_ExclusionOps.is_null()
        });
        if !are_plain {
            pg_sys::CatalogCloseIndexes(indexes);
        }
        are_plain.then_some(indexes)
    }
}

/// # Safety
/// The indexes are open.
unsafe fn each(
    indexes: pg_sys::CatalogIndexState,
) -> impl Iterator<Item = (Relation, *mut pg_sys::IndexInfo)> {
    // SAFETY: two arrays of one length.
    unsafe {
        let (count, relations, infos) = (
            (*indexes).ri_NumIndices as usize,
            (*indexes).ri_IndexRelationDescs,
            (*indexes).ri_IndexRelationInfo,
        );
        (0..count).map(move |at| (*relations.add(at), *infos.add(at)))
    }
}
