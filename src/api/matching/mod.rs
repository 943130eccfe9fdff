//! `list_tasks`, `cancel_matching`, `resubmit_matching` and `delete_matching`.

mod filter;

use crate::api::call::Call;
use crate::api::call::argument::{Argument, Boolean, Integer, Jsonb};
use crate::api::call::declared::*;
use crate::api::matching::filter::filter;
use crate::api::validate;
use crate::error::Result;
use crate::ops::matching::act::{Action, Matching};
use crate::ops::matching::list;
use crate::pg::named::role;
use crate::storage::privileges::{Privileges, granted};
use crate::xact::on_board::current_database;
use pgrx::pg_sys::Datum;

sql_functions!(
    ListTasks => list_tasks,
    CancelMatching => cancel_matching,
    ResubmitMatching => resubmit_matching,
    DeleteMatching => delete_matching,
);

/// Takes a filter, the id of the last task of the page before or null, and how many tasks at most.
/// Returns the tasks as the view `tasks` shows them, the newest first.
fn list_tasks(call: &mut Call, args: ListTasks) -> Result<Option<Datum>> {
    let filter = filter(args.filter.required()?)?;
    let after = args.after.optional();
    let most = args.max_tasks.required()?;
    let most = validate::max_tasks(most)?;
    if let Some(queue) = &filter.queue {
        call.authorize(queue)?;
    }
    call.authorize_tasks(after.as_slice())?;
    let mut rows = call.rows()?;
    let db = current_database();
    let granted = granted(&db);
    list::page(&db, &granted, &filter, after, most, |row| rows.add(row))?;
    Ok(None)
}

/// Takes a filter, how many tasks at most or null, and whether the call only counts. Cancels the
/// live tasks that the filter takes. Returns how many.
fn cancel_matching(call: &mut Call, args: CancelMatching) -> Result<Option<Datum>> {
    matching(call, (args.filter, args.max_tasks, args.dry_run), Action::Cancel)
}

/// As `cancel_matching`. Resubmits the aborted and cancelled tasks that were not resubmitted yet.
fn resubmit_matching(call: &mut Call, args: ResubmitMatching) -> Result<Option<Datum>> {
    matching(call, (args.filter, args.max_tasks, args.dry_run), Action::Resubmit)
}

/// As `cancel_matching`. Deletes tasks, live and settled ones.
fn delete_matching(call: &mut Call, args: DeleteMatching) -> Result<Option<Datum>> {
    matching(call, (args.filter, args.max_tasks, args.dry_run), Action::Delete)
}

fn matching(
    call: &Call,
    (given, max_tasks, dry_run): (Argument<Jsonb>, Argument<Integer>, Argument<Boolean>),
    action: Action,
) -> Result<Option<Datum>> {
    let filter = filter(given.required()?)?;
    let most = max_tasks.optional().map(|it| validate::at_least_one(max_tasks.name, it));
    let most = most.transpose()?;
    let is_dry = dry_run.required()?;
    let own = match action {
        Action::Resubmit => Privileges::MANAGE,
        Action::Cancel | Action::Delete | Action::Drop => Privileges::CANCEL,
    };
    // How many tasks match would tell what is in them.
    let both = [own, Privileges::LOOK];
    let needed = if filter.asks_for_contents() { &both[..] } else { &both[..1] };
    if let Some(queue) = &filter.queue {
        needed.iter().try_for_each(|it| call.authorize_with(*it, queue))?;
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
