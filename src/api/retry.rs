//! `retry_worst_case`.

use crate::api::call::Call;
use crate::api::call::argument::{Argument, Interval};
use crate::api::call::declared::*;
use crate::api::validate;
use crate::error::{self, Result};
use crate::guc;
use crate::pg::datum;
use board::Backoff;
use pgrx::pg_sys::Datum;

sql_functions!(
    RetryWorstCase => retry_worst_case,
);

/// Takes max_tries, retry_interval and retry_jitter. Returns the longest time that all delays
/// before retries can take together.
fn retry_worst_case(_: &mut Call, args: RetryWorstCase) -> Result<Option<Datum>> {
    let tries = args.max_tries.required()?;
    let tries = validate::at_least_one("max_tries", tries)?;
    let length = |argument: &Argument<Interval>| {
        let given = argument.required()?;
        validate::zero_or_longer(argument.name, given).map(|(_, length)| length)
    };
    let (interval, jitter) = (length(&args.retry_interval)?, length(&args.retry_jitter)?);
    let backoff = Backoff { interval, jitter, cap: guc::retry_max_interval() };
    let sum = backoff.worst_case(tries as u32 - 1).ok_or_else(error::delays_too_long)?;
    Ok(Some(datum::interval(sum)))
}
