//! What becomes of a task when its handler has ended.

use std::{
    any::Any,
    time::{Duration, SystemTime},
};

use serde_json::{
    Map, Value,
    value::{RawValue, to_raw_value},
};
use uuid::Uuid;

use crate::{error::TaskError, failure::HandlerError, task::Cause, values::When};

/// The longest description and the longest string in the arguments of an error, in bytes.
const LONGEST: (usize, usize) = (4_000, 20_000);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Completed,
    Aborted,
    Retry,
    Yield,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Aborted => "aborted",
            Self::Retry => "retry",
            Self::Yield => "yield",
        }
    }
}

/// The arguments of `return_many` for one task.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub kind: Kind,
    pub result: Option<Box<RawValue>>,
    pub error: Option<Box<RawValue>>,
    pub run_at: Option<SystemTime>,
}

impl Outcome {
    fn new(kind: Kind) -> Self {
        Self { kind, result: None, error: None, run_at: None }
    }

    pub fn hand_back() -> Self {
        Self::new(Kind::Yield)
    }

    fn failed(kind: Kind, error: TaskError) -> Self {
        Self { error: Some(stored(error)), ..Self::new(kind) }
    }

    /// The try has failed, for a reason that the worker tells.
    pub fn retry(code: &str, description: impl Into<String>) -> Self {
        let error =
            TaskError { code: code.into(), description: description.into(), args: Map::new() };
        Self::failed(Kind::Retry, error)
    }
}

/// A task that has ended, and is to be returned.
#[derive(Debug)]
pub(crate) struct Ended {
    pub id: Uuid,
    pub token: Uuid,
    pub outcome: Outcome,
    pub owned_at: SystemTime,
    /// Returned before, without an answer.
    pub doubtful: bool,
    /// Returned alone, since a batch with it was refused.
    pub alone: bool,
}

/// How a handler has ended.
#[derive(Debug)]
pub(crate) enum End {
    Returned(Result<Box<RawValue>, HandlerError>),
    Panicked(String),
    /// Its future was dropped before it was ready.
    Dropped,
}

impl End {
    pub fn panicked(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().map(ToString::to_string);
        Self::Panicked(
            text.or_else(|| panic.downcast_ref().cloned()).unwrap_or_else(|| "a panic".into()),
        )
    }

    /// What is returned; none: nothing, since the lease is over.
    ///
    /// `clock` is how much the server's clock is ahead of this machine's, in seconds.
    pub fn outcome(self, cause: Option<Cause>, clock: f64) -> Option<Outcome> {
        if cause.is_some_and(Cause::ends_lease) {
            return None;
        }
        Some(match self {
            Self::Returned(Ok(result)) => {
                let result = Some(result).filter(|result| result.get() != "null");
                Outcome { result, ..Outcome::new(Kind::Completed) }
            }
            Self::Returned(Err(HandlerError::Abort(error))) => {
                Outcome::failed(Kind::Aborted, error)
            }
            Self::Returned(Err(HandlerError::Snooze(until))) => {
                let run_at = match until {
                    When::At(time) => Some(time),
                    When::In(delay) => on_the_server(clock).checked_add(delay),
                };
                match run_at {
                    None => Outcome::retry("invalid_snooze", "no time is so far away"),
                    run_at => Outcome { run_at, ..Outcome::hand_back() },
                }
            }
            _ if cause == Some(Cause::Shutdown) => Outcome::hand_back(),
            _ if cause == Some(Cause::TimeLimit) => {
                Outcome::retry("time_limit", Cause::TimeLimit.to_string())
            }
            Self::Returned(Err(HandlerError::Retry(error))) => Outcome::failed(Kind::Retry, error),
            Self::Panicked(text) => Outcome::retry("panic", text),
            // the runtime of the handlers has ended
            Self::Dropped => Outcome::hand_back(),
        })
    }
}

/// Now, by the server's clock.
fn on_the_server(clock: f64) -> SystemTime {
    let now = SystemTime::now();
    let ahead = Duration::from_secs_f64(clock.abs());
    if clock < 0.0 { now - ahead } else { now + ahead }
}

/// An error as the server can store it: not too long, and without NUL characters.
fn stored(mut error: TaskError) -> Box<RawValue> {
    error.code = clean(&error.code, LONGEST.0);
    error.description = clean(&error.description, LONGEST.0);
    error.args = error
        .args
        .into_iter()
        .map(|(name, value)| (clean(&name, LONGEST.0), cleaned(value)))
        .collect();
    to_raw_value(&error).unwrap_or_default()
}

fn cleaned(value: Value) -> Value {
    match value {
        Value::String(text) => clean(&text, LONGEST.1).into(),
        Value::Array(items) => items.into_iter().map(cleaned).collect(),
        Value::Object(members) => members
            .into_iter()
            .map(|(name, value)| (clean(&name, LONGEST.0), cleaned(value)))
            .collect(),
        other => other,
    }
}

fn clean(text: &str, most: usize) -> String {
    let end = text.floor_char_boundary(most);
    text[..end].replace('\0', "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error() -> End {
        End::Returned(Err(HandlerError::retry("broken")))
    }

    fn value() -> End {
        End::Returned(Ok(to_raw_value(&1).unwrap()))
    }

    #[test]
    fn the_cause_decides_what_becomes_of_an_error() {
        let kind = |end: End, cause| end.outcome(cause, 0.0).map(|outcome| outcome.kind);
        for cause in [Cause::Cancelled, Cause::LeaseLost] {
            assert_eq!(kind(value(), Some(cause)), None);
            assert_eq!(kind(End::Dropped, Some(cause)), None);
        }
        assert_eq!(kind(error(), None), Some(Kind::Retry));
        assert_eq!(kind(error(), Some(Cause::Shutdown)), Some(Kind::Yield));
        assert_eq!(kind(End::Dropped, Some(Cause::Shutdown)), Some(Kind::Yield));
        assert_eq!(kind(value(), Some(Cause::Shutdown)), Some(Kind::Completed));
        assert_eq!(kind(End::Dropped, Some(Cause::TimeLimit)), Some(Kind::Retry));
        assert_eq!(kind(value(), Some(Cause::TimeLimit)), Some(Kind::Completed));
        let abort = End::Returned(Err(HandlerError::abort("a", "b")));
        assert_eq!(kind(abort, Some(Cause::Shutdown)), Some(Kind::Aborted));
        assert_eq!(kind(End::Panicked("oops".into()), None), Some(Kind::Retry));
        assert_eq!(kind(End::Dropped, None), Some(Kind::Yield));
    }

    #[test]
    fn errors_are_cut_and_cleaned() {
        let long = "\u{1F991}\0".repeat(10_000);
        let error = HandlerError::abort("a\0", &long).with("n\0", [&long]);
        let outcome = End::Returned(Err(error)).outcome(None, 0.0).unwrap();
        let stored = outcome.error.unwrap();
        assert!(stored.get().len() < 40_000 && !stored.get().contains("\\u0000"));
    }

    #[test]
    fn a_snooze_beyond_time_is_a_retry() {
        let end = End::Returned(Err(HandlerError::snooze(Duration::MAX)));
        assert_eq!(end.outcome(None, 0.0).unwrap().kind, Kind::Retry);
    }

    #[test]
    fn snooze_is_by_the_servers_clock() {
        let snooze = || End::Returned(Err(HandlerError::snooze(Duration::from_secs(60))));
        for (clock, ahead) in [(30.0, 90), (-30.0, 30)] {
            let run_at = snooze().outcome(None, clock).unwrap().run_at.unwrap();
            let ahead = Duration::from_secs(ahead);
            let difference = run_at.duration_since(SystemTime::now()).unwrap();
            assert!(difference <= ahead && difference + Duration::from_secs(1) > ahead);
        }
    }
}
