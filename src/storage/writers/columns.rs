//! What a table is like: whether a write to it has side effects, and its columns.

use pgrx::PgTupleDesc;
use pgrx::pg_sys::{self, FormData_pg_attribute, Oid, Relation};
use std::ffi::CStr;
use std::{ptr, slice};

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

/// Whether the table's checks hold for each task without a command.
///
/// # Safety
/// The relation is open, and these are its columns.
pub unsafe fn checks_commands_only(table: Relation, columns: &PgTupleDesc) -> bool {
    let Some(command) = find_column(columns, c"command") else { return false };
    // SAFETY: an open relation's checks, as texts of expressions; nodes as PostgreSQL makes them.
    unsafe {
        let constraints = (*(*table).rd_att).constr;
        if constraints.is_null() || (*constraints).num_check == 0 {
            return true;
        }
        let column = pg_sys::makeVar(
            1,
            command.attnum,
            command.atttypid,
            command.atttypmod,
            command.attcollation,
            0,
        );
        let mut is_null = pg_sys::NullTest::default();
        is_null.xpr.type_ = pg_sys::NodeTag::T_NullTest;
        is_null.arg = column.cast();
        is_null.nulltesttype = pg_sys::NullTestType::IS_NULL;
        let known = pg_sys::lappend(ptr::null_mut(), (&raw mut is_null).cast());
        let count = (*constraints).num_check as usize;
        slice::from_raw_parts((*constraints).check, count).iter().all(|check| {
            let wanted = pg_sys::lappend(ptr::null_mut(), pg_sys::stringToNode(check.ccbin));
            pg_sys::predicate_implied_by(wanted, known, false)
        })
    }
}
