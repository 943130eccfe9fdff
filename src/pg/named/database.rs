//! Databases, by name.

use crate::pg::named::{quoted, unquoted};
use pgrx::pg_sys::{self, Oid};
use std::ffi::{CStr, CString};

/// The database of a name; `None`: no database has it.
pub fn find(name: &CStr) -> Option<Oid> {
    // SAFETY: a catalog look-up by a name that ends with a zero.
    let found = unsafe { pg_sys::get_database_oid(name.as_ptr(), true) };
    (found != pg_sys::InvalidOid).then_some(found)
}

/// How many connections a database may have; `None`: any number.
pub fn connection_limit(database: Oid) -> Option<usize> {
    // SAFETY: a catalog look-up; the tuple is released.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::DATABASEOID as i32;
        let tuple = pg_sys::SearchSysCache1(cache, database.into());
        if tuple.is_null() {
            return None;
        }
        let row = pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_database>();
        let limit = (*row).datconnlimit;
        pg_sys::ReleaseSysCache(tuple);
        usize::try_from(limit).ok()
    }
}

/// How many connections of clients a database has.
pub fn connections(database: Oid) -> usize {
    // SAFETY: reads shared memory.
    unsafe { pg_sys::CountDBConnections(database) as usize }
}

/// A database that was named, and which one had the name then.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Named {
    pub name: Vec<u8>,
    pub oid: Oid,
}

/// Whether a database accepts connections.
pub fn accepts_connections(database: Oid) -> bool {
    // SAFETY: a catalog look-up; the tuple is released.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::DATABASEOID as i32;
        let tuple = pg_sys::SearchSysCache1(cache, database.into());
        if tuple.is_null() {
            return false;
        }
        let row = &*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_database>();
        let answer = row.datallowconn;
        pg_sys::ReleaseSysCache(tuple);
        answer
    }
}

/// The name of a database, as an identifier; `None`: it is gone.
pub fn identifier(database: Oid) -> Option<CString> {
    CString::new(name(database)).ok().filter(|name| !name.is_empty()).map(|name| quoted(&name))
}

/// The database of a name, as an identifier; `None`: no database has it.
pub fn find_identifier(identifier: &CStr) -> Option<Oid> {
    find(&unquoted(identifier)?)
}

/// The name of a database; empty: there is no such.
pub fn name(database: Oid) -> Vec<u8> {
    // SAFETY: a catalog look-up; the name, if there is one, ends with a zero.
    unsafe {
        let name = pg_sys::get_database_name(database);
        if name.is_null() { Vec::new() } else { CStr::from_ptr(name).to_bytes().to_vec() }
    }
}
