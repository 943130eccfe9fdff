//! `wait_for_work`, `wait_for_any` and `wait_for_task`: procedures, since they end their
//! transaction to wait.

use crate::api::fcinfo::{Call, sql_functions};
use crate::api::validate::{self, ACTIONS_MAX, ELEMENTS_MAX};
use crate::error::{self, Result};
use crate::ops::query::wait;
use crate::pg::datum::{self, TEXTS};
use crate::pg::time;
use board::{Micros, Monotonic};
use pgrx::pg_sys::{self, Datum};

sql_functions!(wait_for_work, wait_for_any, wait_for_task);

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
    let until = deadline(call)?;
    let actions = call.optional_array(2, "actions", TEXTS, ACTIONS_MAX)?;
    let actions = actions.map(validate::actions).transpose()?;
    call.require_primary(function)?;
    call.require_top_level(function)?;
    let queues: Vec<&[u8]> = queues.iter().map(Vec::as_slice).collect();
    let actions: Option<Vec<&[u8]>> =
        actions.as_ref().map(|actions| actions.iter().map(Vec::as_slice).collect());
    Ok(nonatomic(|| wait::wait_for_work(&queues, actions.as_deref(), until)))
}

/// `wait_for_task(id, timeout, status, result)`
///
/// Takes an id and a timeout. Returns a row: the status and the result of the task once it has
/// settled, nulls after the timeout.
fn wait_for_task(call: &mut Call) -> Result<Option<Datum>> {
    let id = call.uuid(0, "id")?;
    let until = deadline(call)?;
    call.permit_tasks(&[id])?;
    call.require_top_level("scylla.wait_for_task()")?;
    let copy = datum::copy_to_caller_context();
    let show = |status: String, result: Option<Datum>| (status, result.map(&copy));
    let settled = nonatomic(|| wait::wait_for_task(id, until, show))?;
    let (status, result) = settled.unzip();
    let status = status.map(|status| datum::varlena(status.as_bytes()));
    Ok(Some(call.row([status, result.flatten()])))
}

/// The end of the timeout, the second argument of both procedures.
fn deadline(call: &Call) -> Result<Monotonic> {
    let (_, length) = call.interval(1).ok_or_else(|| error::missing("timeout"))?;
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
