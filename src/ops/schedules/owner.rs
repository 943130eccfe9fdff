//! With whose rights a schedule fires.

use crate::pg::named::role;
use pgrx::pg_sys::Oid;

/// Whether a schedule's owner may submit its runs now; else why not.
pub fn may_fire(owner: Oid) -> Result<(), &'static str> {
    if role::exists(owner) { Ok(()) } else { Err("Its owner does not exist.") }
}
