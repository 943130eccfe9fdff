//! What PostgreSQL knows by name: databases, roles and time zones.

use pgrx::pg_sys;
use std::ffi::{CStr, CString};

pub mod database;
pub mod role;
pub mod zone;

/// A name as an identifier.
fn quoted(name: &CStr) -> CString {
    // SAFETY: a name and the answer end with a zero.
    unsafe { CStr::from_ptr(pg_sys::quote_identifier(name.as_ptr())).to_owned() }
}

/// The name of an identifier.
fn unquoted(identifier: &CStr) -> Option<CString> {
    let name = match identifier.to_bytes() {
        [b'"', inner @ .., b'"'] => unquote(inner),
        plain => plain.to_vec(),
    };
    CString::new(name).ok()
}

/// The text between the quotes of an identifier, in which each quote is doubled.
fn unquote(inner: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter();
    while let Some(byte) = bytes.next() {
        name.push(*byte);
        if *byte == b'"' {
            bytes.next();
        }
    }
    name
}
