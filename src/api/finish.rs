//! `return_task`, `return_tasks`, `return_many`, `cancel`, `cancel_tasks`, `cancel_group`, `delay`
//! and `_errors_with`.

use crate::api::fcinfo::{Call, sql_functions};
use crate::api::validate::{self, ELEMENTS_MAX};
use crate::error::{self, Result};
use crate::ops::finish::cancel;
use crate::ops::finish::return_tasks::{self, Return};
use crate::ops::submit::delay;
use crate::pg::datum::{self, BOOLS, JSONBS, TEXTS, TIMESTAMPTZS};
use crate::pg::uuid::{Uuid, token_hash};
use crate::shmem::on_board::current_database;
use crate::storage::ending::with_error;
use board::Outcome;
use pgrx::pg_sys::Datum;

sql_functions!(
    return_task,
    return_tasks,
    return_many,
    cancel,
    cancel_tasks,
    cancel_group,
    delay,
    errors_with
);

/// `return_task(id, token, outcome, result, error, run_at) → text`
///
/// Takes an id, its token, an outcome and what the outcome needs: a result, an error, the time of a
/// retry. Returns the task's status.
fn return_task(call: &mut Call) -> Result<Option<Datum>> {
    call.require_writable("scylla.return_task()")?;
    let outcome = outcome(&call.text(2, "outcome")?)?;
    let lease = (call.uuid(0, "id")?, call.uuid(1, "token")?);
    let given = [call.datum(3), call.datum(4), call.datum(5)];
    let it = returned(lease, outcome, ["result", "error", "run_at"], given)?;
    call.permit_tasks(&[it.id])?;
    let status = return_tasks::return_task(&current_database(), it)?;
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
        .map(|((lease, result), error)| {
            returned(lease, outcome, ["results", "error", "run_at"], [result, error, None])
        })
        .collect::<Result<Vec<Return>>>()?;
    statuses(call, &returns)
}

/// `return_many(ids, tokens, outcomes, results, errors, run_ats) → text[]`
///
/// As `return_tasks`, with an outcome for each task, and the time of each retry or yield.
fn return_many(call: &mut Call) -> Result<Option<Datum>> {
    call.require_writable("scylla.return_many()")?;
    let leases = validate::leases(call.uuids(0, "ids")?, call.uuids(1, "tokens")?)?;
    // A null array is an empty one, as for arrays of ids.
    let outcomes = call.optional_array(2, "outcomes", TEXTS, ELEMENTS_MAX)?.unwrap_or_default();
    validate::same_length(("ids", &leases), ("outcomes", &outcomes))?;
    let [results, errors, run_ats] =
        [(3, "results", JSONBS), (4, "errors", JSONBS), (5, "run_ats", TIMESTAMPTZS)]
            .map(|(number, name, kind)| call.column(number, name, kind, ("ids", leases.len())));
    let (results, errors, run_ats) = (results?, errors?, run_ats?);
    let mut returns = Vec::with_capacity(leases.len());
    for (at, lease) in leases.into_iter().enumerate() {
        let word = outcomes[at].ok_or_else(|| error::missing("an element of outcomes"))?;
        // SAFETY: an element of an array of texts.
        let it = outcome(unsafe { datum::slice(word) }).and_then(|outcome| {
            let given = [results[at], errors[at], run_ats[at]];
            returned(lease, outcome, ["results", "errors", "run_ats"], given)
        });
        returns.push(it.map_err(|error| error.of_element(at + 1))?);
    }
    statuses(call, &returns)
}

/// Returns tasks if the caller may. Returns an array of statuses.
fn statuses(call: &Call, returns: &[Return]) -> Result<Option<Datum>> {
    let ids: Vec<Uuid> = returns.iter().map(|it| it.id).collect();
    call.permit_tasks(&ids)?;
    let answers = return_tasks::return_tasks(&current_database(), returns);
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
    let permit = |id: Uuid, queue: &[u8]| call.permit_found(id, queue);
    let cancelled = cancel::cancel(&current_database(), &[id], permit)?;
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
    let permit = |id: Uuid, queue: &[u8]| call.permit_found(id, queue);
    let cancelled = cancel::cancel(&current_database(), &ids, permit)?;
    Ok(Some(datum::array(BOOLS, cancelled.into_iter().map(|it| it.map(Datum::from)))))
}

/// `cancel_group(queue, group_key) → bigint`
///
/// Takes a queue and the key of a group, and cancels the group's unfinished tasks. Returns how
/// many.
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
    let permit = |id: Uuid, queue: &[u8]| call.permit_found(id, queue);
    Ok(Some(Datum::from(delay::delay(&current_database(), id, until, permit)?)))
}

/// `_errors_with(errors, error) → jsonb`
///
/// Takes a task's errors and one more. Gives the newest of them, that one last.
fn errors_with(call: &mut Call) -> Result<Option<Datum>> {
    let (errors, error) = (call.jsonb(0, "errors")?, call.jsonb(1, "error")?);
    // SAFETY: declared as jsonb.
    Ok(Some(unsafe { with_error(errors, error) }))
}

/// The outcome of its word.
fn outcome(word: &[u8]) -> Result<Outcome> {
    Outcome::parse(word).ok_or_else(|| {
        validate::unknown("outcome", word, r#""completed", "aborted", "retry" or "yield""#)
    })
}

/// A task to return, with a result, an error and a time, or nulls; `names` are those of the
/// arguments.
fn returned(
    (id, token): (Uuid, Uuid),
    outcome: Outcome,
    names: [&str; 3],
    [result, given, run_at]: [Option<Datum>; 3],
) -> Result<Return> {
    allow(outcome.takes_result() || result.is_none(), names[0], outcome)?;
    let result = result.map(validate::result).transpose()?;
    let error = error(names[1], outcome, given)?;
    let run_at = run_at.map(|at| validate::time(names[2], datum::wall(at))).transpose()?;
    allow(outcome.takes_run_at() || run_at.is_none(), names[2], outcome)?;
    Ok(Return { id, token_hash: token_hash(token), outcome, result, error, run_at })
}

/// Refuses an argument that does not fit the outcome.
fn allow(fits: bool, argument: &str, outcome: Outcome) -> Result<()> {
    if fits { Ok(()) } else { Err(error::not_with_outcome(argument, outcome.word())) }
}

/// The error that goes with an outcome.
fn error(argument: &str, outcome: Outcome, given: Option<Datum>) -> Result<Option<Datum>> {
    match given.map(validate::error).transpose()?.flatten() {
        Some(error) => allow(outcome.takes_error(), argument, outcome).map(|()| Some(error)),
        None if outcome == Outcome::Aborted => Err(error::error_needed()),
        None => Ok(None),
    }
}
