//! Errors of arguments: missing, out of range, of another type, too large.

use crate::error::report::Error;
use pgrx::prelude::*;

/// An argument that is not valid.
fn invalid(message: String) -> Error {
    Error::new(PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE, message)
}

/// A null where a value is needed.
pub fn missing(argument: &str) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_NULL_VALUE_NOT_ALLOWED,
        format!("{argument} must not be null"),
    )
}

/// A text that is too short or too long, in bytes.
pub fn bad_length(argument: &str, least: usize, most: usize, got: usize) -> Error {
    invalid(format!("{argument} must be {least} to {most} bytes long"))
        .detail(format!("The value has {got} bytes."))
}

/// A value out of its range. `range`: as in `between 0 and 1`.
pub fn out_of_range(argument: &str, range: &str) -> Error {
    invalid(format!("{argument} must be {range}"))
}

/// A number or an interval below zero.
pub fn negative(argument: &str) -> Error {
    invalid(format!("{argument} must not be negative"))
}

/// A key is to be kept, and the task has no key.
pub fn keyless() -> Error {
    invalid("unique_for needs a key".to_owned())
        .hint("Give the task a key, which stays taken for that time.")
}

/// An action that only `pgmq.send` gives.
pub fn action_of_messages() -> Error {
    invalid("action must not be \"pgmq\"".to_owned())
        .detail("It is the action of the messages of pgmq.send().")
}

/// The JSON value `null`, which is not an SQL null.
pub fn json_null(argument: &str) -> Error {
    invalid(format!("{argument} must not be JSON null"))
}

/// A word that is not one of the known ones. `known`: as in `"error", "ignore" or "replace"`.
pub fn unknown_value(argument: &str, got: &str, known: &str) -> Error {
    invalid(format!("unrecognized value for {argument}: \"{got}\"")).hint(format!("Use {known}."))
}

/// A member of an object whose members are the arguments of a function.
pub fn unknown_member(of: &str, name: &str, function: &str) -> Error {
    invalid(format!("unrecognized member of a {of}: \"{name}\""))
        .hint(format!("Name the members after the arguments of {function}."))
}

/// A member that no filter has. `known`: all that one can have.
pub fn unknown_filter_member(name: &str, known: &str) -> Error {
    invalid(format!("unrecognized member of a filter: \"{name}\"")).hint(format!("Use {known}."))
}

/// A filter for which more tasks would have to be read than a page may cost. `hint`: how to ask for
/// less.
pub fn reads_too_much(examined: usize, hint: &str) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
        "the filter would have to read too many tasks",
    )
    .detail(format!("The page is not full after {examined} tasks."))
    .hint(hint)
}

/// More queues, or lanes of them, than a list without a queue, or without an action, goes through.
pub fn too_many_lanes(most: usize, hint: &str) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
        "the filter would have to read too many queues",
    )
    .detail(format!(
        "A page goes through {most} queues at most, each action and priority of which counts as one."
    ))
    .hint(hint)
}

/// A JSON value of another type. `wanted`: as in `a string`.
pub fn wrong_type(member: &str, wanted: &str) -> Error {
    invalid(format!("{member} must be {wanted}"))
}

/// Two arrays of different lengths that belong together.
pub fn lengths_differ(one: &str, other: &str) -> Error {
    invalid(format!("{one} and {other} must have the same length"))
}

/// An array of arrays.
pub fn not_one_dimension(argument: &str) -> Error {
    invalid(format!("{argument} must be a one-dimensional array"))
}

/// An array with `got` elements, where `most` are allowed.
pub fn too_many_elements(argument: &str, most: usize, got: usize) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
        format!("{argument} must not have more than {most} elements"),
    )
    .detail(format!("The array has {got} elements."))
    .hint("Divide it among several calls.")
}

/// An outcome that needs an error, without one.
pub fn error_needed() -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_NULL_VALUE_NOT_ALLOWED,
        "error must not be null with outcome \"aborted\"",
    )
    .hint(r#"Pass error => '{"code": "...", "args": {}, "description": "..."}'."#)
}

/// An argument that does not fit the outcome.
pub fn not_with_outcome(argument: &str, outcome: &str) -> Error {
    invalid(format!("cannot specify {argument} with outcome \"{outcome}\""))
}

/// A sum of delays that is longer than any interval.
pub fn delays_too_long() -> Error {
    invalid("interval out of range".into())
        .detail("The delays of all retries are longer than an interval can be.")
}

/// What a worker tells of itself, of `got` bytes, where `most` are allowed.
pub fn worker_meta_too_large(got: usize, most: usize) -> Error {
    Error::new(PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED, "meta is too large")
        .detail(format!("The meta has {got} bytes, and a worker's may have {most} bytes."))
}

/// A spec, a result or an error of `got` bytes, where `most` are allowed.
pub fn too_large(argument: &str, got: usize, most: usize) -> Error {
    Error::new(PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED, format!("{argument} is too large"))
        .detail(format!(
            "The {argument} has {got} bytes, and scylla.max_spec_size is {most} bytes."
        ))
        .hint("Raise scylla.max_spec_size, or store the data elsewhere and refer to it.")
}
