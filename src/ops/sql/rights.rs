//! With whose rights a command runs, and where.

use crate::error::{self, Result};
use crate::guc;
use crate::pg::compat::catalog;
use crate::pg::named::database::{self, Named};
use crate::pg::named::role;
use crate::pg::process;
use pgrx::pg_sys::Oid;
use std::ffi::CString;

/// Refuses a role that may not have commands run.
pub fn check_role(it: Oid) -> Result<()> {
    match role::can_login(it) {
        None => Err(error::role_gone()),
        Some(false) => {
            let name = role::name(it).unwrap_or_default();
            Err(error::role_cannot_log_in(&name.to_string_lossy()))
        }
        Some(true) if role::is_superuser(it) && !guc::enable_superuser_sql() => {
            Err(error::superuser_sql_is_off())
        }
        Some(true) => Ok(()),
    }
}

/// The database of a name, to which the role may connect. `None`: this one.
pub fn find_database(name: Option<&[u8]>, role: Oid) -> Result<Option<Named>> {
    let Some(name) = name else {
        return check_connect(process::database(), role).map(|()| None);
    };
    let found = CString::new(name).ok().and_then(|name| database::find(&name));
    let oid = found.ok_or_else(|| error::no_such_database(name))?;
    check_connect(oid, role)?;
    Ok(Some(Named { name: name.to_vec(), oid }))
}

/// Refuses a database that is another one by now than the one that was named: its owner is a stranger
/// to the role.
pub fn check_same(named: &Named) -> Result<()> {
    let Named { name, oid } = named;
    let found = CString::new(&name[..]).ok().and_then(|name| database::find(&name));
    match found.ok_or_else(|| error::no_such_database(name))? == *oid {
        true => Ok(()),
        false => Err(error::another_database(name)),
    }
}

/// Refuses a database to which a role may not connect, or that accepts no connections.
pub fn check_connect(it: Oid, role: Oid) -> Result<()> {
    if !catalog::may_connect(it, role) {
        return Err(error::cannot_connect(&database::name(it)));
    }
    match database::accepts_connections(it) {
        true => Ok(()),
        false => Err(error::accepts_no_connections(&database::name(it))),
    }
}
