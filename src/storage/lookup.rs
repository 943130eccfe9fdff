//! Looks tasks up by primary key, past the executor: owning reads each task once, and starting a
//! plan costs more than reading the row.

use crate::error;
use crate::extension::database::Database;
use crate::pg::compat::catalog;
use crate::pg::relcache;
use crate::pg::uuid::Uuid;
use crate::storage::columns::{columns, find_column};
use crate::storage::rows::row_tid;
use board::RowHint;
use pgrx::pg_sys::{self, Datum, Oid, Relation};
use std::cell::Cell;
use std::{ptr, slice};

/// The columns `ready` and `behind`, the queue, then the columns of a task that its worker gets,
/// and `updated`, since when it is ready.
const OWNED_COLUMNS: [&str; 14] = [
    "ready",
    "behind",
    "queue",
    "action",
    "spec",
    "priority",
    "key",
    "tries",
    "num_failures",
    "group_key",
    "created",
    "max_tries",
    "meta",
    "updated",
];

/// The values of `OWNED_COLUMNS` without the first two. Valid until the next lookup.
pub type OwnedColumns = [Option<Datum>; 12];

/// Which uncommitted changes a lookup sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum View {
    /// This transaction's.
    Own,
    /// None: as if this transaction had done nothing.
    OfOthers,
}

/// The open table of live tasks and its primary key, under a new snapshot (I5). Its locks are kept
/// until the end of the transaction, as a statement's are; after an error that end also closes it.
pub struct TaskLookup {
    table: Relation,
    index: Relation,
    scan: pg_sys::IndexScanDesc,
    slot: *mut pg_sys::TupleTableSlot,
    snapshot: pg_sys::Snapshot,
    key: pg_sys::ScanKeyData,
    columns: [i16; OWNED_COLUMNS.len()],
    /// The column of the ids.
    id: i16,
    /// How many blocks the table has, at least.
    blocks: u32,
}

/// The shape of the table of live tasks.
#[derive(Clone, Copy)]
struct Shape {
    table: Oid,
    /// The primary key's index.
    index: Oid,
    /// The numbers of `OWNED_COLUMNS`.
    columns: [i16; OWNED_COLUMNS.len()],
    /// The number of the column of the ids.
    id: i16,
}

thread_local! {
    static KNOWN: Cell<Option<Shape>> = const { Cell::new(None) };
}

/// The shape of the table. It is open and locked, so its index and columns cannot change. Looked up
/// once, and again when the table has changed.
fn shape(table: Relation) -> Shape {
    // SAFETY: an open relation.
    let oid = unsafe { (*table).rd_id };
    let known = KNOWN.get().filter(|known| known.table == oid);
    known.unwrap_or_else(|| {
        relcache::on_change(table_changed);
        // SAFETY: as above.
        let found = unsafe { find_shape(oid, table) };
        let shape = found.unwrap_or_else(|| error::no_primary_key().raise());
        KNOWN.set(Some(shape));
        shape
    })
}

fn table_changed(table: Oid) {
    if KNOWN.get().is_some_and(|known| known.table == table || table == pg_sys::InvalidOid) {
        KNOWN.set(None);
    }
}

/// `None`: the table has no primary key of its ids alone, or lacks a column.
///
/// # Safety
/// The relation is open and locked.
unsafe fn find_shape(oid: Oid, table: Relation) -> Option<Shape> {
    // SAFETY: the relation's descriptor, used while it is open; the index is one of the table's,
    // which its lock keeps.
    unsafe {
        let columns = columns(table);
        let find = |name: &str| find_column(&columns, name).map(|it| it.attnum);
        let id = find("id")?;
        let owned = OWNED_COLUMNS.map(find);
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n] = owned;
        let owned = [a?, b?, c?, d?, e?, f?, g?, h?, i?, j?, k?, l?, m?, n?];
        let index = catalog::primary_key_index(table);
        if index == pg_sys::InvalidOid {
            return None;
        }
        let lock = pg_sys::AccessShareLock as i32;
        let open = pg_sys::index_open(index, lock);
        let keys = &*(*open).rd_index;
        let is_of_ids = keys.indnkeyatts == 1 && *keys.indkey.values.as_ptr() == id;
        pg_sys::index_close(open, lock);
        is_of_ids.then_some(Shape { table: oid, index, columns: owned, id })
    }
}

/// A new snapshot that does not see this transaction's own changes.
///
/// # Safety
/// It is to be unregistered.
unsafe fn snapshot_of_others() -> pg_sys::Snapshot {
    // SAFETY: the copy is this function's own until it is registered.
    unsafe {
        pg_sys::PushCopiedSnapshot(pg_sys::GetLatestSnapshot());
        let copy = pg_sys::GetActiveSnapshot();
        (*copy).curcid = pg_sys::FirstCommandId;
        let registered = pg_sys::RegisterSnapshot(copy);
        pg_sys::PopActiveSnapshot();
        registered
    }
}

impl TaskLookup {
    /// `None`: the table is gone.
    pub fn open(db: &Database, lock: u32) -> Option<TaskLookup> {
        TaskLookup::open_with(db, lock, View::Own)
    }

    /// As `open`, with another view.
    pub fn open_with(db: &Database, lock: u32, view: View) -> Option<TaskLookup> {
        let lock = lock as i32;
        // SAFETY: the table of the extension and its primary key, of one uuid column.
        unsafe {
            let table = pg_sys::try_table_open(db.task, lock);
            if table.is_null() {
                return None;
            }
            let shape = shape(table);
            let index = pg_sys::index_open(shape.index, lock);
            let snapshot = match view {
                View::Own => pg_sys::RegisterSnapshot(pg_sys::GetLatestSnapshot()),
                View::OfOthers => snapshot_of_others(),
            };
            let scan = catalog::begin_index_scan(table, index, snapshot);
            let slot = pg_sys::table_slot_create(table, ptr::null_mut());
            let mut key: pg_sys::ScanKeyData = std::mem::zeroed();
            pg_sys::ScanKeyInit(
                &mut key,
                1,
                pg_sys::BTEqualStrategyNumber as _,
                pg_sys::Oid::from_u32(pg_sys::F_UUID_EQ),
                Datum::from(0),
            );
            let Shape { columns, id, .. } = shape;
            Some(TaskLookup { table, index, scan, slot, snapshot, key, columns, id, blocks: 0 })
        }
    }

    pub fn table(&self) -> Relation {
        self.table
    }

    /// Finds a live task's row; false when no such task is live.
    pub fn find(&mut self, id: Uuid) -> bool {
        let mut bytes = id.0.to_be_bytes();
        // SAFETY: the key's argument outlives the look-up.
        unsafe {
            self.key.sk_argument = Datum::from(bytes.as_mut_ptr());
            pg_sys::index_rescan(self.scan, &mut self.key, 1, ptr::null_mut(), 0);
            let forward = pg_sys::ScanDirection::ForwardScanDirection;
            pg_sys::index_getnext_slot(self.scan, forward, self.slot)
        }
    }

    /// As `find`, of a row that may be at a tid.
    pub fn find_near(&mut self, id: Uuid, hint: RowHint) -> bool {
        self.fetch(id, hint) || self.find(id)
    }

    /// Reads the row at a tid, if it is the task's. The tid may have another row by now, or
    /// none, or lie behind the end of a table that was rewritten. The table's lock keeps it from
    /// shrinking.
    fn fetch(&mut self, id: Uuid, hint: RowHint) -> bool {
        if hint.offset == 0 {
            return false;
        }
        // SAFETY: an open heap; the tid lies in it, in a block that may be empty. The scan's
        // fetch follows it as it follows an index entry, so that a row is found that was updated in
        // its block. The slot's columns are there up to that of the id, which is never null.
        unsafe {
            if hint.block >= self.blocks {
                let fork = pg_sys::ForkNumber::MAIN_FORKNUM;
                self.blocks = pg_sys::RelationGetNumberOfBlocksInFork(self.table, fork);
                if hint.block >= self.blocks {
                    return false;
                }
            }
            let Some(fetch) = (*(*self.table).rd_tableam).index_fetch_tuple else { return false };
            let mut tid = row_tid(hint);
            let (mut again, mut all_dead) = (false, false);
            let found = fetch(
                (*self.scan).xs_heapfetch,
                &mut tid,
                self.snapshot,
                self.slot,
                &mut again,
                &mut all_dead,
            );
            found && self.row(self.id).get(self.id).is_some_and(|it| Uuid::read(it) == id)
        }
    }

    /// The columns of the row that was found, up to number `last`. Valid until the next lookup.
    pub fn row(&self, last: i16) -> Row<'_> {
        // SAFETY: the slot's values are there up to the last column that was asked for, and point
        // into it.
        unsafe {
            if (*self.slot).tts_nvalid < last {
                pg_sys::slot_getsomeattrs_int(self.slot, last.into());
            }
            Row {
                values: slice::from_raw_parts((*self.slot).tts_values, last as usize),
                nulls: slice::from_raw_parts((*self.slot).tts_isnull, last as usize),
            }
        }
    }

    /// The position of the row that was found.
    pub fn tid(&self) -> pg_sys::ItemPointerData {
        // SAFETY: the slot is this lookup's own.
        unsafe { (*self.slot).tts_tid }
    }

    /// Whether another open transaction has updated, deleted or locked the row that was found.
    pub fn is_locked(&self) -> bool {
        // SAFETY: a slot of this table, a heap; its tuple lies in a pinned buffer.
        unsafe {
            let tuple = (*self.slot.cast::<pg_sys::HeapTupleTableSlot>()).tuple;
            let header = &*(*tuple).t_data;
            let is = |bits: u32| u32::from(header.t_infomask) & bits;
            let locks = is(pg_sys::HEAP_XMAX_EXCL_LOCK | pg_sys::HEAP_XMAX_KEYSHR_LOCK);
            // Several lockers, or a key-share lock: the statement that locks the row finds out.
            if is(pg_sys::HEAP_XMAX_INVALID | pg_sys::HEAP_XMAX_IS_MULTI) != 0
                || is(pg_sys::HEAP_XMAX_LOCK_ONLY) != 0 && locks == pg_sys::HEAP_XMAX_KEYSHR_LOCK
            {
                return false;
            }
            let holder = header.t_choice.t_heap.t_xmax;
            !pg_sys::TransactionIdIsCurrentTransactionId(holder)
                && pg_sys::TransactionIdIsInProgress(holder)
        }
    }

    /// The task's row, if it is live and ready, and is behind none.
    pub fn at(&mut self, id: Uuid, hint: RowHint) -> Option<OwnedColumns> {
        if !self.find_near(id, hint) {
            return None;
        }
        let row = self.row(self.columns.into_iter().max().unwrap_or(0));
        let [ready, behind, seen @ ..] = self.columns.map(|column| row.get(column));
        let is = |flag: Option<Datum>| flag.is_some_and(|it| it.value() != 0);
        (is(ready) && !is(behind)).then_some(seen)
    }

    pub fn close(self) {
        let lock = pg_sys::NoLock as i32;
        // SAFETY: what open opened, in the other order.
        unsafe {
            pg_sys::ExecDropSingleTupleTableSlot(self.slot);
            pg_sys::index_endscan(self.scan);
            pg_sys::UnregisterSnapshot(self.snapshot);
            pg_sys::index_close(self.index, lock);
            pg_sys::table_close(self.table, lock);
        }
    }
}

/// The columns of a row.
#[derive(Clone, Copy)]
pub struct Row<'g> {
    values: &'g [Datum],
    nulls: &'g [bool],
}

impl Row<'_> {
    /// A column's value; columns count from 1.
    pub fn get(&self, column: i16) -> Option<Datum> {
        let at = column as usize - 1;
        (!self.nulls[at]).then(|| self.values[at])
    }
}
