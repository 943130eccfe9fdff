//! `task`, `why`, `leases`, `refresh` and `open`.

use crate::api::fcinfo::{Call, sql_functions};
use crate::error::{self, Result};
use crate::ops::maintenance::identity;
use crate::ops::query::inspect;
use crate::pg::datum;
use crate::pg::uuid::Uuid;
use crate::shmem::on_board::current_database;
use crate::shmem::xact::{self, Change};
use pgrx::pg_sys::Datum;

sql_functions!(task, why, leases, refresh, open);

/// `task(id) → jsonb`
///
/// Takes an id. Returns the task's entry, a jsonb.
fn task(call: &mut Call) -> Result<Option<Datum>> {
    let id = call.uuid(0, "id")?;
    inspect::entry(&current_database(), id, datum::copy_to_caller_context())
        .map(Some)
        .ok_or_else(|| error::no_such_task(id))
}

/// `why(id) → text`
///
/// Takes an id. Returns the reason why the task is not running, in one sentence.
fn why(call: &mut Call) -> Result<Option<Datum>> {
    let id = call.uuid(0, "id")?;
    let why = inspect::why(&current_database(), id).ok_or_else(|| error::no_such_task(id))?;
    Ok(Some(datum::varlena(&why)))
}

/// `_leases(task) → (id, owner, owned_at, deadline, progress, recorded) …`
///
/// Takes an id, or null for all tasks. Returns a row per lease: id, owner, owned_at, deadline,
/// progress, and whether the task's history has it. A task that another open transaction has
/// reserved has an owner and no owned_at.
fn leases(call: &mut Call) -> Result<Option<Datum>> {
    let task = call.optional_uuid(0);
    let mut rows = call.rows()?;
    for lease in inspect::leases(&current_database(), task) {
        let [owner, owned_at, deadline, progress, recorded] = inspect::columns(&lease);
        rows.add([Some(Uuid(lease.id).datum()), owner, owned_at, deadline, progress, recorded]);
    }
    Ok(None)
}

/// `refresh()`
///
/// Takes nothing. After the commit, the scheduler reads the tables again.
fn refresh(call: &mut Call) -> Result<Option<Datum>> {
    call.require_writable("scylla.refresh()")?;
    xact::at_commit(&current_database(), [Change::Refresh]);
    Ok(None)
}

/// `open(enabled)`
///
/// Takes a boolean: whether this database hands out and fires tasks from the commit on.
fn open(call: &mut Call) -> Result<Option<Datum>> {
    call.require_writable("scylla.open()")?;
    identity::open(&current_database(), call.bool(0, "enabled")?);
    Ok(None)
}
