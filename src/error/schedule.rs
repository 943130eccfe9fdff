//! Errors about schedules.

use crate::error::repeated::to_report;
use crate::error::report::Error;
use crate::pg::{datum, time};
use board::Micros;
use pgrx::{PgLogLevel, PgSqlErrorCode};

/// No schedule of that name.
pub fn no_such_schedule(name: &[u8]) -> Error {
    let name = datum::printable(name);
    Error::new(PgSqlErrorCode::ERRCODE_NO_DATA_FOUND, format!("schedule \"{name}\" does not exist"))
}

/// A name that only the functions of the schema `cron` give.
pub fn name_of_jobs() -> Error {
    invalid("name must not begin with \"cron:\"".to_owned())
        .detail("Such names are those of jobs of the schema cron.")
}

/// An expression that cannot be read. `why`: a sentence.
pub fn bad_schedule(expression: &str, why: &str) -> Error {
    invalid(format!("invalid schedule: \"{expression}\""))
        .detail(why)
        .hint("Write five or six fields of cron, a word such as @daily, or every and an interval.")
}

/// Logs that a run was skipped since its key is taken: of one schedule, from time to time.
pub fn log_skipped_run(schedule: &[u8], queue: &[u8], key: &[u8]) {
    let [schedule, queue, key] = [schedule, queue, key].map(datum::printable);
    if to_report(&format!("fire schedule {schedule}")).is_some() {
        let message = format!("scylla skipped a run of schedule \"{schedule}\"");
        Error::new(PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION, message)
            .detail(format!("Another task of queue \"{queue}\" has its key \"{key}\"."))
            .report(PgLogLevel::LOG);
    }
}

/// A time zone that PostgreSQL does not know.
pub fn unknown_zone(name: &str) -> Error {
    let name = datum::clipped(name);
    invalid(format!("time zone \"{name}\" not recognized"))
        .hint("Use a name of the view pg_timezone_names, such as Europe/Berlin.")
}

/// A schedule that never runs.
pub fn ends_before_it_starts() -> Error {
    invalid("ends_at must not be before starts_at".to_owned())
}

/// A pause before retries, with no limit to these.
pub fn retries_without_end(argument: &str) -> Error {
    invalid(format!("{argument} cannot be given without max_tries"))
        .detail("All retries of a run together must be shorter than the time between two runs.")
}

/// A number of tries that has no limit.
pub fn tries_without_limit() -> Error {
    invalid("max_tries of a schedule must be at least 1".to_owned())
        .detail("All retries of a run together must be shorter than the time between two runs.")
        .hint("Leave max_tries out if the settings of the queue should apply.")
}

/// Retries that may last until the next run.
pub fn retries_too_long(worst: Micros, recurrence: Micros) -> Error {
    let [worst, recurrence] = [worst, recurrence].map(time::exact);
    invalid(format!(
        "retries of a run may take {worst}, which is not shorter than its recurrence of {recurrence}"
    ))
    .hint("Lower max_tries, retry_interval or retry_jitter.")
}

/// A warning: a schedule cannot fire any more. `why`: a sentence.
pub fn schedule_inactive(name: &[u8], why: &str) -> Error {
    let name = datum::printable(name);
    Error::new(
        PgSqlErrorCode::ERRCODE_WARNING,
        format!("schedule \"{name}\" is inactive from now on"),
    )
    .detail(why)
    .hint("Register it again, or use scylla.alter_schedule() with active => true.")
}

/// A warning: the scheduler cannot fire a schedule, and tries it again later.
pub fn schedule_quarantined(id: i64, pause: Micros) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_WARNING,
        format!("scylla could not fire schedule number {id}"),
    )
    .detail(format!("The scheduler tries again in {}.", time::humanize(pause)))
}

/// A warning: a role that a dump names.
pub fn role_missing(name: &str) -> Error {
    let name = datum::clipped(name);
    Error::new(PgSqlErrorCode::ERRCODE_WARNING, format!("role {name} does not exist"))
        .detail("What belonged to it belongs to no role.")
}

/// A warning: a database that a dump names.
pub fn database_missing(name: &str) -> Error {
    let name = datum::clipped(name);
    Error::new(PgSqlErrorCode::ERRCODE_WARNING, format!("database {name} does not exist"))
        .detail("What was to run there does not run.")
}

fn invalid(message: String) -> Error {
    Error::new(PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE, message)
}
