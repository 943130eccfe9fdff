//! `retry_worst_case`.

use crate::api::fcinfo::{Call, sql_functions};
use crate::api::validate;
use crate::error::{self, Result};
use crate::guc;
use crate::pg::datum;
use board::Backoff;
use pgrx::pg_sys::Datum;

sql_functions!(retry_worst_case);

/// `retry_worst_case(max_tries, retry_interval, retry_jitter) → interval`
///
/// Takes max_tries, retry_interval and retry_jitter. Returns the longest time that all delays
/// before retries can take together.
fn retry_worst_case(call: &mut Call) -> Result<Option<Datum>> {
    let tries = call.int(0).ok_or_else(|| error::missing("max_tries"))?;
    let tries = validate::at_least_one("max_tries", tries)?;
    let length = |number, name| {
        let given = call.interval(number).ok_or_else(|| error::missing(name))?;
        validate::zero_or_longer(name, given).map(|(_, length)| length)
    };
    let (interval, jitter) = (length(1, "retry_interval")?, length(2, "retry_jitter")?);
    let backoff = Backoff { interval, jitter, cap: guc::retry_max_interval() };
    let sum = backoff.worst_case(tries as u32 - 1).ok_or_else(error::delays_too_long)?;
    Ok(Some(datum::interval(sum)))
}
