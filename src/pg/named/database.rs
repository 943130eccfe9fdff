//! Databases, by name.

use pgrx::pg_sys::{self, Oid};
use std::ffi::CStr;

/// The database of a name; `None`: no database has it.
pub fn find(name: &CStr) -> Option<Oid> {
    // SAFETY: a catalog look-up by a name that ends with a zero.
    let found = unsafe { pg_sys::get_database_oid(name.as_ptr(), true) };
    (found != pg_sys::InvalidOid).then_some(found)
}

/// The name of a database; empty: there is no such.
pub fn name(database: Oid) -> Vec<u8> {
    // SAFETY: a catalog look-up; the name, if there is one, ends with a zero.
    unsafe {
        let name = pg_sys::get_database_name(database);
        if name.is_null() { Vec::new() } else { CStr::from_ptr(name).to_bytes().to_vec() }
    }
}
