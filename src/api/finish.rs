//! `return_task`, `return_tasks`, `return_many`, `cancel`, `cancel_tasks`, `cancel_group`, `delay`
//! and `_errors_with`.

use crate::api::call::Call;
use crate::api::call::declared::*;
use crate::api::validate::{self, ELEMENTS_MAX};
use crate::error::{self, Result};
use crate::ops::finish::cancel;
use crate::ops::finish::return_tasks::{self, Return};
use crate::ops::submit::delay;
use crate::pg::datum::{self, BOOLS, TEXTS};
use crate::pg::uuid::{Uuid, token_hash};
use crate::storage::ending::with_error;
use crate::xact::on_board::current_database;
use board::Outcome;
use pgrx::pg_sys::Datum;

sql_functions!(
    ReturnTask => return_task,
    ReturnTasks => return_tasks,
    ReturnMany => return_many,
    Cancel => cancel,
    CancelTasks => cancel_tasks,
    CancelGroup => cancel_group,
    Delay => delay,
    ErrorsWith => errors_with,
);

/// Takes an id, its token, an outcome and what the outcome needs: a result, an error, the time of a
/// retry. Returns the task's status.
fn return_task(call: &mut Call, args: ReturnTask) -> Result<Option<Datum>> {
    let outcome = outcome(&args.outcome.required()?)?;
    let lease = (args.id.required()?, args.token.required()?);
    let given = [args.result.named(), args.error.named(), args.run_at.named()];
    let it = returned(lease, outcome, given)?;
    call.authorize_tasks(&[it.id])?;
    let status = return_tasks::return_task(&current_database(), it)?;
    Ok(Some(datum::varlena(status.as_bytes())))
}

/// Takes arrays of ids and tokens, an outcome, and arrays of results and errors or null. Returns an
/// array of statuses, with null where a token is not valid.
fn return_tasks(call: &mut Call, args: ReturnTasks) -> Result<Option<Datum>> {
    let leases = validate::leases(args.ids.uuids()?, args.tokens.uuids()?)?;
    let outcome = outcome(&args.outcome.required()?)?;
    let results = args.results.column(&args.ids, leases.len())?;
    let errors = args.errors.column(&args.ids, leases.len())?;
    let returns = (leases.into_iter().zip(results).zip(errors))
        .map(|((lease, result), error)| {
            let given = [(args.results.name, result), (args.errors.name, error), ("run_at", None)];
            returned(lease, outcome, given)
        })
        .collect::<Result<Vec<Return>>>()?;
    statuses(call, &returns)
}

/// As `return_tasks`, with an outcome for each task, and the time of each retry or yield.
fn return_many(call: &mut Call, args: ReturnMany) -> Result<Option<Datum>> {
    let leases = validate::leases(args.ids.uuids()?, args.tokens.uuids()?)?;
    // A null array is an empty one, as for arrays of ids.
    let outcomes = args.outcomes.elements(ELEMENTS_MAX)?.unwrap_or_default();
    validate::same_length((args.ids.name, &leases), (args.outcomes.name, &outcomes))?;
    let results = args.results.column(&args.ids, leases.len())?;
    let errors = args.errors.column(&args.ids, leases.len())?;
    let run_ats = args.run_ats.column(&args.ids, leases.len())?;
    let mut returns = Vec::with_capacity(leases.len());
    for (at, lease) in leases.into_iter().enumerate() {
        let word = outcomes[at].ok_or_else(|| error::missing("an element of outcomes"))?;
        // SAFETY: an element of an array of texts.
        let it = outcome(unsafe { datum::slice(word) }).and_then(|outcome| {
            let given = [
                (args.results.name, results[at]),
                (args.errors.name, errors[at]),
                (args.run_ats.name, run_ats[at]),
            ];
            returned(lease, outcome, given)
        });
        returns.push(it.map_err(|error| error.of_element(at + 1))?);
    }
    statuses(call, &returns)
}

/// Returns tasks if the caller may. Returns an array of statuses.
fn statuses(call: &Call, returns: &[Return]) -> Result<Option<Datum>> {
    let ids: Vec<Uuid> = returns.iter().map(|it| it.id).collect();
    call.authorize_tasks(&ids)?;
    let answers = return_tasks::return_tasks(&current_database(), returns);
    let status = |answer: Result<&'static str, _>| {
        answer.ok().map(|status| datum::varlena(status.as_bytes()))
    };
    Ok(Some(datum::array(TEXTS, answers.into_iter().map(status))))
}

/// Takes an id, and cancels the task. Returns false if the task was settled.
fn cancel(call: &mut Call, args: Cancel) -> Result<Option<Datum>> {
    let id = args.id.required()?;
    call.authorize_tasks(&[id])?;
    let authorize = |id: Uuid, queue: &[u8]| call.authorize_found(id, queue);
    let cancelled = cancel::cancel(&current_database(), &[id], authorize)?;
    let cancelled = cancelled[0].ok_or_else(|| error::no_such_task(id))?;
    Ok(Some(Datum::from(cancelled)))
}

/// Takes an array of ids. Returns for each what `cancel` gives, or null if there is no such task.
fn cancel_tasks(call: &mut Call, args: CancelTasks) -> Result<Option<Datum>> {
    let ids = args.ids.uuids()?;
    call.authorize_tasks(&ids)?;
    let authorize = |id: Uuid, queue: &[u8]| call.authorize_found(id, queue);
    let cancelled = cancel::cancel(&current_database(), &ids, authorize)?;
    Ok(Some(datum::array(BOOLS, cancelled.into_iter().map(|it| it.map(Datum::from)))))
}

/// Takes a queue and the key of a group, and cancels the group's unfinished tasks. Returns how
/// many.
fn cancel_group(call: &mut Call, args: CancelGroup) -> Result<Option<Datum>> {
    let queue = validate::queue(args.queue.required()?)?;
    call.authorize(&queue)?;
    let group_key = validate::group_key(args.group_key.required()?)?;
    Ok(Some(Datum::from(cancel::cancel_group(&current_database(), &queue, &group_key))))
}

/// Takes an id and a time, and postpones the task, or brings it forward, to that time. Returns
/// false if the task runs or is settled.
fn delay(call: &mut Call, args: Delay) -> Result<Option<Datum>> {
    let id = args.task.required()?;
    let until = validate::time("until", args.until.required()?)?;
    call.authorize_tasks(&[id])?;
    let authorize = |id: Uuid, queue: &[u8]| call.authorize_found(id, queue);
    Ok(Some(Datum::from(delay::delay(&current_database(), id, until, authorize)?)))
}

/// Takes a task's errors and one more. Gives the newest of them, that one last.
fn errors_with(_: &mut Call, args: ErrorsWith) -> Result<Option<Datum>> {
    let (errors, error) = (args.errors.required()?, args.error.required()?);
    // SAFETY: declared as jsonb.
    Ok(Some(unsafe { with_error(errors, error) }))
}

/// The outcome of its word.
fn outcome(word: &[u8]) -> Result<Outcome> {
    Outcome::parse(word).ok_or_else(|| {
        validate::unknown("outcome", word, r#""completed", "aborted", "retry" or "yield""#)
    })
}

/// A task to return, with a result, an error and a time, or nulls, each with the name of its
/// argument.
fn returned(
    (id, token): (Uuid, Uuid),
    outcome: Outcome,
    [(results, result), (errors, given), (times, run_at)]: [(&str, Option<Datum>); 3],
) -> Result<Return> {
    allow(outcome.takes_result() || result.is_none(), results, outcome)?;
    let result = result.map(validate::result).transpose()?;
    let error = error(errors, outcome, given)?;
    let run_at = run_at.map(|at| validate::time(times, datum::wall(at))).transpose()?;
    allow(outcome.takes_run_at() || run_at.is_none(), times, outcome)?;
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
