//! `wait_for_work` and `wait_for_task`: procedures, since they end their transaction to wait.

use crate::api::fcinfo::{Call, sql_functions};
use crate::api::validate;
use crate::error::{self, Result};
use crate::ops::query::wait;
use crate::pg::{datum, time};
use board::{Micros, Monotonic};
use pgrx::pg_sys::{self, Datum};

sql_functions!(wait_for_work, wait_for_task);

/// `wait_for_work(queue, timeout, available)`
///
/// Takes a queue and a timeout. Gives a row: whether the queue has a ready task, false after the
/// timeout.
fn wait_for_work(call: &mut Call) -> Result<Option<Datum>> {
    let queue = validate::queue(call.text(0, "queue")?)?;
    let until = until(call)?;
    call.serves("scylla.wait_for_work()")?;
    call.stands_alone("scylla.wait_for_work()")?;
    let available = unbound(|| wait::wait_for_work(&queue, until));
    Ok(Some(call.row([Some(Datum::from(available))])))
}

/// `wait_for_task(id, timeout, status, result)`
///
/// Takes an id and a timeout. Gives a row: the status and the result of the task once it has settled,
/// nulls after the timeout.
fn wait_for_task(call: &mut Call) -> Result<Option<Datum>> {
    let id = call.uuid(0, "id")?;
    let until = until(call)?;
    call.stands_alone("scylla.wait_for_task()")?;
    let keep = datum::copy_to_caller_context();
    let show = |status: String, result: Option<Datum>| (status, result.map(&keep));
    let ended = unbound(|| wait::wait_for_task(id, until, show))?;
    let (status, result) = ended.unzip();
    let status = status.map(|status| datum::varlena(status.as_bytes()));
    Ok(Some(call.row([status, result.flatten()])))
}

/// When a call's timeout, its second argument, is over.
fn until(call: &Call) -> Result<Monotonic> {
    let (_, length) = call.interval(1).ok_or_else(|| error::missing("timeout"))?;
    if length < Micros::ZERO {
        return Err(error::negative("timeout"));
    }
    Ok(time::monotonic() + length)
}

/// Does something that may end the transaction.
fn unbound<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: a session of this call's own; an error leaves closing it to the end of the transaction.
    unsafe {
        pg_sys::SPI_connect_ext(pg_sys::SPI_OPT_NONATOMIC as i32);
        let answer = work();
        pg_sys::SPI_finish();
        answer
    }
}
