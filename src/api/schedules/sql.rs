//! `run_sql` and `schedule_sql`: SQL commands that the server runs itself.

use crate::api::fcinfo::{Call, sql_functions};
use crate::api::schedules::{TIME_ZONE, check, name_of, permit_change};
use crate::api::submit::{fields, submit_draft};
use crate::api::validate;
use crate::error::{self, Result};
use crate::guc;
use crate::ops::query::unserved;
use crate::ops::schedules::definition::{COLUMNS, Values};
use crate::ops::schedules::register::{self, Existing};
use crate::ops::sql::{QUEUE, rights};
use crate::ops::submit::draft::{Draft, SqlCommand};
use crate::pg::named::role;
use crate::pg::{datum, jsonb};
use crate::shmem::on_board::current_database;
use crate::storage::rows::share;
use pgrx::pg_sys::{self, Datum};
use std::ffi::CStr;

sql_functions!(run_sql as "run_sql_0_2", schedule_sql as "schedule_sql_0_2");

/// The arguments of `run_sql` that `submit` has, too, from the third on; and whether null is the
/// same as not given.
const OF_SUBMIT: [(&str, bool); 13] = [
    ("key", true),
    ("on_conflict", false),
    ("priority", false),
    ("run_at", true),
    ("after", true),
    ("on_failure", false),
    ("max_tries", true),
    ("retry_interval", true),
    ("retry_jitter", true),
    ("timeout", true),
    ("post_result", false),
    ("group_key", true),
    ("meta", true),
];

/// `run_sql(command, database, key, …) → uuid`
fn run_sql(call: &mut Call) -> Result<Option<Datum>> {
    call.require_writable("scylla.run_sql()")?;
    let mut draft = Draft::blank();
    draft.sql = Some(command(call, 0, 1)?);
    for (at, (name, is_nullable)) in OF_SUBMIT.iter().enumerate() {
        let value = call.datum(2 + at);
        if value.is_none() && *is_nullable {
            continue;
        }
        fields::set(&mut draft, name, value)?;
    }
    if draft.group_key.is_none() {
        draft.group_key = role::name_of(role::current());
    }
    draft.queue = share(QUEUE);
    draft.spec = Some(jsonb::empty_object().datum());
    let submitted = submit_draft(call, draft)?;
    unserved::warn_of(&current_database(), QUEUE);
    Ok(submitted)
}

/// Where the columns of a definition are among the arguments of `schedule_sql`.
const OF_SCHEDULE: [(usize, usize); 11] = [
    (0, 1),         // schedule
    (TIME_ZONE, 4), // time_zone
    (6, 5),         // misfire
    (7, 6),         // overlap
    (8, 7),         // max_tries
    (9, 8),         // retry_interval
    (10, 9),        // retry_jitter
    (11, 10),       // timeout
    (12, 11),       // starts_at
    (13, 12),       // ends_at
    (14, 14),       // meta
];

/// `schedule_sql(name, schedule, command, database, …) → bigint`
fn schedule_sql(call: &mut Call) -> Result<Option<Datum>> {
    call.require_writable("scylla.schedule_sql()")?;
    let name = name_of(call)?;
    let SqlCommand { role, database, command } = command(call, 2, 3)?;
    let mut values = [None; COLUMNS.len()];
    for (column, argument) in OF_SCHEDULE {
        values[column] = call.datum(argument).map(|given| check(column, given)).transpose()?;
    }
    for (column, argument) in [(0, "schedule"), (6, "misfire"), (7, "overlap")] {
        values[column].ok_or_else(|| error::missing(argument))?;
    }
    values[TIME_ZONE].get_or_insert_with(|| datum::varlena(b"UTC"));
    fix_columns(&mut values);
    let group = call.optional_text(13).map(validate::group_key).transpose()?;
    let sql = register::sql(database.as_ref(), &command);
    call.permit(QUEUE)?;
    let may_change = |found: &Existing| permit_change(call, &name, found);
    let db = current_database();
    let id = register::register(&db, &name, &values, role, sql, may_change)?;
    register::set_group(&db, id, group.as_deref());
    unserved::warn_of(&db, QUEUE);
    Ok(Some(Datum::from(id)))
}

/// The columns of a definition that a schedule of SQL commands has fixed.
pub fn fix_columns(values: &mut Values) {
    values[1] = Some(datum::varlena(QUEUE));
    values[2] = Some(jsonb::empty_object().datum());
    values[3] = Some(datum::varlena(b""));
    values[4] = Some(Datum::from(0i64));
}

/// The command and the database of a call, checked; the role is the one that calls.
fn command(call: &Call, command: usize, database: usize) -> Result<SqlCommand> {
    let command = checked(call.text(command, "command")?)?;
    // SAFETY: declared as name, whose bytes end with a zero.
    let database = call.datum(database).map(|it| unsafe {
        let name = it.cast_mut_ptr::<pg_sys::NameData>();
        CStr::from_ptr((*name).data.as_ptr()).to_bytes().to_vec()
    });
    let role = role::current();
    rights::check_role(role)?;
    let database = rights::find_database(database.as_deref(), role)?;
    Ok(SqlCommand { role, database, command })
}

/// A command that can be run.
pub fn checked(command: Vec<u8>) -> Result<Vec<u8>> {
    if command.trim_ascii().is_empty() {
        return Err(error::empty_command());
    }
    let most = guc::max_spec_size();
    if command.len() > most {
        return Err(error::command_too_large(command.len(), most));
    }
    Ok(command)
}
