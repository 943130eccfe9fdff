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

/// How many more commands of a role may begin in a database, by the connection limits of the two;
/// `None`: any number. They count as the role's connections, beside those of clients. `running`:
/// how many commands of the role run, and how many in the database.
pub fn commands_left(it: Oid, database: Oid, running: (usize, usize)) -> Result<Option<usize>> {
    if role::is_superuser(it) {
        return Ok(None);
    }
    let limits = [
        (role::connection_limit(it), role::connections(it), running.0),
        (database::connection_limit(database), database::connections(database), running.1),
    ];
    if limits.iter().any(|(limit, ..)| *limit == Some(0)) {
        return Err(error::no_connections());
    }
    let left = limits.into_iter().filter_map(|(limit, connections, running)| {
        limit.map(|limit| limit.saturating_sub(connections + running))
    });
    Ok(left.min())
}

/// The database of a name, to which the role may connect, and which is allowed for commands of
/// other databases. `None`: this one.
pub fn find_database(name: Option<&[u8]>, role: Oid) -> Result<Option<Named>> {
    let Some(name) = name else {
        return check_connect(process::database(), role).map(|()| None);
    };
    let found = CString::new(name).ok().and_then(|name| database::find(&name));
    let named =
        Named { name: name.to_vec(), oid: found.ok_or_else(|| error::no_such_database(name))? };
    check_allowed(&named)?;
    check_connect(named.oid, role)?;
    Ok(Some(named))
}

/// Refuses a database that is not for commands of other databases.
pub fn check_allowed(it: &Named) -> Result<()> {
    match it.oid == process::database() || guc::is_sql_database(&it.name) {
        true => Ok(()),
        false => Err(error::not_sql_database(&it.name)),
    }
}

/// Refuses a database that is another one by now than the one that was named: its owner is a
/// stranger to the role.
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
