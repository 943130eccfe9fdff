//! Roles, by oid and by name.

use pgrx::pg_sys::{self, Oid};
use std::ffi::{CStr, CString};

/// The role with whose rights this call acts.
pub fn current() -> Oid {
    // SAFETY: reads this backend's state.
    unsafe { pg_sys::GetUserId() }
}

/// Whether there is such a role.
pub fn exists(role: Oid) -> bool {
    name(role).is_some()
}

/// The name of a role, as an identifier.
pub fn name(role: Oid) -> Option<CString> {
    // SAFETY: a catalog look-up; the name, if there is one, ends with a zero.
    unsafe {
        let name = pg_sys::GetUserNameFromId(role, true);
        (!name.is_null()).then(|| CStr::from_ptr(pg_sys::quote_identifier(name)).to_owned())
    }
}

/// The role of a name, as an identifier; `None`: no role has it.
pub fn find(identifier: &CStr) -> Option<Oid> {
    let written = identifier.to_bytes();
    let name = match written {
        [b'"', inner @ .., b'"'] => unquote(inner),
        plain => plain.to_vec(),
    };
    let name = CString::new(name).ok()?;
    // SAFETY: a catalog look-up by a name that ends with a zero.
    let found = unsafe { pg_sys::get_role_oid(name.as_ptr(), true) };
    (found != pg_sys::InvalidOid).then_some(found)
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
