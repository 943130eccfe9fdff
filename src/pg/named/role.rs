//! Roles, by oid and by name.

use crate::pg::compat::catalog;
use crate::pg::named::{quoted, unquoted};
use pgrx::pg_sys::{self, Oid};
use std::ffi::{CStr, CString};

/// The role whose privileges count: that of `SET ROLE`, or the definer of a function that runs with
/// its rights.
pub fn current() -> Oid {
    // SAFETY: reads this backend's state.
    unsafe { pg_sys::GetUserId() }
}

/// Whether a role has the privileges of another: it is that role, inherits them by membership, or
/// is a superuser.
pub fn has_privileges_of(role: Oid, other: Oid) -> bool {
    // SAFETY: catalog look-ups inside a transaction.
    unsafe { pg_sys::has_privs_of_role(role, other) }
}

/// Whether a role may have something done with the rights of another: it has its privileges, and
/// may become it by SET ROLE.
pub fn may_act_as(role: Oid, other: Oid) -> bool {
    has_privileges_of(role, other) && catalog::may_set_role(role, other)
}

/// Which row the catalog has of a role: another one after each change of it. `None`: it is gone.
pub fn row(role: Oid) -> Option<(u32, u32, u16)> {
    // SAFETY: a catalog look-up; the tuple is released.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::AUTHOID as i32;
        let tuple = pg_sys::SearchSysCache1(cache, role.into());
        if tuple.is_null() {
            return None;
        }
        let writer = (*(*tuple).t_data).t_choice.t_heap.t_xmin;
        let tid = (*tuple).t_self;
        pg_sys::ReleaseSysCache(tuple);
        let block = u32::from(tid.ip_blkid.bi_hi) << 16 | u32::from(tid.ip_blkid.bi_lo);
        Some((writer.into_inner(), block, tid.ip_posid))
    }
}

/// Whether there is such a role.
pub fn exists(role: Oid) -> bool {
    name(role).is_some()
}

/// Whether a role may log in; `None`: there is no such role.
pub fn can_login(role: Oid) -> Option<bool> {
    // SAFETY: a catalog look-up; the tuple is released.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::AUTHOID as i32;
        let tuple = pg_sys::SearchSysCache1(cache, role.into());
        if tuple.is_null() {
            return None;
        }
        let answer = (*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_authid>()).rolcanlogin;
        pg_sys::ReleaseSysCache(tuple);
        Some(answer)
    }
}

/// How many connections a role may have; `None`: any number.
pub fn connection_limit(role: Oid) -> Option<usize> {
    // SAFETY: a catalog look-up; the tuple is released.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::AUTHOID as i32;
        let tuple = pg_sys::SearchSysCache1(cache, role.into());
        if tuple.is_null() {
            return None;
        }
        let limit = (*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_authid>()).rolconnlimit;
        pg_sys::ReleaseSysCache(tuple);
        usize::try_from(limit).ok()
    }
}

/// How many connections of clients a role has.
pub fn connections(role: Oid) -> usize {
    // SAFETY: reads shared memory.
    unsafe { pg_sys::CountUserBackends(role) as usize }
}

/// Whether a role sees the rows of all others where each role sees its own: it has BYPASSRLS, or is
/// a superuser.
pub fn bypasses_row_security(role: Oid) -> bool {
    // SAFETY: a catalog look-up.
    unsafe { pg_sys::has_bypassrls_privilege(role) }
}

/// Whether a role is a superuser.
pub fn is_superuser(role: Oid) -> bool {
    // SAFETY: a catalog look-up.
    unsafe { pg_sys::superuser_arg(role) }
}

/// The name of a role, as an identifier.
pub fn name(role: Oid) -> Option<CString> {
    // SAFETY: a catalog look-up; the name, if there is one, ends with a zero.
    unsafe {
        let name = pg_sys::GetUserNameFromId(role, true);
        (!name.is_null()).then(|| quoted(CStr::from_ptr(name)))
    }
}

/// The name of a role, as it is.
pub fn name_of(role: Oid) -> Option<Vec<u8>> {
    // SAFETY: a catalog look-up; the name, if there is one, ends with a zero.
    unsafe {
        let name = pg_sys::GetUserNameFromId(role, true);
        (!name.is_null()).then(|| CStr::from_ptr(name).to_bytes().to_vec())
    }
}

/// The role of a name; `None`: no role has it.
pub fn named(name: &CStr) -> Option<Oid> {
    // SAFETY: a catalog look-up by a name that ends with a zero.
    let found = unsafe { pg_sys::get_role_oid(name.as_ptr(), true) };
    (found != pg_sys::InvalidOid).then_some(found)
}

/// The role of a name, as an identifier; `None`: no role has it.
pub fn find(identifier: &CStr) -> Option<Oid> {
    named(&unquoted(identifier)?)
}
