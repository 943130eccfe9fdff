//! `own_tasks`, `own_task`, `own_any`, `register_worker`,
//! `drain_worker`, `extend`, `extend_tasks` and `heartbeat`.

use crate::api::fcinfo::{Call, sql_functions};
use crate::api::validate::{self, ACTIONS_MAX, ELEMENTS_MAX};
use crate::error::{self, Result};
use crate::ops::lease::extend;
use crate::ops::lease::own::{self, Owned};
use crate::ops::lease::worker;
use crate::ops::sql::QUEUE;
use crate::pg::datum::{self, BOOLS, FLOATS, TEXTS};
use crate::pg::uuid::Uuid;
use crate::shmem::on_board::current_database;
use board::Micros;
use pgrx::pg_sys::Datum;

sql_functions!(
    own_tasks as "own_tasks_0_2",
    own_task as "own_task_0_2",
    own_any,
    register_worker as "register_worker_0_2",
    drain_worker,
    extend,
    extend_tasks,
    heartbeat
);

/// `own_tasks(worker, queue, max_tasks, actions, timeout) → (id, token, …) …`
///
/// Takes a worker, a queue, how many tasks at most, an array of actions or null, and the length of
/// the leases or null. Returns a row per task, see `row`.
fn own_tasks(call: &mut Call) -> Result<Option<Datum>> {
    call.require_writable("scylla.own_tasks()")?;
    let worker = validate::worker(call.text(0, "worker")?)?;
    let queue = validate::open_queue(call.text(1, "queue")?)?;
    call.permit(&queue)?;
    let wish = wish(call)?;
    let actions = wish.actions();
    let mut rows = call.rows()?;
    let db = current_database();
    own::own_tasks(&db, &worker, &queue, wish.most, actions.as_deref(), wish.length, |owned| {
        rows.add(row(&owned));
    })?;
    Ok(None)
}

/// `own_any(worker, queues, max_tasks, actions, timeout) → (id, token, …, queue) …`
///
/// As `own_tasks`, of an array of queues: of the next one as long as the ones before had fewer
/// tasks than wanted. Each row has the queue at its end.
fn own_any(call: &mut Call) -> Result<Option<Datum>> {
    call.require_writable("scylla.own_any()")?;
    let worker = validate::worker(call.text(0, "worker")?)?;
    let queues = call.array(1, "queues", TEXTS, ELEMENTS_MAX)?;
    let queues = validate::queues(queues, validate::open_queue)?;
    queues.iter().try_for_each(|queue| call.permit(queue))?;
    let wish = wish(call)?;
    let actions = wish.actions();
    let mut rows = call.rows()?;
    let db = current_database();
    let (mut left, mut refused) = (wish.most, None);
    for queue in &queues {
        let name = Some(datum::varlena(queue));
        let show = |owned: Owned| {
            let [a, b, c, d, e, f, g, h, i, j, k, l, m] = row(&owned);
            rows.add([a, b, c, d, e, f, g, h, i, j, k, l, m, name]);
        };
        match own::own_tasks(&db, &worker, queue, left, actions.as_deref(), wish.length, show) {
            Ok(owned) => left -= owned,
            Err(error) => refused = Some(error),
        }
        if left == 0 {
            break;
        }
    }
    // As of one queue, no error where some tasks could be leased.
    match refused.filter(|_| left == wish.most) {
        Some(error) => Err(error),
        None => Ok(None),
    }
}

/// What a worker wants to own.
struct Wish {
    most: usize,
    actions: Option<Vec<Vec<u8>>>,
    length: Option<Micros>,
}

impl Wish {
    fn actions(&self) -> Option<Vec<&[u8]>> {
        self.actions.as_ref().map(|actions| actions.iter().map(Vec::as_slice).collect())
    }
}

/// The arguments of a call from the third one on: how many tasks, the actions, the length of the
/// leases.
fn wish(call: &Call) -> Result<Wish> {
    let most = validate::max_tasks(call.int(2).ok_or_else(|| error::missing("max_tasks"))?)?;
    let actions = call.optional_array(3, "actions", TEXTS, ACTIONS_MAX)?;
    let actions = actions.map(validate::actions).transpose()?;
    Ok(Wish { most, actions, length: length(call, 4)? })
}

/// `own_task(id, worker, timeout) → (id, token, …)`
///
/// Takes the id of a ready task, a worker, and the length of the lease or null. Returns one row,
/// see `row`.
fn own_task(call: &mut Call) -> Result<Option<Datum>> {
    call.require_writable("scylla.own_task()")?;
    let id = call.uuid(0, "id")?;
    let worker = validate::worker(call.text(1, "worker")?)?;
    let length = length(call, 2)?;
    call.permit_tasks(&[id])?;
    let mut rows = call.rows()?;
    let row = |owned| rows.add(row(&owned));
    let permit = |queue: &[u8]| match queue == QUEUE {
        // The server itself serves it.
        true => Err(error::served_queue()),
        false => call.permit_found(id, queue),
    };
    own::own_task(&current_database(), id, &worker, length, permit, row)?;
    Ok(None)
}

/// `register_worker(meta) → text`
///
/// Takes a JSON object that the worker tells of itself. Returns a name that no other call ever
/// returns.
fn register_worker(call: &mut Call) -> Result<Option<Datum>> {
    call.require_writable("scylla.register_worker()")?;
    let meta = validate::worker_meta(call.jsonb(0, "meta")?)?;
    let name = worker::register(&current_database(), meta);
    Ok(Some(datum::varlena(name.as_bytes())))
}

/// `drain_worker(worker) → boolean`
///
/// Takes a worker, and asks it to stop. Returns false when there is no such worker.
fn drain_worker(call: &mut Call) -> Result<Option<Datum>> {
    call.require_writable("scylla.drain_worker()")?;
    let name = validate::worker(call.text(0, "worker")?)?;
    Ok(Some(Datum::from(worker::drain(&current_database(), &name))))
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
    let extended = extend::extend(&current_database(), &[lease], length, &[progress]);
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
    let extended = extend::extend(&current_database(), &leases, length, &[]);
    Ok(Some(datum::array(BOOLS, extended.into_iter().map(|it| Some(Datum::from(it))))))
}

/// `heartbeat(worker, ids, tokens, timeout, progress) → (id, state, deadline) …`
///
/// Takes a worker, arrays of ids and tokens, the new length of the leases or null, and an array of
/// progresses or null. Returns a row per lease: the id, its state, and the new deadline if it is
/// held.
fn heartbeat(call: &mut Call) -> Result<Option<Datum>> {
    call.require_writable("scylla.heartbeat()")?;
    let worker = validate::worker(call.text(0, "worker")?)?;
    let leases = validate::leases(call.uuids(1, "ids")?, call.uuids(2, "tokens")?)?;
    let length = length(call, 3)?;
    let progress = call.column(4, "progress", FLOATS, ("ids", leases.len()))?;
    let checked = |(at, it): (usize, Option<Datum>)| {
        let number = it.map(|it| f64::from_bits(it.value() as u64));
        number.map(validate::progress).transpose().map_err(|error| error.of_element(at + 1))
    };
    let progress: Vec<Option<f64>> =
        progress.into_iter().enumerate().map(checked).collect::<Result<_>>()?;
    let ids: Vec<Uuid> = leases.iter().map(|(id, _)| *id).collect();
    call.permit_tasks(&ids)?;
    let mut rows = call.rows()?;
    // Most leases have the state of the one before: one text for all of these.
    let (mut word, mut text) = ("", Datum::from(0));
    extend::heartbeat(&current_database(), &worker, &leases, length, &progress, |id, state| {
        if state.word() != word {
            word = state.word();
            text = datum::varlena(word.as_bytes());
        }
        rows.add([Some(id.datum()), Some(text), state.deadline().map(datum::timestamptz)]);
    });
    Ok(None)
}

/// The length of a lease that the caller asks for.
fn length(call: &Call, number: usize) -> Result<Option<Micros>> {
    Ok(call.interval(number).map(validate::timeout).transpose()?.map(|(_, length)| length))
}

/// The row of an owned task.
fn row(owned: &Owned) -> [Option<Datum>; 13] {
    [
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
    ]
}
