//! The call of a function as a trigger instead of a change of a view's row.

use pgrx::pg_sys::{self, Datum, HeapTuple};
use std::ffi::CStr;

/// What is to happen to the row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    Insert,
    Update,
    Delete,
}

/// A call in progress.
pub struct Trigger<'c>(&'c pg_sys::TriggerData);

impl Trigger<'_> {
    /// # Safety
    /// The context of a call of a function that is in progress.
    pub unsafe fn of<'c>(context: *mut pg_sys::Node) -> Option<Trigger<'c>> {
        // SAFETY: as the caller says; the node's tag tells its type.
        unsafe {
            let is_trigger =
                !context.is_null() && (*context).type_ == pg_sys::NodeTag::T_TriggerData;
            is_trigger.then(|| Trigger(&*context.cast::<pg_sys::TriggerData>()))
        }
    }

    pub fn event(&self) -> Event {
        match self.0.tg_event & pg_sys::TRIGGER_EVENT_OPMASK {
            pg_sys::TRIGGER_EVENT_INSERT => Event::Insert,
            pg_sys::TRIGGER_EVENT_UPDATE => Event::Update,
            _ => Event::Delete,
        }
    }

    fn old_tuple(&self) -> HeapTuple {
        self.0.tg_trigtuple
    }

    fn new_tuple(&self) -> HeapTuple {
        match self.event() {
            Event::Update => self.0.tg_newtuple,
            _ => self.0.tg_trigtuple,
        }
    }

    /// The row before, to be returned where it has changed.
    pub fn old_row(&self) -> Datum {
        Datum::from(self.old_tuple())
    }

    /// The row after.
    pub fn new_row(&self) -> Datum {
        Datum::from(self.new_tuple())
    }

    /// The row after, with another value of a column.
    pub fn new_with(&self, column: &CStr, value: Datum) -> Datum {
        // SAFETY: the row is of the relation's type; the arrays have a value each.
        unsafe {
            let descriptor = (*self.0.tg_relation).rd_att;
            let mut number = pg_sys::SPI_fnumber(descriptor, column.as_ptr());
            let (mut value, mut is_null) = (value, false);
            let row = pg_sys::heap_modify_tuple_by_cols(
                self.new_tuple(),
                descriptor,
                1,
                &raw mut number,
                &raw mut value,
                &raw mut is_null,
            );
            Datum::from(row)
        }
    }

    /// The text of a value of the row before; `None`: null.
    pub fn old_value(&self, column: &CStr) -> Option<Vec<u8>> {
        self.value(self.old_tuple(), column)
    }

    /// The text of a value of the row after; `None`: null.
    pub fn new_value(&self, column: &CStr) -> Option<Vec<u8>> {
        self.value(self.new_tuple(), column)
    }

    fn value(&self, row: HeapTuple, column: &CStr) -> Option<Vec<u8>> {
        // SAFETY: the row is of the relation's type; the text is a copy that ends with a zero.
        unsafe {
            let descriptor = (*self.0.tg_relation).rd_att;
            let number = pg_sys::SPI_fnumber(descriptor, column.as_ptr());
            let text = pg_sys::SPI_getvalue(row, descriptor, number);
            (!text.is_null()).then(|| CStr::from_ptr(text).to_bytes().to_vec())
        }
    }
}
