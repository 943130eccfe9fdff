//! `grant` and `revoke`, what views ask about the caller, and the type of a granted role.

use crate::api::call::Call;
use crate::api::call::argument::{Argument, Array, Oid, Text};
use crate::api::call::declared::*;
use crate::api::validate;
use crate::error::{self, Result};
use crate::ops::privileges;
use crate::pg::datum;
use crate::pg::named::{database, role};
use crate::pg::uuid::{self, Uuid};
use crate::storage::privileges::{Privileges, granted};
use crate::xact::on_board::current_database;
use pgrx::PgLogLevel;
use pgrx::pg_sys::{self, Datum};
use std::ffi::CStr;

/// How many privileges one call takes: more than there are, as a word may be repeated.
const WORDS_MAX: usize = 1_000;

sql_functions!(
    Grant => grant,
    Revoke => revoke,
    MayLook => may_look,
    FirstQueue => first_queue,
    LastQueue => last_queue,
    RoleIn => role_in,
    RoleOut => role_out,
    MayActAs => may_act_as,
    DatabaseIn => database_in,
    DatabaseOut => database_out,
    GroupHash => group_hash,
);

/// Takes a queue or `*`, a role, and an array of privileges, and grants these.
fn grant(_: &mut Call, args: Grant) -> Result<Option<Datum>> {
    change((args.queue, args.role, args.privileges), Privileges::with)
}

/// Takes a queue or `*`, a role, and an array of privileges, and takes these back.
fn revoke(_: &mut Call, args: Revoke) -> Result<Option<Datum>> {
    change((args.queue, args.role, args.privileges), Privileges::without)
}

fn change(
    (queue, grantee, words): (Argument<Text>, Argument<Oid>, Argument<Array<Text>>),
    change: fn(Privileges, Privileges) -> Privileges,
) -> Result<Option<Datum>> {
    let queue = validate::queue(queue.required()?)?;
    let grantee = grantee.required()?;
    let words = words.required_elements(WORDS_MAX)?;
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

/// Takes a queue, and whether a view shows numbers only, which members of pg_monitor may read, too.
fn may_look(_: &mut Call, args: MayLook) -> Result<Option<Datum>> {
    let granted = granted(&current_database());
    let monitoring = args.monitoring.required()?;
    let may = granted.everywhere.has_any(Privileges::LOOK)
        // SAFETY: declared as text.
        || args.queue.datum().is_some_and(|queue| {
            granted.on(unsafe { datum::slice(queue) }).has_any(Privileges::LOOK)
        })
        || monitoring && granted.is_monitor;
    Ok(Some(Datum::from(may)))
}

/// Takes nothing. Returns a name that is not behind any queue that the caller may look at.
fn first_queue(_: &mut Call, _: FirstQueue) -> Result<Option<Datum>> {
    Ok(Some(datum::varlena(&granted(&current_database()).queues_to_look_at().0)))
}

/// Takes nothing. Returns a name that is not before any queue that the caller may look at.
fn last_queue(_: &mut Call, _: LastQueue) -> Result<Option<Datum>> {
    Ok(Some(datum::varlena(&granted(&current_database()).queues_to_look_at().1)))
}

/// Reads a role by its name.
fn role_in(_: &mut Call, args: RoleIn) -> Result<Option<Datum>> {
    let role = match args.value.optional() {
        None => return Ok(None),
        Some(name) if name == NONE => pg_sys::Oid::INVALID,
        Some(name) => role::find(name).unwrap_or_else(|| {
            error::role_missing(&name.to_string_lossy()).report(PgLogLevel::WARNING);
            pg_sys::Oid::INVALID
        }),
    };
    Ok(Some(Datum::from(role)))
}

/// Writes the name of a role.
fn role_out(_: &mut Call, args: RoleOut) -> Result<Option<Datum>> {
    let name = args.value.optional().and_then(role::name);
    let name = name.as_deref().unwrap_or(NONE);
    // SAFETY: copies a text that ends with a zero.
    Ok(Some(Datum::from(unsafe { pg_sys::pstrdup(name.as_ptr()) })))
}

fn may_act_as(_: &mut Call, args: MayActAs) -> Result<Option<Datum>> {
    let role = args.role.optional().unwrap_or(pg_sys::Oid::INVALID);
    Ok(Some(Datum::from(role::may_act_as(role::current(), role))))
}

/// Reads a database by its name.
fn database_in(_: &mut Call, args: DatabaseIn) -> Result<Option<Datum>> {
    let database = match args.value.optional() {
        None => return Ok(None),
        Some(name) if name == NONE => pg_sys::Oid::INVALID,
        Some(name) => database::find_identifier(name).unwrap_or_else(|| {
            error::database_missing(&name.to_string_lossy()).report(PgLogLevel::WARNING);
            pg_sys::Oid::INVALID
        }),
    };
    Ok(Some(Datum::from(database)))
}

/// Writes the name of a database.
fn database_out(_: &mut Call, args: DatabaseOut) -> Result<Option<Datum>> {
    let name = args.value.optional().and_then(database::identifier);
    let name = name.as_deref().unwrap_or(NONE);
    // SAFETY: copies a text that ends with a zero.
    Ok(Some(Datum::from(unsafe { pg_sys::pstrdup(name.as_ptr()) })))
}

/// Hashes the key of a group.
fn group_hash(_: &mut Call, args: GroupHash) -> Result<Option<Datum>> {
    let key = args.value.optional();
    Ok(key.map(|key| Uuid(uuid::group_hash(&key)).datum()))
}

/// How a role or a database is written that does not exist.
const NONE: &CStr = c"-";
