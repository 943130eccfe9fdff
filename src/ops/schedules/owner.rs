//! With whose rights a schedule fires.

use crate::extension::database::Database;
use crate::ops::sql::rights;
use crate::pg::named::database::Named;
use crate::pg::named::role;
use crate::storage::privileges::{Privileges, granted_to};
use pgrx::pg_sys::Oid;

/// Whether a schedule's owner may submit its runs to a queue now; else a sentence that says why
/// not. `is_sql`: the runs are commands that the server runs; `named`: in this database.
pub fn may_fire(
    db: &Database,
    owner: Oid,
    queue: &[u8],
    is_sql: bool,
    named: Option<&Named>,
) -> Result<(), String> {
    if !role::exists(owner) {
        return Err("Its owner does not exist.".to_owned());
    }
    if !granted_to(db, owner).on(queue).has_any(Privileges::SUBMIT) {
        return Err("Its owner lacks the privilege \"submit\" on the queue.".to_owned());
    }
    if !is_sql {
        return Ok(());
    }
    let is_same = named.map_or(Ok(()), rights::check_same);
    is_same.and_then(|()| rights::check_role(owner)).map_err(|why| why.sentence())
}
