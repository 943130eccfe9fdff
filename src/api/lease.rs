//! `own_tasks`, `own_task`, `own_any`, `register_worker`,
//! `drain_worker`, `extend`, `extend_tasks` and `heartbeat`.

use crate::api::call::Call;
use crate::api::call::argument::{Argument, Array, Integer, Interval, Text};
use crate::api::call::declared::*;
use crate::api::validate::{self, ACTIONS_MAX, ELEMENTS_MAX};
use crate::error::{self, Result};
use crate::ops::lease::extend;
use crate::ops::lease::hand_out::Owned;
use crate::ops::lease::own;
use crate::ops::lease::worker;
use crate::pg::datum::{self, BOOLS};
use crate::pg::uuid::Uuid;
use crate::shmem::sql_record::QUEUE;
use crate::xact::on_board::current_database;
use board::Micros;
use pgrx::pg_sys::Datum;

sql_functions!(
    OwnTasks => own_tasks,
    OwnTask => own_task,
    OwnAny => own_any,
    RegisterWorker => register_worker,
    DrainWorker => drain_worker,
    Extend => extend,
    ExtendTasks => extend_tasks,
    Heartbeat => heartbeat,
);

/// Takes a worker, a queue, how many tasks at most, an array of actions or null, and the length of
/// the leases or null. Returns a row per task, see `row`.
fn own_tasks(call: &mut Call, args: OwnTasks) -> Result<Option<Datum>> {
    let worker = validate::worker(args.worker.required()?)?;
    let queue = validate::open_queue(args.queue.required()?)?;
    call.authorize(&queue)?;
    let wish = wish(&args.max_tasks, &args.actions, &args.timeout)?;
    let actions = wish.actions();
    let mut rows = call.rows()?;
    let db = current_database();
    own::own_tasks(&db, &worker, &queue, wish.most, actions.as_deref(), wish.length, |owned| {
        rows.add(row(&owned));
    })?;
    Ok(None)
}

/// As `own_tasks`, of an array of queues: of the next one as long as the ones before had fewer
/// tasks than wanted. Each row has the queue at its end.
fn own_any(call: &mut Call, args: OwnAny) -> Result<Option<Datum>> {
    let worker = validate::worker(args.worker.required()?)?;
    let queues = args.queues.required_elements(ELEMENTS_MAX)?;
    let queues = validate::queues(queues, validate::open_queue)?;
    queues.iter().try_for_each(|queue| call.authorize(queue))?;
    let wish = wish(&args.max_tasks, &args.actions, &args.timeout)?;
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

fn wish(
    max_tasks: &Argument<Integer>,
    actions: &Argument<Array<Text>>,
    timeout: &Argument<Interval>,
) -> Result<Wish> {
    let most = validate::max_tasks(max_tasks.required()?)?;
    let actions = actions.elements(ACTIONS_MAX)?.map(validate::actions).transpose()?;
    Ok(Wish { most, actions, length: length(timeout)? })
}

/// Takes the id of a ready task, a worker, and the length of the lease or null. Returns one row,
/// see `row`.
fn own_task(call: &mut Call, args: OwnTask) -> Result<Option<Datum>> {
    let id = args.id.required()?;
    let worker = validate::worker(args.worker.required()?)?;
    let length = length(&args.timeout)?;
    call.authorize_tasks(&[id])?;
    let mut rows = call.rows()?;
    let row = |owned| rows.add(row(&owned));
    let authorize = |queue: &[u8]| match queue == QUEUE {
        // The server itself serves it.
        true => Err(error::served_queue()),
        false => call.authorize_found(id, queue),
    };
    own::own_task(&current_database(), id, &worker, length, authorize, row)?;
    Ok(None)
}

/// Takes a JSON object that the worker tells of itself. Returns a name that no other call ever
/// returns.
fn register_worker(_: &mut Call, args: RegisterWorker) -> Result<Option<Datum>> {
    let meta = validate::worker_meta(args.meta.required()?)?;
    let name = worker::register(&current_database(), meta);
    Ok(Some(datum::varlena(name.as_bytes())))
}

/// Takes a worker, and asks it to stop. Returns false when there is no such worker.
fn drain_worker(_: &mut Call, args: DrainWorker) -> Result<Option<Datum>> {
    let name = validate::worker(args.worker.required()?)?;
    Ok(Some(Datum::from(worker::drain(&current_database(), &name))))
}

/// Takes an id, its token, the new length of the lease or null, and the progress or null. Returns
/// false if the lease is lost.
fn extend(call: &mut Call, args: Extend) -> Result<Option<Datum>> {
    let lease = (args.id.required()?, args.token.required()?);
    let length = length(&args.timeout)?;
    let progress = args.progress.optional().map(validate::progress).transpose()?;
    call.authorize_tasks(&[lease.0])?;
    let extended = extend::extend(&current_database(), &[lease], length, &[progress]);
    Ok(Some(Datum::from(extended[0])))
}

/// Takes arrays of ids and tokens, and the new length of the leases or null. Returns an array of
/// what `extend` gives.
fn extend_tasks(call: &mut Call, args: ExtendTasks) -> Result<Option<Datum>> {
    let leases = validate::leases(args.ids.uuids()?, args.tokens.uuids()?)?;
    let length = length(&args.timeout)?;
    let ids: Vec<Uuid> = leases.iter().map(|(id, _)| *id).collect();
    call.authorize_tasks(&ids)?;
    let extended = extend::extend(&current_database(), &leases, length, &[]);
    Ok(Some(datum::array(BOOLS, extended.into_iter().map(|it| Some(Datum::from(it))))))
}

/// Takes a worker, arrays of ids and tokens, the new length of the leases or null, and an array of
/// progresses or null. Returns a row per lease: the id, its state, and the new deadline if it is
/// held.
fn heartbeat(call: &mut Call, args: Heartbeat) -> Result<Option<Datum>> {
    let worker = validate::worker(args.worker.required()?)?;
    let leases = validate::leases(args.ids.uuids()?, args.tokens.uuids()?)?;
    let length = length(&args.timeout)?;
    let progress = args.progress.column(&args.ids, leases.len())?;
    let checked = |(at, it): (usize, Option<Datum>)| {
        let number = it.map(|it| f64::from_bits(it.value() as u64));
        number.map(validate::progress).transpose().map_err(|error| error.of_element(at + 1))
    };
    let progress: Vec<Option<f64>> =
        progress.into_iter().enumerate().map(checked).collect::<Result<_>>()?;
    let ids: Vec<Uuid> = leases.iter().map(|(id, _)| *id).collect();
    call.authorize_tasks(&ids)?;
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
fn length(timeout: &Argument<Interval>) -> Result<Option<Micros>> {
    Ok(timeout.optional().map(validate::timeout).transpose()?.map(|(_, length)| length))
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
