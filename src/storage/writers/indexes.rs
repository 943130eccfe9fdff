//! The indexes of a table, as a write needs them. A backend prepares them once, and again when one
//! of them has changed.

use crate::error;
use crate::pg::compat::catalog;
use crate::pg::{datum, relcache};
use pgrx::pg_sys::{self, Datum, Oid, Relation};
use std::cell::{Cell, RefCell};
use std::ffi::CStr;
use std::ptr;
use std::rc::Rc;

/// How many tables a backend remembers: that of live tasks, and a partition.
const REMEMBERED: usize = 3;

const LOCK: i32 = pg_sys::RowExclusiveLock as i32;
/// Locks are kept until the end of the transaction.
const KEEP: i32 = pg_sys::NoLock as i32;

thread_local! {
    static KNOWN: RefCell<Vec<Rc<Indexes>>> = const { RefCell::new(Vec::new()) };
    /// How often any table or index has changed.
    static CHANGES: Cell<u64> = const { Cell::new(0) };
}

/// The indexes of a table, with what evaluates their predicates and expressions.
pub struct Indexes {
    table: Oid,
    /// Owns the memory of what is below.
    executor: *mut pg_sys::EState,
    context: *mut pg_sys::ExprContext,
    all: Vec<Index>,
}

/// An index.
pub struct Index {
    pub oid: Oid,
    /// Whether what its access method keeps for later insertions ends with the open index.
    is_btree: bool,
    is_unique: bool,
    info: *mut pg_sys::IndexInfo,
    /// Null: it has every row.
    predicate: *mut pg_sys::ExprState,
}

/// The indexes of a table, which is open and locked, so that none can come or go.
pub fn indexes(table: Relation) -> Rc<Indexes> {
    // SAFETY: an open relation.
    let oid = unsafe { (*table).rd_id };
    // One that is in use evaluates a function that writes to the table, too.
    let is_free = |it: &&Rc<Indexes>| it.table == oid && Rc::strong_count(it) == 1;
    let known = KNOWN.with_borrow(|known| known.iter().find(is_free).cloned());
    known.unwrap_or_else(|| {
        relcache::on_change(changed);
        let before = CHANGES.get();
        // SAFETY: as above.
        let found = Rc::new(unsafe { Indexes::find(oid, table) });
        // What changes meanwhile is not for this transaction, which has the lock. It is for later
        // ones.
        if CHANGES.get() == before && found.all.iter().all(|it| it.is_btree) {
            KNOWN.with_borrow_mut(|known| {
                if known.len() == REMEMBERED {
                    known.remove(0);
                }
                known.push(found.clone());
            });
        }
        found
    })
}

/// A table or an index has changed; the invalid oid means all.
fn changed(relation: Oid) {
    CHANGES.set(CHANGES.get() + 1);
    let is_it = |it: &Indexes| {
        [pg_sys::InvalidOid, it.table].contains(&relation)
            || it.all.iter().any(|index| index.oid == relation)
    };
    KNOWN.with_borrow_mut(|known| known.retain(|it| !is_it(it)));
}

impl Indexes {
    /// # Safety
    /// The relation is open and locked.
    unsafe fn find(oid: Oid, table: Relation) -> Indexes {
        // SAFETY: the executor and what is made in its memory live until `drop`, also when an error
        // comes in between. The table's lock keeps the indexes.
        unsafe {
            let before = pg_sys::MemoryContextSwitchTo(pg_sys::TopMemoryContext);
            let executor = pg_sys::CreateExecutorState();
            pg_sys::MemoryContextSwitchTo(before);
            let context = pg_sys::MakePerTupleExprContext(executor);
            let mut found = Indexes { table: oid, executor, context, all: Vec::new() };
            let list = pg_sys::RelationGetIndexList(table);
            let count = if list.is_null() { 0 } else { (*list).length as usize };
            for at in 0..count {
                let index = pg_sys::index_open((*(*list).elements.add(at)).oid_value, LOCK);
                let prepared = found.prepare(index);
                found.all.push(prepared);
                pg_sys::index_close(index, KEEP);
            }
            found
        }
    }

    /// # Safety
    /// The index is open.
    unsafe fn prepare(&self, index: Relation) -> Index {
        // SAFETY: an open index, of which only copies are kept.
        unsafe {
            let before = pg_sys::MemoryContextSwitchTo((*self.executor).es_query_cxt);
            let info = pg_sys::BuildIndexInfo(index);
            let predicate = match (*info).ii_Predicate {
                none if none.is_null() => ptr::null_mut(),
                predicate => pg_sys::ExecPrepareQual(predicate, self.executor),
            };
            pg_sys::MemoryContextSwitchTo(before);
            let (class, form) = (&*(*index).rd_rel, &*(*index).rd_index);
            if form.indisexclusion {
                let name = CStr::from_ptr(class.relname.data.as_ptr());
                let name = datum::printable(name.to_bytes());
                error::added(&format!("exclusion constraint {name}")).raise();
            }
            Index {
                oid: (*index).rd_id,
                is_btree: class.relam == pg_sys::BTREE_AM_OID,
                is_unique: form.indisunique,
                info,
                predicate,
            }
        }
    }

    pub fn all(&self) -> &[Index] {
        &self.all
    }

    /// Forms the key of a row for an index; false: the index does not have the row.
    ///
    /// # Safety
    /// The slot has a row of the table.
    pub unsafe fn form_key(
        &self,
        index: &Index,
        slot: *mut pg_sys::TupleTableSlot,
        key: &mut Key,
    ) -> bool {
        // SAFETY: the index is one of these, prepared with this executor. A predicate is evaluated
        // as by PostgreSQL's ExecQual, which is no function of the server's: it is never null.
        unsafe {
            if !(*index.info).ii_ReadyForInserts {
                return false;
            }
            let memory = (*self.context).ecxt_per_tuple_memory;
            pg_sys::MemoryContextReset(memory);
            (*self.context).ecxt_scantuple = slot;
            if !index.predicate.is_null() {
                let before = pg_sys::MemoryContextSwitchTo(memory);
                let mut is_null = false;
                let holds = (*index.predicate).evalfunc.is_some_and(|evaluate| {
                    evaluate(index.predicate, self.context, &mut is_null).value() != 0
                });
                pg_sys::MemoryContextSwitchTo(before);
                if !holds {
                    return false;
                }
            }
            let (values, nulls) = (key.values.as_mut_ptr(), key.nulls.as_mut_ptr());
            pg_sys::FormIndexDatum(index.info, slot, self.executor, values, nulls);
            true
        }
    }
}

impl Index {
    /// Inserts a row's entry.
    ///
    /// # Safety
    /// The index and its table are open; the row is at `tid`, and its key is formed.
    pub unsafe fn insert(
        &self,
        index: Relation,
        table: Relation,
        key: &mut Key,
        tid: pg_sys::ItemPointer,
    ) {
        let check = match self.is_unique {
            true => pg_sys::IndexUniqueCheck::UNIQUE_CHECK_YES,
            false => pg_sys::IndexUniqueCheck::UNIQUE_CHECK_NO,
        };
        // SAFETY: the caller's promise.
        unsafe {
            let (values, nulls) = (key.values.as_mut_ptr(), key.nulls.as_mut_ptr());
            pg_sys::index_insert(index, values, nulls, tid, table, check, false, self.info);
        }
    }

    /// Closes the index, which is locked until the end of the transaction.
    ///
    /// # Safety
    /// The index is open.
    pub unsafe fn close(&self, index: Relation) {
        // SAFETY: the caller's promise.
        unsafe {
            catalog::end_insertions(index, self.info);
            pg_sys::index_close(index, KEEP);
        }
    }
}

impl Drop for Indexes {
    fn drop(&mut self) {
        // SAFETY: made by `find`, and used by no one else.
        unsafe { pg_sys::FreeExecutorState(self.executor) };
    }
}

const KEYS: usize = pg_sys::INDEX_MAX_KEYS as usize;

/// The key of an index entry.
pub struct Key {
    values: [Datum; KEYS],
    nulls: [bool; KEYS],
}

impl Key {
    pub fn new() -> Key {
        Key { values: [Datum::from(0); KEYS], nulls: [false; KEYS] }
    }
}
