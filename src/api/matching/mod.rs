//! `list_tasks`, `cancel_matching`, `resubmit_matching` and `delete_matching`.

mod filter;

use crate::api::fcinfo::{Call, sql_functions};
use crate::api::matching::filter::filter;
use crate::api::validate;
use crate::error::{self, Result};
use crate::ops::matching::act::{Action, Matching};
use crate::ops::matching::list;
use crate::pg::named::role;
use crate::shmem::on_board::current_database;
use crate::storage::privileges::{Privileges, access};
use pgrx::pg_sys::Datum;

sql_functions!(list_tasks, cancel_matching, resubmit_matching, delete_matching);

/// `list_tasks(filter, after, max_tasks) → setof tasks`
///
/// Takes a filter, the id of the last task of the page before or null, and how many tasks at most.
/// Returns the tasks as the view `tasks` shows them, the newest first.
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

/// `cancel_matching(filter, max_tasks, dry_run) → bigint`
///
/// Takes a filter, how many tasks at most or null, and whether the call only counts. Cancels the
/// live tasks that the filter takes. Returns how many.
fn cancel_matching(call: &mut Call) -> Result<Option<Datum>> {
    matching(call, "scylla.cancel_matching()", Action::Cancel)
}

/// `resubmit_matching(filter, max_tasks, dry_run) → bigint`
///
/// As `cancel_matching`. Resubmits the aborted and cancelled tasks that were not resubmitted yet.
fn resubmit_matching(call: &mut Call) -> Result<Option<Datum>> {
    matching(call, "scylla.resubmit_matching()", Action::Resubmit)
}

/// `delete_matching(filter, max_tasks, dry_run) → bigint`
///
/// As `cancel_matching`. Deletes tasks, live and settled ones.
fn delete_matching(call: &mut Call) -> Result<Option<Datum>> {
    matching(call, "scylla.delete_matching()", Action::Delete)
}

fn matching(call: &mut Call, function: &str, action: Action) -> Result<Option<Datum>> {
    let filter = filter(call.jsonb(0, "filter")?)?;
    let most = call.int(1).map(|it| validate::at_least_one("max_tasks", it)).transpose()?;
    let is_dry = call.bool(2, "dry_run")?;
    if !is_dry {
        call.require_writable(function)?;
    }
    let own = match action {
        Action::Resubmit => Privileges::MANAGE,
        Action::Cancel | Action::Delete | Action::Drop => Privileges::CANCEL,
    };
    // How many tasks match would tell what is in them.
    let both = [own, Privileges::LOOK];
    let needed = if filter.asks_for_contents() { &both[..] } else { &both[..1] };
    if let Some(queue) = &filter.queue {
        needed.iter().try_for_each(|it| call.permit_with(*it, queue))?;
    }
    let db = current_database();
    let matching = Matching {
        db: &db,
        filter,
        role: role::current(),
        needed,
        most: most.map(|it| it as usize),
    };
    let count = if is_dry { matching.count(action) } else { matching.act(action)? };
    Ok(Some(Datum::from(count as i64)))
}
