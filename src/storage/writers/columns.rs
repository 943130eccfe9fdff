//! What a table is like: whether a write to it has side effects, and its columns.

use pgrx::PgTupleDesc;
use pgrx::pg_sys::{self, FormData_pg_attribute, Oid, Relation};
use std::ffi::CStr;

/// Whether a write to the table has no side effects: no triggers, rules or policies.
///
/// # Safety
/// The relation is open.
pub unsafe fn is_plain(table: Relation, kind: u8) -> bool {
    // SAFETY: an open relation's.
    unsafe {
        let class = &*(*table).rd_rel;
        let heap = kind != pg_sys::RELKIND_RELATION || class.relam == pg_sys::HEAP_TABLE_AM_OID;
        class.relkind as u8 == kind
            && heap
            && (*table).trigdesc.is_null()
            && (*table).rd_rules.is_null()
            && !class.relrowsecurity
    }
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

pub fn has_type(column: &FormData_pg_attribute, oid: Oid, modifier: i32) -> bool {
    column.atttypid == oid && column.atttypmod == modifier
}
