//! `run_sql` and `schedule_sql`: SQL commands that the server runs itself.

use crate::api::call::Call;
use crate::api::call::argument::{Argument, Name, Text};
use crate::api::call::declared::*;
use crate::api::schedules::{authorize_change, name_of, require, values};
use crate::api::submit::{fields, submit_draft};
use crate::api::validate;
use crate::error::{self, Result};
use crate::guc;
use crate::ops::query::unserved;
use crate::ops::schedules::definition::{
    self, ACTION, MISFIRE, OVERLAP, PRIORITY, SCHEDULE, SPEC, TIME_ZONE, Values,
};
use crate::ops::schedules::register::{self, Existing};
use crate::ops::sql::rights;
use crate::ops::submit::draft::{Draft, SqlCommand};
use crate::pg::named::role;
use crate::pg::{datum, jsonb};
use crate::shmem::sql_record::QUEUE;
use crate::storage::rows::share;
use crate::xact::on_board::current_database;
use pgrx::pg_sys::Datum;

sql_functions!(
    RunSql => run_sql,
    ScheduleSql => schedule_sql,
);

fn run_sql(call: &mut Call, args: RunSql) -> Result<Option<Datum>> {
    let mut draft = Draft::blank();
    draft.sql = Some(command(&args.command, &args.database)?);
    // The others are named as those of `submit`.
    for (name, value) in declared!(each of args: RunSql) {
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

fn schedule_sql(call: &mut Call, args: ScheduleSql) -> Result<Option<Datum>> {
    let name = name_of(&args.name)?;
    let SqlCommand { role, database, command } = command(&args.command, &args.database)?;
    let mut values = values(&declared!(each of args: ScheduleSql))?;
    require(&values, &[SCHEDULE, MISFIRE, OVERLAP])?;
    values[TIME_ZONE].get_or_insert_with(|| datum::varlena(b"UTC"));
    fix_columns(&mut values);
    let group = args.group_key.optional().map(validate::group_key).transpose()?;
    let sql = register::sql(database.as_ref(), &command);
    call.authorize(QUEUE)?;
    let may_change = |found: &Existing| authorize_change(call, &name, found);
    let db = current_database();
    let id = register::register(&db, &name, &values, role, sql, may_change)?;
    register::set_group(&db, id, group.as_deref());
    unserved::warn_of(&db, QUEUE);
    Ok(Some(Datum::from(id)))
}

/// The columns of a definition that a schedule of SQL commands has fixed.
pub fn fix_columns(values: &mut Values) {
    values[definition::QUEUE] = Some(datum::varlena(QUEUE));
    values[SPEC] = Some(jsonb::empty_object().datum());
    values[ACTION] = Some(datum::varlena(b""));
    values[PRIORITY] = Some(Datum::from(0i64));
}

/// The command and the database of a call, checked; the role is the one that calls.
fn command(command: &Argument<Text>, database: &Argument<Name>) -> Result<SqlCommand> {
    let command = checked(command.required()?)?;
    let role = role::current();
    rights::check_role(role)?;
    let database = rights::find_database(database.optional().as_deref(), role)?;
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
