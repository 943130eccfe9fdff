//! What a table is like: its columns, their defaults, and whether others have added to it.

use crate::error;
use crate::shmem::database::Database;
use crate::shmem::members;
use pgrx::PgTupleDesc;
use pgrx::pg_sys::{self, Datum, FormData_pg_attribute, Relation};
use std::ffi::CStr;

/// Refuses a table to which others have added what writing its rows leaves out.
///
/// # Safety
/// The relation is open and locked.
pub unsafe fn require_own(db: &Database, table: Relation) {
    // SAFETY: an open relation's.
    let oid = unsafe { (*table).rd_id };
    if let Some(added) = members::added_to(db.extension, oid) {
        error::added(&added).raise();
    }
}

/// Whether a table is one that rows are written to.
///
/// # Safety
/// The relation is open.
pub unsafe fn is_heap(table: Relation) -> bool {
    // SAFETY: an open relation's.
    let class = unsafe { &*(*table).rd_rel };
    class.relkind as u8 == pg_sys::RELKIND_RELATION && class.relam == pg_sys::HEAP_TABLE_AM_OID
}

/// The columns of a table, dropped ones too.
///
/// # Safety
/// The relation is open, and the columns are used no longer than that.
pub unsafe fn columns<'r>(table: Relation) -> PgTupleDesc<'r> {
    // SAFETY: the relation's descriptor.
    unsafe { PgTupleDesc::from_pg_unchecked((*table).rd_att) }
}

pub fn name_of(column: &FormData_pg_attribute) -> &CStr {
    // SAFETY: a name ends with a zero.
    unsafe { CStr::from_ptr(column.attname.data.as_ptr()) }
}

pub fn find_column<'c>(columns: &'c PgTupleDesc, name: &CStr) -> Option<&'c FormData_pg_attribute> {
    columns.iter().find(|it| !it.attisdropped && name_of(it) == name)
}

/// Whether the server gives the column its values.
pub fn is_computed(column: &FormData_pg_attribute) -> bool {
    column.attgenerated != 0 || column.attidentity != 0
}

pub fn has_type(column: &FormData_pg_attribute, oid: pg_sys::Oid, modifier: i32) -> bool {
    column.atttypid == oid && column.atttypmod == modifier
}

/// The length of a type whose values have a length of their own.
const VARLENA: i32 = -1;

/// Memory for the defaults of columns.
pub struct Defaults(pg_sys::MemoryContext);

impl Defaults {
    pub fn new() -> Defaults {
        // SAFETY: the context is deleted by `drop`, also when an error comes in between.
        Defaults(unsafe {
            pg_sys::AllocSetContextCreateInternal(
                pg_sys::TopMemoryContext,
                c"scylla: defaults of tasks".as_ptr(),
                pg_sys::ALLOCSET_SMALL_MINSIZE as usize,
                pg_sys::ALLOCSET_SMALL_INITSIZE as usize,
                pg_sys::ALLOCSET_SMALL_MAXSIZE as usize,
            )
        })
    }

    /// The default of a column, which may be null; `None`: it is no constant, or the column must
    /// not be null.
    ///
    /// # Safety
    /// A column of the open relation.
    pub unsafe fn find(
        &self,
        table: Relation,
        column: &FormData_pg_attribute,
    ) -> Option<Option<Datum>> {
        // SAFETY: an expression or null; a constant is copied to where these are.
        unsafe {
            let default = pg_sys::build_column_default(table, column.attnum.into());
            if default.is_null() {
                return (!column.attnotnull).then_some(None);
            }
            if (*default).type_ != pg_sys::NodeTag::T_Const {
                return None;
            }
            let constant = &*default.cast::<pg_sys::Const>();
            let value = constant.constvalue;
            if constant.constisnull || !(constant.constbyval || constant.constlen == VARLENA) {
                return None;
            }
            let before = pg_sys::MemoryContextSwitchTo(self.0);
            let value = match constant.constbyval {
                true => value,
                false => Datum::from(pg_sys::pg_detoast_datum_copy(value.cast_mut_ptr())),
            };
            pg_sys::MemoryContextSwitchTo(before);
            Some(Some(value))
        }
    }
}

impl Drop for Defaults {
    fn drop(&mut self) {
        // SAFETY: made by `new`.
        unsafe { pg_sys::MemoryContextDelete(self.0) };
    }
}
