//! `list_tasks`.

mod filter;

use crate::api::fcinfo::{Call, sql_functions};
use crate::api::matching::filter::filter;
use crate::api::validate;
use crate::error::{self, Result};
use crate::ops::matching::list;
use crate::shmem::on_board::current_database;
use crate::storage::privileges::access;
use pgrx::pg_sys::Datum;

sql_functions!(list_tasks);

/// `list_tasks(filter, after, max_tasks) → setof tasks`
///
/// Takes a filter, the id of the last task of the page before or null, and how many tasks at most. Returns
/// the tasks as the view `tasks` shows them, the newest first.
fn list_tasks(call: &mut Call) -> Result<Option<Datum>> {
    let filter = filter(call.jsonb(0, "filter")?)?;
    let after = call.optional_uuid(1);
    let most = call.int(2).ok_or_else(|| error::missing("max_tasks"))?;
    let most = validate::max_tasks(most)?;
    if let Some(queue) = &filter.queue {
        call.permit(queue)?;
    }
    call.permit_tasks(after.as_slice())?;
    let mut rows = call.rows()?;
    let db = current_database();
    let access = access(&db);
    list::page(&db, &access, &filter, after, most, |row| rows.add(row))?;
    Ok(None)
}
