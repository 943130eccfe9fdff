//! `grant` and `revoke`, what views ask about the caller, and the type of a granted role.

pub mod needs;
mod outdated;

use crate::api::fcinfo::{Call, sql_functions};
use crate::api::validate;
use crate::error::{self, Result};
use crate::ops::privileges;
use crate::pg::datum::{self, TEXTS};
use crate::pg::named::{database, role};
use crate::pg::uuid::{self, Uuid};
use crate::shmem::on_board::current_database;
use crate::storage::privileges::{Privileges, access};
use pgrx::PgLogLevel;
use pgrx::pg_sys::{self, Datum, Oid};
use std::ffi::CStr;

/// How many privileges one call takes: more than there are, as a word may be repeated.
const WORDS_MAX: usize = 1_000;

sql_functions!(
    grant,
    revoke,
    may_look,
    first_queue,
    last_queue,
    role_in,
    role_out,
    may_act_as,
    database_in,
    database_out,
    group_hash
);

/// `grant(queue, role, privileges)`
///
/// Takes a queue or `*`, a role, and an array of privileges, and grants these.
fn grant(call: &mut Call) -> Result<Option<Datum>> {
    change(call, "scylla.grant()", Privileges::with)
}

/// `revoke(queue, role, privileges)`
///
/// Takes a queue or `*`, a role, and an array of privileges, and takes these back.
fn revoke(call: &mut Call) -> Result<Option<Datum>> {
    change(call, "scylla.revoke()", Privileges::without)
}

fn change(
    call: &Call,
    function: &str,
    change: fn(Privileges, Privileges) -> Privileges,
) -> Result<Option<Datum>> {
    call.require_writable(function)?;
    let queue = validate::queue(call.text(0, "queue")?)?;
    let grantee = call.oid(1, "role")?;
    let words = call.array(2, "privileges", TEXTS, WORDS_MAX)?;
    let mut given = Privileges::NONE;
    for word in words {
        let word = word.ok_or_else(|| error::missing("an element of privileges"))?;
        given = given.with(validate::privilege(&datum::text(Some(word)))?);
    }
    if !role::exists(grantee) {
        return Err(error::no_such_role(grantee));
    }
    privileges::change(&current_database(), &queue, grantee, |before| change(before, given));
    Ok(None)
}

/// `_may_look(queue, monitoring) → boolean`
///
/// Takes a queue, and whether a view shows numbers only, which members of pg_monitor may read, too.
fn may_look(call: &mut Call) -> Result<Option<Datum>> {
    let access = access(&current_database());
    let monitoring = call.bool(1, "monitoring")?;
    let may = access.everywhere.has_any(Privileges::LOOK)
        // SAFETY: declared as text.
        || call.datum(0).is_some_and(|queue| {
            access.on(unsafe { datum::slice(queue) }).has_any(Privileges::LOOK)
        })
        || monitoring && access.is_monitor;
    Ok(Some(Datum::from(may)))
}

/// `_first_queue() → text`
///
/// Takes nothing. Returns a name that is not behind any queue that the caller may look at.
fn first_queue(_call: &mut Call) -> Result<Option<Datum>> {
    Ok(Some(datum::varlena(&access(&current_database()).queues_to_look_at().0)))
}

/// `_last_queue() → text`
///
/// Takes nothing. Returns a name that is not before any queue that the caller may look at.
fn last_queue(_call: &mut Call) -> Result<Option<Datum>> {
    Ok(Some(datum::varlena(&access(&current_database()).queues_to_look_at().1)))
}

/// Reads a role by its name.
fn role_in(call: &mut Call) -> Result<Option<Datum>> {
    // SAFETY: declared as cstring.
    let name = call.datum(0).map(|it| unsafe { CStr::from_ptr(it.cast_mut_ptr()) });
    let role = match name {
        None => return Ok(None),
        Some(name) if name == NONE => Oid::INVALID,
        Some(name) => role::find(name).unwrap_or_else(|| {
            error::role_missing(&name.to_string_lossy()).report(PgLogLevel::WARNING);
            Oid::INVALID
        }),
    };
    Ok(Some(Datum::from(role)))
}

/// Writes the name of a role.
fn role_out(call: &mut Call) -> Result<Option<Datum>> {
    let role = call.datum(0).map(|it| datum::oid(Some(it)));
    let name = role.and_then(role::name);
    let name = name.as_deref().unwrap_or(NONE);
    // SAFETY: copies a text that ends with a zero.
    Ok(Some(Datum::from(unsafe { pg_sys::pstrdup(name.as_ptr()) })))
}

/// `_may_act_as(role) → boolean`
fn may_act_as(call: &mut Call) -> Result<Option<Datum>> {
    let role = datum::oid(call.datum(0));
    Ok(Some(Datum::from(role::may_act_as(role::current(), role))))
}

/// Reads a database by its name.
fn database_in(call: &mut Call) -> Result<Option<Datum>> {
    // SAFETY: declared as cstring.
    let name = call.datum(0).map(|it| unsafe { CStr::from_ptr(it.cast_mut_ptr()) });
    let database = match name {
        None => return Ok(None),
        Some(name) if name == NONE => Oid::INVALID,
        Some(name) => database::find_identifier(name).unwrap_or_else(|| {
            error::database_missing(&name.to_string_lossy()).report(PgLogLevel::WARNING);
            Oid::INVALID
        }),
    };
    Ok(Some(Datum::from(database)))
}

/// Writes the name of a database.
fn database_out(call: &mut Call) -> Result<Option<Datum>> {
    let name = call.datum(0).and_then(|it| database::identifier(datum::oid(Some(it))));
    let name = name.as_deref().unwrap_or(NONE);
    // SAFETY: copies a text that ends with a zero.
    Ok(Some(Datum::from(unsafe { pg_sys::pstrdup(name.as_ptr()) })))
}

/// Hashes the key of a group.
fn group_hash(call: &mut Call) -> Result<Option<Datum>> {
    let key = datum::optional_text(call.datum(0));
    Ok(key.map(|key| Uuid(uuid::group_hash(&key)).datum()))
}

/// How a role or a database is written that does not exist.
const NONE: &CStr = c"-";
