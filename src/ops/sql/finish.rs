//! Ending commands: what became of one is its task's result, or one of its errors.

use crate::extension::database::Database;
use crate::ops::finish::return_tasks::{Return, return_tasks};
use crate::pg::command::simple_query::{Completed, Failure};
use crate::pg::jsonb;
use crate::pg::uuid::Uuid;
use board::{Outcome, TokenHash};
use pgrx::pg_sys::Datum;

/// Aborts the task of a command that can never run, if its lease is valid still.
pub fn abort(db: &Database, id: Uuid, token_hash: TokenHash, why: &Failure) {
    let error = Some(error_of(why));
    let outcome = Outcome::Aborted;
    let it = Return { id, token_hash, outcome, result: None, error, run_at: None };
    _ = return_tasks(db, &[it]);
}

/// Returns the task of a command that has ended, if its lease is valid still. The texts are in the
/// encoding of this database.
pub fn finish(
    db: &Database,
    id: Uuid,
    token_hash: TokenHash,
    outcome: &Result<Completed, Failure>,
) {
    let word = if outcome.is_ok() { Outcome::Completed } else { Outcome::Retry };
    let blank = Return { id, token_hash, outcome: word, result: None, error: None, run_at: None };
    let it = match outcome {
        Ok(Completed { tag, rows }) => {
            let rows = jsonb::parse(&format!(r#"{{"rows": {rows}}}"#));
            let tag = jsonb::strings(&[("command_tag", tag)]);
            let result = Some(jsonb::merged(rows, tag));
            Return { result, ..blank }
        }
        Err(why) => Return { error: Some(error_of(why)), ..blank },
    };
    // A refusal: the task was cancelled, or deleted.
    _ = return_tasks(db, &[it]);
}

/// The error of a task whose command failed, or may not run.
fn error_of(why: &Failure) -> Datum {
    let Failure { sqlstate, message, detail, hint } = why;
    let all: [(&str, &[u8]); 3] = [("message", message), ("detail", detail), ("hint", hint)];
    let given: Vec<(&str, &[u8])> = all.into_iter().filter(|(_, text)| !text.is_empty()).collect();
    let members = [("code", Some(&sqlstate[..])), ("description", Some(&message[..]))];
    jsonb::object(&members, ("args", jsonb::strings(&given)))
}
