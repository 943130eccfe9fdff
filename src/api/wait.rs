//! `wait_for_work`, `wait_for_any`, `wait_for_event` and `wait_for_task`: procedures, since they
//! end their transaction to wait.

use crate::api::fcinfo::{Call, sql_functions};
use crate::api::validate::{self, ACTIONS_MAX, ELEMENTS_MAX};
use crate::error::{self, Result};
use crate::ops::query::wait::{self, Heard};
use crate::pg::datum::{self, TEXTS};
use crate::pg::time;
use board::{Micros, Monotonic, WorkerEvent};
use pgrx::pg_sys::{self, Datum};

sql_functions!(wait_for_work, wait_for_any, wait_for_event, wait_for_task);

/// `wait_for_work(queue, timeout, actions, available)`
///
/// Takes a queue, a timeout, and an array of actions or null. Returns a row: whether the queue has
/// a ready task of one of the actions, false after the timeout.
fn wait_for_work(call: &mut Call) -> Result<Option<Datum>> {
    let queue = validate::queue(call.text(0, "queue")?)?;
    call.permit(&queue)?;
    let found = wait_for_queues(call, "scylla.wait_for_work()", &[queue])?;
    Ok(Some(call.row([Some(Datum::from(found.is_some()))])))
}

/// `wait_for_any(queues, timeout, actions, queue)`
///
/// Takes an array of queues, a timeout, and an array of actions or null. Returns a row: the first
/// of the queues that has a ready task of one of the actions, null after the timeout.
fn wait_for_any(call: &mut Call) -> Result<Option<Datum>> {
    let queues = call.array(0, "queues", TEXTS, ELEMENTS_MAX)?;
    let queues = validate::queues(queues, validate::queue)?;
    queues.iter().try_for_each(|queue| call.permit(queue))?;
    let found = wait_for_queues(call, "scylla.wait_for_any()", &queues)?;
    Ok(Some(call.row([found.map(|at| datum::varlena(&queues[at]))])))
}

/// Waits with the other arguments of the call. Returns the index of the first queue that has work.
fn wait_for_queues(call: &Call, function: &str, queues: &[Vec<u8>]) -> Result<Option<usize>> {
    let wish = wish(call, 1, function)?;
    let queues: Vec<&[u8]> = queues.iter().map(Vec::as_slice).collect();
    let actions = wish.actions();
    Ok(nonatomic(|| wait::wait_for_work(&queues, actions.as_deref(), wish.until)))
}

/// `wait_for_event(worker, queues, timeout, actions, event, queue)`
///
/// Takes a worker, and the arguments of `wait_for_any`. Returns a row: what happened, `work`,
/// `signal` or `drain`, and the queue that has work; nulls after the timeout.
fn wait_for_event(call: &mut Call) -> Result<Option<Datum>> {
    let worker = validate::worker(call.text(0, "worker")?)?;
    let queues = call.array(1, "queues", TEXTS, ELEMENTS_MAX)?;
    let queues = validate::queues(queues, validate::queue)?;
    queues.iter().try_for_each(|queue| call.permit(queue))?;
    let wish = wish(call, 2, "scylla.wait_for_event()")?;
    let names: Vec<&[u8]> = queues.iter().map(Vec::as_slice).collect();
    let actions = wish.actions();
    let heard = nonatomic(|| wait::wait_for_event(&worker, &names, actions.as_deref(), wish.until));
    let (event, queue) = match heard {
        None => (None, None),
        Some(Heard::Work(at)) => (Some("work"), Some(datum::varlena(&queues[at]))),
        Some(Heard::Worker(WorkerEvent::Signal)) => (Some("signal"), None),
        Some(Heard::Worker(WorkerEvent::Drain)) => (Some("drain"), None),
    };
    Ok(Some(call.row([event.map(|event| datum::varlena(event.as_bytes())), queue])))
}

/// What a caller waits for, and how long.
struct Wish {
    until: Monotonic,
    actions: Option<Vec<Vec<u8>>>,
}

impl Wish {
    fn actions(&self) -> Option<Vec<&[u8]>> {
        self.actions.as_ref().map(|actions| actions.iter().map(Vec::as_slice).collect())
    }
}

/// The timeout and the actions, from an argument on, of a call that may wait here.
fn wish(call: &Call, first: usize, function: &str) -> Result<Wish> {
    let until = deadline(call, first)?;
    let actions = call.optional_array(first + 1, "actions", TEXTS, ACTIONS_MAX)?;
    let actions = actions.map(validate::actions).transpose()?;
    call.require_primary(function)?;
    call.require_top_level(function)?;
    Ok(Wish { until, actions })
}

/// `wait_for_task(id, timeout, status, result)`
///
/// Takes an id and a timeout. Returns a row: the status and the result of the task once it has
/// settled, nulls after the timeout.
fn wait_for_task(call: &mut Call) -> Result<Option<Datum>> {
    let id = call.uuid(0, "id")?;
    let until = deadline(call, 1)?;
    call.permit_tasks(&[id])?;
    call.require_top_level("scylla.wait_for_task()")?;
    let copy = datum::copy_to_caller_context();
    let show = |status: String, result: Option<Datum>| (status, result.map(&copy));
    let permit = |queue: &[u8]| call.permit_found(id, queue);
    let settled = nonatomic(|| wait::wait_for_task(id, until, permit, show))?;
    let (status, result) = settled.unzip();
    let status = status.map(|status| datum::varlena(status.as_bytes()));
    Ok(Some(call.row([status, result.flatten()])))
}

/// The end of the timeout, which is an argument.
fn deadline(call: &Call, number: usize) -> Result<Monotonic> {
    let (_, length) = call.interval(number).ok_or_else(|| error::missing("timeout"))?;
    if length < Micros::ZERO {
        return Err(error::negative("timeout"));
    }
    Ok(time::monotonic() + length)
}

/// Does some work that may end the transaction.
fn nonatomic<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: this call's own SPI session; after an error the end of the transaction closes it.
    unsafe {
        pg_sys::SPI_connect_ext(pg_sys::SPI_OPT_NONATOMIC as i32);
        let value = work();
        pg_sys::SPI_finish();
        value
    }
}
