//! Errors about SQL commands that the server runs.

use crate::error::report::Error;
use crate::pg::datum;
use crate::pg::time;
use crate::pg::uuid::Uuid;
use board::Micros;
use pgrx::PgSqlErrorCode;

/// The queue of SQL commands, where another call names it.
pub fn served_queue() -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "queue \"sql\" is served by the server itself",
    )
    .hint("Use scylla.run_sql() or scylla.schedule_sql().")
}

/// A change of a schedule of SQL commands.
pub fn sql_schedule(name: &[u8], argument: &str) -> Error {
    let name = datum::printable(name);
    Error::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("cannot change {argument} of schedule \"{name}\""),
    )
    .detail("Its runs are SQL commands that the server runs.")
    .hint("Register it again with scylla.schedule_sql().")
}

/// A command without any SQL.
pub fn empty_command() -> Error {
    Error::new(PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE, "command must not be empty")
}

/// A command that is too long.
pub fn command_too_large(size: usize, most: usize) -> Error {
    Error::new(PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED, "command is too large")
        .detail(format!("The command has {size} bytes, and scylla.max_spec_size is {most} bytes."))
}

/// A task to submit again whose command runs as a role that the caller has no rights of.
pub fn not_of_role(id: Uuid) -> Error {
    not_permitted(format!("permission denied to submit task {id} again"))
        .detail("Its SQL command runs as a role whose rights you do not have.")
}

/// The role of a command is gone.
pub fn role_gone() -> Error {
    not_permitted("the role of the command does not exist".to_owned())
}

/// A role that cannot log in.
pub fn role_cannot_log_in(name: &str) -> Error {
    not_permitted(format!("role {name} is not permitted to log in"))
        .hint("Use a role with the attribute LOGIN.")
}

/// A superuser, where these may have no command run.
pub fn superuser_sql_is_off() -> Error {
    not_permitted("superusers cannot have SQL commands run".to_owned())
        .hint("Use another role, or turn scylla.enable_superuser_sql on.")
}

/// A database that does not exist.
pub fn no_such_database(name: &[u8]) -> Error {
    let name = datum::printable(name);
    Error::new(
        PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
        format!("database \"{name}\" does not exist"),
    )
}

/// A database that is not for commands of other databases.
pub fn not_sql_database(name: &[u8]) -> Error {
    let name = datum::printable(name);
    not_permitted(format!("SQL commands of other databases cannot run in database \"{name}\""))
        .hint("Add the database to scylla.sql_databases, or run the command from there.")
}

/// A role or a database with a connection limit of 0.
pub fn no_connections() -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_TOO_MANY_CONNECTIONS,
        "the connection limit of the role or of the database is 0",
    )
}

/// A database that has the name of another one, which the command was meant for.
pub fn another_database(name: &[u8]) -> Error {
    let name = datum::printable(name);
    Error::new(
        PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
        format!("database \"{name}\" is not the one that the command was given"),
    )
    .detail("It was created, or got its name, after the call that named it.")
    .hint("Name the database again in a new call.")
}

/// A database that accepts no connections.
pub fn accepts_no_connections(name: &[u8]) -> Error {
    let name = datum::printable(name);
    Error::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("database \"{name}\" is not currently accepting connections"),
    )
}

/// A role that may not connect to a database.
pub fn cannot_connect(name: &[u8]) -> Error {
    let name = datum::printable(name);
    not_permitted(format!("permission denied for database \"{name}\""))
        .detail("The role does not have the CONNECT privilege.")
}

/// A process that did not come to run its command.
pub fn process_did_not_start() -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_CONNECTION_FAILURE,
        "could not start a process for the command",
    )
    .hint("Look into the server's log for the reason.")
}

/// A command that went on after its time was up, until its process was terminated.
pub fn terminated_after_timeout(grace: Micros) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_QUERY_CANCELED,
        "terminating the command because its timeout has passed",
    )
    .detail(format!("It was cancelled, and had not ended after {}.", time::exact(grace)))
}

/// The process of a command that is terminated, for the log.
pub fn terminates_command(id: Uuid) -> Error {
    let code = PgSqlErrorCode::ERRCODE_QUERY_CANCELED;
    Error::new(code, format!("terminating the process of SQL task {id}"))
        .detail("It has not begun its command in time, or not ended it after a cancel.")
}

/// A process that ran its command, and whose reply is gone.
pub fn reply_lost() -> Error {
    Error::new(PgSqlErrorCode::ERRCODE_CONNECTION_FAILURE, "could not read the command's reply")
}

fn not_permitted(message: String) -> Error {
    Error::new(PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE, message)
}

/// pg_cron has the schema `cron`.
pub fn pg_cron_is_installed() -> Error {
    Error::new(PgSqlErrorCode::ERRCODE_DUPLICATE_OBJECT, "extension \"pg_cron\" is installed")
        .hint("Call scylla.import_cron_jobs() and drop that extension first.")
}

/// pg_cron is not there, or its table is not its own.
pub fn no_pg_cron() -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "extension \"pg_cron\" is not installed in this database",
    )
}

/// No such job of the schema `cron`, or it is not the caller's.
pub fn no_such_job(job: &str) -> Error {
    let message = format!("job {job} does not exist or you do not own it");
    Error::new(PgSqlErrorCode::ERRCODE_NO_DATA_FOUND, message)
}

/// A job of another role's.
pub fn not_own_job(id: i64) -> Error {
    not_permitted(format!("permission denied for job {id}"))
}

/// A job for another role.
pub fn not_for_others() -> Error {
    not_permitted("must be superuser to have a job of another role".to_owned())
}

/// A role's name that no role has.
pub fn no_role(name: &[u8]) -> Error {
    let name = datum::printable(name);
    Error::new(PgSqlErrorCode::ERRCODE_UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"))
}

/// A database of a job that does not exist.
pub fn undefined_database(name: &[u8]) -> Error {
    let message = format!("database \"{}\" does not exist", datum::printable(name));
    Error::new(PgSqlErrorCode::ERRCODE_INVALID_CATALOG_NAME, message)
}

/// A change of a job without any.
pub fn nothing_to_alter() -> Error {
    Error::new(PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE, "no updates specified")
        .hint("Give at least one attribute of the job.")
}

/// A job of this name exists.
pub fn job_exists(job: &[u8]) -> Error {
    let message = format!("job \"{}\" already exists for that role", datum::printable(job));
    Error::new(PgSqlErrorCode::ERRCODE_UNIQUE_VIOLATION, message)
}

/// A job of pg_cron that stays there.
pub fn job_not_imported(id: i64, name: Option<&[u8]>, why: &str) -> Error {
    let name = name.map_or(String::new(), |name| format!(" \"{}\"", datum::printable(name)));
    let message = format!("job {id}{name} of pg_cron was not imported");
    Error::new(PgSqlErrorCode::ERRCODE_WARNING, message).detail(why)
}

/// A job of pg_cron that would run otherwise here. `why`: as in `it runs on another server`.
pub fn job_differs(why: &[u8]) -> Error {
    Error::new(PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED, datum::printable(why))
}

/// A job's number that a schedule has.
pub fn number_taken(id: i64) -> Error {
    let message = format!("a schedule has the number {id} already");
    Error::new(PgSqlErrorCode::ERRCODE_UNIQUE_VIOLATION, message)
}

/// A column of `cron.job` that cannot be written.
pub fn fixed_column(column: &str) -> Error {
    let message = format!("cannot write column \"{column}\" of view \"cron.job\"");
    Error::new(PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED, message)
        .detail("The server numbers the jobs.")
}

/// A job that is to run on another server.
pub fn other_server(name: &[u8]) -> Error {
    let message = format!("cannot run a job on server \"{}\"", datum::printable(name));
    Error::new(PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED, message)
        .detail("Jobs run on the server that has them.")
        .hint("Use localhost.")
}

/// The function of a trigger, called otherwise.
pub fn not_a_trigger() -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
        "function must be called as a trigger",
    )
}
