//! `return_task`, `return_tasks`, `cancel`, `cancel_tasks`, `cancel_group`, `delay` and `_errors_with`.

use crate::api::fcinfo::{Call, sql_functions};
use crate::api::validate;
use crate::error::{self, Result};
use crate::guc;
use crate::ops::finish::cancel;
use crate::ops::finish::return_tasks::{self, Return};
use crate::ops::submit::delay;
use crate::pg::datum::{self, BOOLS, JSONBS, TEXTS};
use crate::pg::jsonb;
use crate::pg::uuid::{Uuid, token_hash};
use crate::shmem::on_board::current_database;
use board::Outcome;
use pgrx::pg_sys::Datum;

sql_functions!(return_task, return_tasks, cancel, cancel_tasks, cancel_group, delay, errors_with);

/// `return_task(id, token, outcome, result, error, run_at) → text`
///
/// Takes an id, its token, an outcome and what the outcome needs: a result, an error, the time of a
/// retry. Returns the task's status.
fn return_task(call: &mut Call) -> Result<Option<Datum>> {
    call.require_writable("scylla.return_task()")?;
    let outcome = outcome(&call.text(2, "outcome")?)?;
    let it = Return {
        id: call.uuid(0, "id")?,
        token_hash: token_hash(call.uuid(1, "token")?),
        result: call.datum(3).map(validate::result).transpose()?,
        error: error(outcome, call.datum(4))?,
    };
    allow(outcome.takes_result() || it.result.is_none(), "result", outcome)?;
    let run_at = call.datum(5).map(|at| validate::run_at(datum::wall(at))).transpose()?;
    allow(outcome == Outcome::Retry || run_at.is_none(), "run_at", outcome)?;
    call.permit_tasks(&[it.id])?;
    let status = return_tasks::return_task(&current_database(), it, outcome, run_at)?;
    Ok(Some(datum::varlena(status.as_bytes())))
}

/// `return_tasks(ids, tokens, outcome, results, errors) → text[]`
///
/// Takes arrays of ids and tokens, an outcome, and arrays of results and errors or null. Returns an
/// array of statuses, with null where a token is not valid.
fn return_tasks(call: &mut Call) -> Result<Option<Datum>> {
    call.require_writable("scylla.return_tasks()")?;
    let leases = validate::leases(call.uuids(0, "ids")?, call.uuids(1, "tokens")?)?;
    let outcome = outcome(&call.text(2, "outcome")?)?;
    let results = call.column(3, "results", JSONBS, ("ids", leases.len()))?;
    let errors = call.column(4, "errors", JSONBS, ("ids", leases.len()))?;
    let returns = (leases.into_iter().zip(results).zip(errors))
        .map(|(((id, token), result), given)| {
            allow(outcome.takes_result() || result.is_none(), "results", outcome)?;
            let result = result.map(validate::result).transpose()?;
            Ok(Return { id, token_hash: token_hash(token), result, error: error(outcome, given)? })
        })
        .collect::<Result<Vec<Return>>>()?;
    let ids: Vec<Uuid> = returns.iter().map(|it| it.id).collect();
    call.permit_tasks(&ids)?;
    let answers = return_tasks::return_tasks(&current_database(), &returns, outcome, None);
    let status = |answer: Result<&'static str, _>| {
        answer.ok().map(|status| datum::varlena(status.as_bytes()))
    };
    Ok(Some(datum::array(TEXTS, answers.into_iter().map(status))))
}

/// `cancel(id) → boolean`
///
/// Takes an id, and cancels the task. Returns false if the task was settled.
fn cancel(call: &mut Call) -> Result<Option<Datum>> {
    call.require_writable("scylla.cancel()")?;
    let id = call.uuid(0, "id")?;
    call.permit_tasks(&[id])?;
    let cancelled = cancel::cancel(&current_database(), &[id]);
    let cancelled = cancelled[0].ok_or_else(|| error::no_such_task(id))?;
    Ok(Some(Datum::from(cancelled)))
}

/// `cancel_tasks(ids) → boolean[]`
///
/// Takes an array of ids. Returns for each what `cancel` gives, or null if there is no such task.
fn cancel_tasks(call: &mut Call) -> Result<Option<Datum>> {
    call.require_writable("scylla.cancel_tasks()")?;
    let ids = call.uuids(0, "ids")?;
    call.permit_tasks(&ids)?;
    let cancelled = cancel::cancel(&current_database(), &ids);
    Ok(Some(datum::array(BOOLS, cancelled.into_iter().map(|it| it.map(Datum::from)))))
}

/// `cancel_group(queue, group_key) → bigint`
///
/// Takes a queue and the key of a group, and cancels the group's unfinished tasks. Returns how many.
fn cancel_group(call: &mut Call) -> Result<Option<Datum>> {
    call.require_writable("scylla.cancel_group()")?;
    let queue = validate::queue(call.text(0, "queue")?)?;
    call.permit(&queue)?;
    let group_key = validate::group_key(call.text(1, "group_key")?)?;
    Ok(Some(Datum::from(cancel::cancel_group(&current_database(), &queue, &group_key))))
}

/// `delay(task, until) → boolean`
///
/// Takes an id and a time, and postpones the task, or brings it forward, to that time. Returns
/// false if the task runs or is settled.
fn delay(call: &mut Call) -> Result<Option<Datum>> {
    call.require_writable("scylla.delay()")?;
    let id = call.uuid(0, "task")?;
    let until = validate::time("until", call.time(1, "until")?)?;
    call.permit_tasks(&[id])?;
    Ok(Some(Datum::from(delay::delay(&current_database(), id, until)?)))
}

/// The most entries of a task's errors.
const ERRORS_MAX: usize = 100;

/// How many bytes the errors of a task may have beyond what one error may have: room for the ones
/// that scylla adds.
const OWN_ERRORS_MAX: usize = 65_536;

/// `_errors_with(errors, error) → jsonb`
///
/// Takes a task's errors and one more. Gives the newest of them, that one last.
fn errors_with(call: &mut Call) -> Result<Option<Datum>> {
    let (errors, error) = (call.jsonb(0, "errors")?, call.jsonb(1, "error")?);
    let most = guc::max_spec_size() + OWN_ERRORS_MAX;
    // SAFETY: declared as jsonb.
    Ok(Some(unsafe { jsonb::with_last(errors, error, ERRORS_MAX, most) }))
}

/// The outcome of its word.
fn outcome(word: &[u8]) -> Result<Outcome> {
    Outcome::parse(word).ok_or_else(|| {
        validate::unknown("outcome", word, r#""completed", "aborted", "retry" or "yield""#)
    })
}

/// Refuses an argument that does not fit the outcome.
fn allow(fits: bool, argument: &str, outcome: Outcome) -> Result<()> {
    if fits { Ok(()) } else { Err(error::not_with_outcome(argument, outcome.word())) }
}

/// The error that goes with an outcome.
fn error(outcome: Outcome, given: Option<Datum>) -> Result<Option<Datum>> {
    match given.map(validate::error).transpose()?.flatten() {
        Some(error) => allow(outcome.takes_error(), "error", outcome).map(|()| Some(error)),
        None if outcome == Outcome::Aborted => Err(error::error_needed()),
        None => Ok(None),
    }
}
