//! With whose rights a command runs, and where.

use crate::error::{self, Result};
use crate::guc;
use crate::pg::compat::catalog;
use crate::pg::named::{database, role};
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
pub fn find_database(name: Option<&[u8]>, role: Oid) -> Result<Oid> {
    let found = match name {
        None => process::database(),
        Some(name) => {
            let found = CString::new(name).ok().and_then(|name| database::find(&name));
            found.ok_or_else(|| error::no_such_database(name))?
        }
    };
    match catalog::may_connect(found, role) {
        true => Ok(found),
        false => Err(error::cannot_connect(&database::name(found))),
    }
}
