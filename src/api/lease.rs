//! `own_tasks`, `own_task`, `register_worker`, `extend` and `extend_tasks`.

use crate::api::fcinfo::{Call, Tuplestore, sql_functions};
use crate::api::validate::{self, ACTIONS_MAX};
use crate::error::{self, Result};
use crate::ops::lease::extend;
use crate::ops::lease::own::{self, Owned};
use crate::pg::datum::{self, BOOLS, TEXTS};
use crate::pg::uuid::Uuid;
use crate::shmem::on_board::current_database;
use board::Micros;
use pgrx::pg_sys::Datum;

sql_functions!(
    own_tasks as "own_tasks_0_2",
    own_task as "own_task_0_2",
    register_worker,
    extend,
    extend_tasks
);

/// `own_tasks(worker, queue, max_tasks, actions, timeout) → (id, token, …) …`
///
/// Takes a worker, a queue, how many tasks at most, an array of actions or null, and the length of
/// the leases or null. Returns a row per task, see `add_row`.
fn own_tasks(call: &mut Call) -> Result<Option<Datum>> {
    call.require_writable("scylla.own_tasks()")?;
    let worker = validate::worker(call.text(0, "worker")?)?;
    let queue = validate::open_queue(call.text(1, "queue")?)?;
    call.permit(&queue)?;
    let most = validate::max_tasks(call.int(2).ok_or_else(|| error::missing("max_tasks"))?)?;
    let actions = call.optional_array(3, "actions", TEXTS, ACTIONS_MAX)?;
    let actions = actions.map(validate::actions).transpose()?;
    let actions: Option<Vec<&[u8]>> =
        actions.as_ref().map(|actions| actions.iter().map(Vec::as_slice).collect());
    let length = length(call, 4)?;
    let mut rows = call.rows()?;
    let db = current_database();
    own::own_tasks(&db, &worker, &queue, most, actions.as_deref(), length, |owned| {
        add_row(&mut rows, &owned);
    });
    Ok(None)
}

/// `own_task(id, worker, timeout) → (id, token, …)`
///
/// Takes the id of a ready task, a worker, and the length of the lease or null. Returns one row,
/// see `add_row`.
fn own_task(call: &mut Call) -> Result<Option<Datum>> {
    call.require_writable("scylla.own_task()")?;
    let id = call.uuid(0, "id")?;
    let worker = validate::worker(call.text(1, "worker")?)?;
    let length = length(call, 2)?;
    call.permit_tasks(&[id])?;
    let mut rows = call.rows()?;
    own::own_task(&current_database(), id, &worker, length, false, |owned| {
        add_row(&mut rows, &owned)
    })?;
    Ok(None)
}

/// `register_worker() → text`
///
/// Takes nothing. Returns a name that no other call ever returns.
fn register_worker(call: &mut Call) -> Result<Option<Datum>> {
    call.require_writable("scylla.register_worker()")?;
    let name = format!("worker-{}", own::next_worker(&current_database()));
    Ok(Some(datum::varlena(name.as_bytes())))
}

/// `extend(id, token, timeout, progress) → boolean`
///
/// Takes an id, its token, the new length of the lease or null, and the progress or null. Returns
/// false if the lease is lost.
fn extend(call: &mut Call) -> Result<Option<Datum>> {
    call.require_writable("scylla.extend()")?;
    let lease = (call.uuid(0, "id")?, call.uuid(1, "token")?);
    let length = length(call, 2)?;
    let progress = call.float(3).map(validate::progress).transpose()?;
    call.permit_tasks(&[lease.0])?;
    let extended = extend::extend(&current_database(), &[lease], length, progress);
    Ok(Some(Datum::from(extended[0])))
}

/// `extend_tasks(ids, tokens, timeout) → boolean[]`
///
/// Takes arrays of ids and tokens, and the new length of the leases or null. Returns an array of
/// what `extend` gives.
fn extend_tasks(call: &mut Call) -> Result<Option<Datum>> {
    call.require_writable("scylla.extend_tasks()")?;
    let leases = validate::leases(call.uuids(0, "ids")?, call.uuids(1, "tokens")?)?;
    let length = length(call, 2)?;
    let ids: Vec<Uuid> = leases.iter().map(|(id, _)| *id).collect();
    call.permit_tasks(&ids)?;
    let extended = extend::extend(&current_database(), &leases, length, None);
    Ok(Some(datum::array(BOOLS, extended.into_iter().map(|it| Some(Datum::from(it))))))
}

/// The length of a lease that the caller asks for.
fn length(call: &Call, number: usize) -> Result<Option<Micros>> {
    Ok(call.interval(number).map(validate::timeout).transpose()?.map(|(_, length)| length))
}

/// Adds the row of an owned task.
fn add_row(rows: &mut Tuplestore, owned: &Owned) {
    rows.add([
        Some(Uuid::datum(owned.id)),
        Some(Uuid::datum(owned.token)),
        owned.action,
        owned.spec,
        owned.priority,
        owned.key,
        Some(Datum::from(owned.tries)),
        owned.num_failures,
        owned.deadline.map(datum::timestamptz),
        owned.group_key,
        owned.created,
        Some(Datum::from(owned.max_tries)),
        owned.meta,
    ]);
}
