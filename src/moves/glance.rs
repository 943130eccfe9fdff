//! A glance at tasks by primary key, past the executor: owning reads each task once, and starting
//! a plan for it costs more than the reading.

use crate::desk::{Home, SEEN_COLUMNS};
use crate::payload::Uuid;
use pgrx::pg_sys::{self, Datum};
use std::ptr;

/// What a glance shows of a row: `SEEN_COLUMNS` without `ready`. Good until the next one.
pub type Seen = [Option<Datum>; 6];

/// An open table and its primary key, under a snapshot of now (I5). An error leaves closing it to
/// the end of the transaction.
pub struct Glance {
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    scan: pg_sys::IndexScanDesc,
    slot: *mut pg_sys::TupleTableSlot,
    snapshot: pg_sys::Snapshot,
    columns: [i16; SEEN_COLUMNS.len()],
}

impl Glance {
    pub fn open(home: &Home) -> Glance {
        let lock = pg_sys::AccessShareLock as i32;
        // SAFETY: the table of the extension and its primary key, of one uuid column.
        unsafe {
            let table = pg_sys::table_open(home.task, lock);
            let index = pg_sys::index_open(home.task_key, lock);
            let snapshot = pg_sys::RegisterSnapshot(pg_sys::GetLatestSnapshot());
            #[cfg(not(feature = "pg18"))]
            let scan = pg_sys::index_beginscan(table, index, snapshot, 1, 0);
            #[cfg(feature = "pg18")]
            let scan = pg_sys::index_beginscan(table, index, snapshot, ptr::null_mut(), 1, 0);
            let slot = pg_sys::table_slot_create(table, ptr::null_mut());
            Glance { table, index, scan, slot, snapshot, columns: home.columns }
        }
    }

    /// The task's row, if it is live and ready.
    pub fn at(&mut self, id: Uuid) -> Option<Seen> {
        let mut bytes = id.0.to_be_bytes();
        // SAFETY: the key's argument outlives the look-up; the slot's values are there up to the
        // last column that was asked for, and point into it.
        unsafe {
            let mut key: pg_sys::ScanKeyData = std::mem::zeroed();
            pg_sys::ScanKeyInit(
                &mut key,
                1,
                pg_sys::BTEqualStrategyNumber as _,
                pg_sys::Oid::from_u32(pg_sys::F_UUID_EQ),
                Datum::from(bytes.as_mut_ptr()),
            );
            pg_sys::index_rescan(self.scan, &mut key, 1, ptr::null_mut(), 0);
            let forward = pg_sys::ScanDirection::ForwardScanDirection;
            if !pg_sys::index_getnext_slot(self.scan, forward, self.slot) {
                return None;
            }
            let last = self.columns.into_iter().max().unwrap_or(0);
            if (*self.slot).tts_nvalid < last {
                pg_sys::slot_getsomeattrs_int(self.slot, last.into());
            }
            let [ready, seen @ ..] = self.columns.map(|column| {
                let at = column as usize - 1;
                let null = *(*self.slot).tts_isnull.add(at);
                (!null).then(|| *(*self.slot).tts_values.add(at))
            });
            ready.is_some_and(|ready| ready.value() != 0).then_some(seen)
        }
    }

    pub fn close(self) {
        let lock = pg_sys::AccessShareLock as i32;
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
