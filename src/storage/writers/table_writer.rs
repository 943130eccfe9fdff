//! Writes many rows of one table at a time, and their index entries after them, index by index.

use crate::storage::rows::row_hint;
use crate::storage::writers::indexes::{Indexes, Key, indexes};
use board::RowHint;
use pgrx::pg_sys::{self, Datum, Relation};
use std::ptr;
use std::rc::Rc;

/// How many rows, and how many bytes, are buffered before they are written.
const MOST: usize = 256;
const MOST_BYTES: u32 = 65_536;

const LOCK: i32 = pg_sys::RowExclusiveLock as i32;
/// Locks are kept until the end of the transaction.
const KEEP: i32 = pg_sys::NoLock as i32;

/// An open table to which rows are written. Memory for building rows is in a context of its own,
/// reset after each write: a scan that is open meanwhile keeps its allocations elsewhere.
pub struct TableWriter {
    table: Relation,
    indexes: Rc<Indexes>,
    /// The indexes that have got entries are open; the others are null.
    open: Vec<Relation>,
    command: pg_sys::CommandId,
    /// The first `filled` slots hold buffered rows, `bytes` long in all.
    slots: Vec<*mut pg_sys::TupleTableSlot>,
    filled: usize,
    bytes: u32,
    /// The row that is being built.
    values: Vec<Datum>,
    nulls: Vec<bool>,
    key: Key,
    /// Where the rows are that were written.
    written: Vec<RowHint>,
    outside: pg_sys::MemoryContext,
    inside: pg_sys::MemoryContext,
}

impl TableWriter {
    /// A writer of a table, which it closes at the end.
    ///
    /// # Safety
    /// The table is a heap, open and locked.
    pub unsafe fn new(table: Relation, command: pg_sys::CommandId) -> TableWriter {
        let indexes = indexes(table);
        // SAFETY: an open relation; the context is deleted by `close`, or with the one that is
        // current.
        unsafe {
            let outside = pg_sys::CurrentMemoryContext;
            let inside = pg_sys::AllocSetContextCreateInternal(
                outside,
                c"scylla: rows to be written".as_ptr(),
                pg_sys::ALLOCSET_DEFAULT_MINSIZE as usize,
                pg_sys::ALLOCSET_DEFAULT_INITSIZE as usize,
                pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
            );
            let width = (*(*table).rd_att).natts as usize;
            TableWriter {
                table,
                open: vec![ptr::null_mut(); indexes.all().len()],
                indexes,
                command,
                slots: Vec::new(),
                filled: 0,
                bytes: 0,
                values: vec![Datum::from(0); width],
                nulls: vec![true; width],
                key: Key::new(),
                written: Vec::new(),
                outside,
                inside,
            }
        }
    }

    /// Adds a row. `values` gives those of all columns, in memory that is there until the row is
    /// written.
    pub fn add<V: IntoIterator<Item = Option<Datum>>>(&mut self, values: impl FnOnce() -> V) {
        if self.filled == MOST || self.bytes > MOST_BYTES {
            self.flush();
        }
        // SAFETY: this writer's own contexts. A slot has the table's columns, and there is a value
        // for each. It owns its row, which is in the outer context, as the slot is.
        unsafe {
            pg_sys::MemoryContextSwitchTo(self.inside);
            let mut given = 0;
            for value in values() {
                self.nulls[given] = value.is_none();
                self.values[given] = value.unwrap_or(Datum::from(0));
                given += 1;
            }
            let columns = (*self.table).rd_att;
            assert_eq!((given, (*columns).natts as usize), (self.values.len(), given));
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
        // SAFETY: the first `filled` slots hold rows of the open table.
        unsafe {
            pg_sys::MemoryContextSwitchTo(self.inside);
            let none = ptr::null_mut();
            pg_sys::heap_multi_insert(self.table, slots, filled, self.command, 0, none);
            let tid = |slot: &*mut pg_sys::TupleTableSlot| row_hint(&(**slot).tts_tid);
            self.written.extend(self.slots[..self.filled].iter().map(tid));
            for (index, open) in self.indexes.all().iter().zip(&mut self.open) {
                for slot in &self.slots[..self.filled] {
                    if !self.indexes.form_key(index, *slot, &mut self.key) {
                        continue;
                    }
                    if open.is_null() {
                        *open = pg_sys::index_open(index.oid, LOCK);
                    }
                    // The slot's tid, not the tuple's: a row with toast was inserted as a copy.
                    let tid = &raw mut (**slot).tts_tid;
                    index.insert(*open, self.table, &mut self.key, tid);
                }
            }
            pg_sys::MemoryContextSwitchTo(self.outside);
            pg_sys::MemoryContextReset(self.inside);
        }
        (self.filled, self.bytes) = (0, 0);
    }

    /// Writes what is buffered, and closes the table. Returns where the rows are, in their order.
    pub fn close(mut self) -> Vec<RowHint> {
        if self.filled > 0 {
            self.flush();
        }
        // SAFETY: what `new` and `flush` opened, in reverse order.
        unsafe {
            self.slots.iter().for_each(|slot| pg_sys::ExecDropSingleTupleTableSlot(*slot));
            pg_sys::MemoryContextDelete(self.inside);
            let all = self.indexes.all().iter().zip(&self.open);
            all.filter(|(_, open)| !open.is_null()).for_each(|(index, open)| index.close(*open));
            pg_sys::table_close(self.table, KEEP);
        }
        self.written
    }
}
