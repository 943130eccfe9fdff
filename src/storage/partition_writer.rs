//! Writes settled tasks into today's partition of `scylla.finished`, past the executor and many
//! rows at a time, as PostgreSQL does for its catalogs.

use crate::pg::datum;
use crate::shmem::database::Database;
use crate::storage::column_map::{ColumnMap, Given, Source, column_map};
use crate::storage::lookup::Row;
use board::Wall;
use pgrx::pg_sys::{self, Datum, Relation};
use std::ffi::c_void;
use std::ptr;
use std::rc::Rc;

/// How many rows, and how many bytes, are buffered before they are written.
const MOST: usize = 256;
const MOST_BYTES: u32 = 65_536;

const LOCK: i32 = pg_sys::RowExclusiveLock as i32;
/// Locks are kept until the end of the transaction.
const KEEP: i32 = pg_sys::NoLock as i32;

/// The open partition. Memory for building rows is in a context of its own, reset after each write:
/// a scan that is open meanwhile keeps its allocations elsewhere.
pub struct PartitionWriter {
    finished: Relation,
    partition: Relation,
    indexes: pg_sys::CatalogIndexState,
    predicates: Predicates,
    pub map: Rc<ColumnMap>,
    command: pg_sys::CommandId,
    /// The first `filled` slots hold buffered rows, `bytes` long in all.
    slots: Vec<*mut pg_sys::TupleTableSlot>,
    filled: usize,
    bytes: u32,
    /// The row that is being built.
    values: Vec<Datum>,
    nulls: Vec<bool>,
    outside: pg_sys::MemoryContext,
    inside: pg_sys::MemoryContext,
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
                predicates: Predicates::of(indexes),
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

    /// Adds a live task's row as a settled one; `tries` is added to its tries.
    pub fn add(&mut self, row: Row, tries: i32, given: impl FnOnce() -> Given) {
        if self.filled == MOST || self.bytes > MOST_BYTES {
            self.flush();
        }
        // SAFETY: this writer's own context; switched back below.
        unsafe { pg_sys::MemoryContextSwitchTo(self.inside) };
        let given = given();
        // Toast pointers are copied as they are: inserting a row fetches the other table's toast.
        for (at, source) in self.map.sources.iter().enumerate() {
            let value = match *source {
                Source::Kept(column) => row.get(column),
                Source::Given(number) => given[number],
                Source::Tries(column) => {
                    Some(Datum::from(datum::number(row.get(column)) as i32 + tries))
                }
                Source::Dropped => None,
            };
            self.nulls[at] = value.is_none();
            self.values[at] = value.unwrap_or(Datum::from(0));
        }
        // SAFETY: as many values as the partition has columns. A slot owns its tuple; both are
        // allocated in the outer context, which outlives the inner one.
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

    /// Writes the buffered rows and their index entries.
    fn flush(&mut self) {
        let (filled, slots) = (self.filled as i32, self.slots.as_mut_ptr());
        // SAFETY: the first `filled` slots hold rows of the open table, and its indexes are open.
        // No index has an expression, so forming its keys needs no executor state.
        unsafe {
            pg_sys::MemoryContextSwitchTo(self.inside);
            let none = ptr::null_mut();
            pg_sys::heap_multi_insert(self.partition, slots, filled, self.command, 0, none);
            let (mut values, mut nulls) = ([Datum::from(0); KEYS], [false; KEYS]);
            for slot in &self.slots[..self.filled] {
                self.predicates.look_at(*slot);
                for (at, (index, info)) in each(self.indexes).enumerate() {
                    if !(*info).ii_ReadyForInserts || !self.predicates.hold(at) {
                        continue;
                    }
                    let (values, nulls) = (values.as_mut_ptr(), nulls.as_mut_ptr());
                    pg_sys::FormIndexDatum(info, *slot, ptr::null_mut(), values, nulls);
                    // The slot's place, not the tuple's: a row with toast was inserted as a copy.
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

    /// Writes what is buffered, and closes the partition.
    pub fn close(mut self) {
        if self.filled > 0 {
            self.flush();
        }
        // SAFETY: what `open` opened, in reverse order.
        unsafe {
            pg_sys::MemoryContextDelete(self.inside);
            self.slots.iter().for_each(|slot| pg_sys::ExecDropSingleTupleTableSlot(*slot));
            self.predicates.free();
            pg_sys::CatalogCloseIndexes(self.indexes);
            pg_sys::table_close(self.partition, KEEP);
            pg_sys::table_close(self.finished, KEEP);
        }
    }
}

/// The predicates of partial indexes, and what evaluates them for a row.
struct Predicates {
    executor: *mut pg_sys::EState,
    context: *mut pg_sys::ExprContext,
    /// Of each index; null: it has every row.
    states: Vec<*mut pg_sys::ExprState>,
}

impl Predicates {
    /// # Safety
    /// The indexes are open.
    unsafe fn of(indexes: pg_sys::CatalogIndexState) -> Predicates {
        // SAFETY: as the caller says; the executor lives in the context that is current now, until
        // `free`.
        unsafe {
            let executor = pg_sys::CreateExecutorState();
            let context = pg_sys::MakePerTupleExprContext(executor);
            let prepare = |(_, info): (_, *mut pg_sys::IndexInfo)| match (*info).ii_Predicate {
                none if none.is_null() => ptr::null_mut(),
                predicate => pg_sys::ExecPrepareQual(predicate, executor),
            };
            Predicates { executor, context, states: each(indexes).map(prepare).collect() }
        }
    }

    /// Takes the row of a slot.
    ///
    /// # Safety
    /// The slot keeps its row until the predicates were asked for.
    unsafe fn look_at(&mut self, slot: *mut pg_sys::TupleTableSlot) {
        // SAFETY: this one's own context.
        unsafe {
            pg_sys::MemoryContextReset((*self.context).ecxt_per_tuple_memory);
            (*self.context).ecxt_scantuple = slot;
        }
    }

    /// Whether the row is one for the index.
    ///
    /// # Safety
    /// As in `look_at`.
    unsafe fn hold(&self, index: usize) -> bool {
        let state = self.states[index];
        if state.is_null() {
            return true;
        }
        // SAFETY: as PostgreSQL's ExecQual, which is no function of the server's: a qualification is
        // never null.
        unsafe {
            let before = pg_sys::MemoryContextSwitchTo((*self.context).ecxt_per_tuple_memory);
            let mut is_null = false;
            let holds = (*state)
                .evalfunc
                .is_some_and(|evaluate| evaluate(state, self.context, &mut is_null).value() != 0);
            pg_sys::MemoryContextSwitchTo(before);
            holds
        }
    }

    /// # Safety
    /// Not used after that.
    unsafe fn free(&mut self) {
        // SAFETY: made by `of`.
        unsafe { pg_sys::FreeExecutorState(self.executor) };
    }
}

const KEYS: usize = pg_sys::INDEX_MAX_KEYS as usize;

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

/// The indexes of an open table; `None` when one is more than a btree over plain columns, of all rows
/// or of those that a predicate of PostgreSQL's own operators tells.
///
/// # Safety
/// The relation is open and locked.
unsafe fn indexes(table: Relation) -> Option<pg_sys::CatalogIndexState> {
    // SAFETY: opened here; closed when the answer is `None`.
    unsafe {
        let indexes = pg_sys::CatalogOpenIndexes(table);
        let are_plain = each(indexes).all(|(index, info)| {
            (*(*index).rd_rel).relam == pg_sys::BTREE_AM_OID
                && (*(*index).rd_index).indimmediate
                && (*info).ii_Expressions.is_null()
                && (*info).ii_ExclusionOps.is_null()
                && !calls_other_functions((*info).ii_Predicate.cast(), ptr::null_mut())
        });
        if !are_plain {
            pg_sys::CatalogCloseIndexes(indexes);
        }
        are_plain.then_some(indexes)
    }
}

/// Whether an expression calls functions that are not PostgreSQL's: those must run with the rights of
/// the tables' owner, as the statement has them run.
unsafe extern "C-unwind" fn calls_other_functions(
    node: *mut pg_sys::Node,
    context: *mut c_void,
) -> bool {
    unsafe extern "C-unwind" fn is_other(function: pg_sys::Oid, _context: *mut c_void) -> bool {
        function.to_u32() >= pg_sys::FirstNormalObjectId
    }
    // SAFETY: a node of an expression, or null.
    unsafe {
        !node.is_null()
            && (pg_sys::check_functions_in_node(node, Some(is_other), context)
                || pg_sys::expression_tree_walker(node, Some(calls_other_functions), context))
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
