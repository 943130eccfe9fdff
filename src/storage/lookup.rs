//! A lookup at tasks by primary key, past the executor: owning reads each task once, and starting
//! a plan for it costs more than the reading.

use crate::pg::uuid::Uuid;
use crate::shmem::database::{Database, OWNED_COLUMNS};
use pgrx::pg_sys::{self, Datum};
use std::{ptr, slice};

/// What a lookup shows of a row: `OWNED_COLUMNS` without `ready`. Good until the next one.
pub type OwnedColumns = [Option<Datum>; 6];

/// An open table and its primary key, under a snapshot of now (I5). Its locks stand until the end of
/// the transaction, as a statement's do; an error leaves closing it to that end, too.
pub struct TaskLookup {
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    scan: pg_sys::IndexScanDesc,
    slot: *mut pg_sys::TupleTableSlot,
    snapshot: pg_sys::Snapshot,
    key: pg_sys::ScanKeyData,
    columns: [i16; OWNED_COLUMNS.len()],
}

impl TaskLookup {
    /// `None`: the table is gone.
    pub fn open(db: &Database, lock: u32) -> Option<TaskLookup> {
        let lock = lock as i32;
        // SAFETY: the table of the extension and its primary key, of one uuid column.
        unsafe {
            let table = pg_sys::try_table_open(db.task, lock);
            if table.is_null() {
                return None;
            }
            let index = pg_sys::index_open(db.task_key, lock);
            let snapshot = pg_sys::RegisterSnapshot(pg_sys::GetLatestSnapshot());
            #[cfg(not(feature = "pg18"))]
            let scan = pg_sys::index_beginscan(table, index, snapshot, 1, 0);
            #[cfg(feature = "pg18")]
            let scan = pg_sys::index_beginscan(table, index, snapshot, ptr::null_mut(), 1, 0);
            let slot = pg_sys::table_slot_create(table, ptr::null_mut());
            let mut key: pg_sys::ScanKeyData = std::mem::zeroed();
            pg_sys::ScanKeyInit(
                &mut key,
                1,
                pg_sys::BTEqualStrategyNumber as _,
                pg_sys::Oid::from_u32(pg_sys::F_UUID_EQ),
                Datum::from(0),
            );
            Some(TaskLookup { table, index, scan, slot, snapshot, key, columns: db.columns })
        }
    }

    pub fn table(&self) -> pg_sys::Relation {
        self.table
    }

    /// Goes to a live task's row. False: there is none.
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

    /// The columns of the row that was found, up to the one of that number. Good until the next one
    /// is looked for.
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

    /// Where the row that was found lies.
    pub fn place(&self) -> pg_sys::ItemPointerData {
        // SAFETY: the slot is this lookup's own.
        unsafe { (*self.slot).tts_tid }
    }

    /// Whether another transaction in flight changes the row that was found, or keeps others from it.
    pub fn is_held(&self) -> bool {
        // SAFETY: a slot of this table, a heap; its tuple lies in a pinned buffer.
        unsafe {
            let tuple = (*self.slot.cast::<pg_sys::HeapTupleTableSlot>()).tuple;
            let header = &*(*tuple).t_data;
            let is = |bits: u32| u32::from(header.t_infomask) & bits;
            let locks = is(pg_sys::HEAP_XMAX_EXCL_LOCK | pg_sys::HEAP_XMAX_KEYSHR_LOCK);
            // Several holders, or one who minds only that the row stays: whoever locks it finds out.
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

    /// The task's row, if it is live and ready.
    pub fn at(&mut self, id: Uuid) -> Option<OwnedColumns> {
        if !self.find(id) {
            return None;
        }
        let row = self.row(self.columns.into_iter().max().unwrap_or(0));
        let [ready, seen @ ..] = self.columns.map(|column| row.get(column));
        ready.is_some_and(|ready| ready.value() != 0).then_some(seen)
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
