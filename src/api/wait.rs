//! `wait_for_work`, `wait_for_any`, `wait_for_event` and `wait_for_task`: procedures, since they
//! end their transaction to wait.

use crate::api::call::Call;
use crate::api::call::argument::{Argument, Array, Interval, Text};
use crate::api::call::declared::*;
use crate::api::validate::{self, ACTIONS_MAX, ELEMENTS_MAX};
use crate::error::{self, Result};
use crate::ops::query::wait::{self, Heard};
use crate::pg::datum;
use crate::pg::time;
use board::{Micros, Monotonic, WorkerEvent};
use pgrx::pg_sys::{self, Datum};

sql_functions!(
    WaitForWork => wait_for_work,
    WaitForAny => wait_for_any,
    WaitForEvent => wait_for_event,
    WaitForTask => wait_for_task,
);

/// Takes a queue, a timeout, and an array of actions or null. Returns a row: whether the queue has
/// a ready task of one of the actions, false after the timeout.
fn wait_for_work(call: &mut Call, args: WaitForWork) -> Result<Option<Datum>> {
    let queue = validate::queue(args.queue.required()?)?;
    call.authorize(&queue)?;
    let found = wait_for_queues(&[queue], &wish(&args.timeout, &args.actions)?);
    Ok(Some(call.row([Some(Datum::from(found.is_some()))])))
}

/// Takes an array of queues, a timeout, and an array of actions or null. Returns a row: the first
/// of the queues that has a ready task of one of the actions, null after the timeout.
fn wait_for_any(call: &mut Call, args: WaitForAny) -> Result<Option<Datum>> {
    let queues = args.queues.required_elements(ELEMENTS_MAX)?;
    let queues = validate::queues(queues, validate::queue)?;
    queues.iter().try_for_each(|queue| call.authorize(queue))?;
    let found = wait_for_queues(&queues, &wish(&args.timeout, &args.actions)?);
    Ok(Some(call.row([found.map(|at| datum::varlena(&queues[at]))])))
}

/// Returns the index of the first queue that has work.
fn wait_for_queues(queues: &[Vec<u8>], wish: &Wish) -> Option<usize> {
    let queues: Vec<&[u8]> = queues.iter().map(Vec::as_slice).collect();
    let actions = wish.actions();
    nonatomic(|| wait::wait_for_work(&queues, actions.as_deref(), wish.until))
}

/// Takes a worker, and the arguments of `wait_for_any`. Returns a row: what happened, `work`,
/// `signal` or `drain`, and the queue that has work; nulls after the timeout.
fn wait_for_event(call: &mut Call, args: WaitForEvent) -> Result<Option<Datum>> {
    let worker = validate::worker(args.worker.required()?)?;
    let queues = args.queues.required_elements(ELEMENTS_MAX)?;
    let queues = validate::queues(queues, validate::queue)?;
    queues.iter().try_for_each(|queue| call.authorize(queue))?;
    let wish = wish(&args.timeout, &args.actions)?;
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

fn wish(timeout: &Argument<Interval>, actions: &Argument<Array<Text>>) -> Result<Wish> {
    let until = deadline(timeout)?;
    let actions = actions.elements(ACTIONS_MAX)?.map(validate::actions).transpose()?;
    Ok(Wish { until, actions })
}

/// Takes an id and a timeout. Returns a row: the status and the result of the task once it has
/// settled, nulls after the timeout.
fn wait_for_task(call: &mut Call, args: WaitForTask) -> Result<Option<Datum>> {
    let id = args.id.required()?;
    let until = deadline(&args.timeout)?;
    call.authorize_tasks(&[id])?;
    let copy = datum::copy_to_caller_context();
    let show = |status: String, result: Option<Datum>| (status, result.map(&copy));
    let authorize = |queue: &[u8]| call.authorize_found(id, queue);
    let settled = nonatomic(|| wait::wait_for_task(id, until, authorize, show))?;
    let (status, result) = settled.unzip();
    let status = status.map(|status| datum::varlena(status.as_bytes()));
    Ok(Some(call.row([status, result.flatten()])))
}

/// The end of the timeout.
fn deadline(timeout: &Argument<Interval>) -> Result<Monotonic> {
    let (_, length) = timeout.required()?;
    if length < Micros::ZERO {
        return Err(error::negative(timeout.name));
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
