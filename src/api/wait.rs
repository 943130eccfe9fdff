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
    let until = deadline(call)?;
    call.require_primary("scylla.wait_for_work()")?;
    call.require_top_level("scylla.wait_for_work()")?;
    let available = nonatomic(|| wait::wait_for_work(&queue, until));
    Ok(Some(call.row([Some(Datum::from(available))])))
}

/// `wait_for_task(id, timeout, status, result)`
///
/// Takes an id and a timeout. Gives a row: the status and the result of the task once it has
/// settled, nulls after the timeout.
fn wait_for_task(call: &mut Call) -> Result<Option<Datum>> {
    let id = call.uuid(0, "id")?;
    let until = deadline(call)?;
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
