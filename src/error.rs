//! Every error: SQLSTATE, message, detail and hint, in PostgreSQL's error style.

use crate::pg::uuid::Uuid;
use crate::pg::{datum, settings};
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

/// An error that was found but not raised yet.
#[derive(Debug, Clone)]
pub struct Error {
    code: PgSqlErrorCode,
    message: String,
    detail: Option<String>,
    hint: Option<String>,
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    fn new(code: PgSqlErrorCode, message: impl Into<String>) -> Error {
        Error { code, message: message.into(), detail: None, hint: None }
    }

    fn detail(self, detail: impl Into<String>) -> Error {
        Error { detail: Some(detail.into()), ..self }
    }

    fn hint(self, hint: impl Into<String>) -> Error {
        Error { hint: Some(hint.into()), ..self }
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether an id or a key is taken.
    pub fn is_duplicate(&self) -> bool {
        let codes =
            [PgSqlErrorCode::ERRCODE_UNIQUE_VIOLATION, PgSqlErrorCode::ERRCODE_OBJECT_IN_USE];
        codes.contains(&self.code)
    }

    /// The same error, saying of which element of an array it is (counted from 1).
    pub fn of_element(self, number: usize) -> Error {
        let place = format!("It is element {number} of the array.");
        let detail = self.detail.map_or(place.clone(), |detail| format!("{detail} {place}"));
        Error { detail: Some(detail), ..self }
    }

    /// Raises the error. Unwinds through Rust first, so that guards are dropped.
    pub fn raise(self) -> ! {
        self.report(PgLogLevel::ERROR);
        unreachable!("an error does not return")
    }

    /// Tells it without ending anything.
    pub fn report(self, level: PgLogLevel) {
        let mut report = ErrorReport::new(self.code, self.message, "");
        if let Some(detail) = self.detail {
            report = report.set_detail(detail);
        }
        if let Some(hint) = self.hint {
            report = report.set_hint(hint);
        }
        report.report(level);
    }
}

/// Warns of a message that was dropped, in the server's log: its sender is told by the answer alone.
pub fn warn_message_dropped(queue: &[u8], id: Option<&[u8]>, why: &Error) {
    let queue = datum::printable(queue);
    let message = format!("scylla dropped a message for queue \"{queue}\": {}", why.message);
    let mut report = ErrorReport::new(PgSqlErrorCode::ERRCODE_WARNING, message, "");
    if let Some(id) = id {
        let id: String = datum::printable(id).chars().take(128).collect();
        report = report.set_detail(format!("Its id is \"{id}\"."));
    }
    settings::with([(c"client_min_messages", c"error")], || report.report(PgLogLevel::WARNING));
}

/// What a sql_function answers, or its error raised.
pub fn unwrap_or_raise<T>(answer: Result<T>) -> T {
    answer.unwrap_or_else(|error| error.raise())
}

pub fn not_preloaded() -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "scylla must be loaded when the server starts",
    )
    .detail("It keeps its board in shared memory, which is laid out at the start.")
    .hint("Add scylla to shared_preload_libraries in postgresql.conf and restart the server.")
}

pub fn not_created() -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "extension \"scylla\" does not exist in this database",
    )
    .hint("Use CREATE EXTENSION scylla.")
}

/// Tasks cannot be found by their ids.
pub fn no_primary_key() -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "table \"scylla.task\" is not as the extension made it",
    )
    .detail("It needs a primary key on its column id alone, and each column under its name.")
    .hint("Add the key back by ALTER TABLE scylla.task ADD PRIMARY KEY (id).")
}

pub fn board_not_built() -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "scylla's board for this database is not built",
    )
    .detail("Its worker is not running, and a transaction that has written already cannot build it.")
    .hint("Try again in a transaction of its own. See the server's log: max_worker_processes may be too low.")
}

/// Nobody keeps the clock of a database.
pub fn no_scheduler(database: &str) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
        format!("scylla's worker for database \"{database}\" is not running"),
    )
    .detail("Owning and returning go on; what waits for its time waits for the worker.")
    .hint("Raise max_worker_processes and restart the server.")
}

/// Leases that the table has and the board has no place for.
pub fn leases_lost(count: usize) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
        format!("{count} leases found no place on scylla's board and are forgotten"),
    )
    .hint("Raise scylla.board_size and restart the server.")
}

/// The database was copied, restored or closed by hand (I12).
pub fn closed(database: &str) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("scylla is closed in database \"{database}\": it hands out and fires nothing"),
    )
    .detail("The database was copied or restored, or closed by scylla.open(false).")
    .hint("Use scylla.open() if its tasks are to run here.")
}

pub fn too_many_databases() -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
        format!("scylla cannot serve more than {} databases of one server", board::MAX_DATABASES),
    )
}

pub fn board_full() -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
        "there are as many leases as the board has slots",
    )
    .hint("Return some tasks, or raise scylla.board_size and restart the server.")
}

pub fn missing(argument: &str) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_NULL_VALUE_NOT_ALLOWED,
        format!("{argument} must not be null"),
    )
}

fn invalid(message: String) -> Error {
    Error::new(PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE, message)
}

/// A text that is too short or too long, in bytes.
pub fn bad_length(argument: &str, least: usize, most: usize, got: usize) -> Error {
    invalid(format!("{argument} must be {least} to {most} bytes long"))
        .detail(format!("It has {got} bytes."))
}

pub fn out_of_range(argument: &str, range: &str) -> Error {
    invalid(format!("{argument} must be {range}"))
}

pub fn unknown_value(argument: &str, got: &str, known: &str) -> Error {
    invalid(format!("unrecognized {argument}: \"{got}\""))
        .hint(format!("Available values: {known}."))
}

/// A member of an object that stands for a call of a function.
pub fn unknown_member(of: &str, name: &str, function: &str) -> Error {
    invalid(format!("unrecognized member of a {of}: \"{name}\""))
        .hint(format!("The members are the arguments of {function}."))
}

pub fn wrong_type(member: &str, wanted: &str) -> Error {
    invalid(format!("{member} must be {wanted}"))
}

pub fn lengths_differ(one: &str, other: &str) -> Error {
    invalid(format!("{one} and {other} must have the same length"))
}

pub fn not_one_dimension(argument: &str) -> Error {
    invalid(format!("{argument} must be an array of one dimension"))
}

pub fn bad_error_object() -> Error {
    invalid("error must be an object with the members code, args and description".into())
        .detail("code and description are strings, args is an object; there are no others.")
}

pub fn error_needed() -> Error {
    missing("error")
        .detail("Outcome \"aborted\" needs one.")
        .hint(r#"Give error => '{"code": "...", "args": {}, "description": "..."}'."#)
}

pub fn not_with_outcome(argument: &str, outcome: &str) -> Error {
    invalid(format!("{argument} cannot be given with outcome \"{outcome}\""))
}

pub fn pauses_too_long() -> Error {
    invalid("the pauses of so many retries are longer than an interval can be".into())
}

pub fn spec_too_large(got: usize, most: usize) -> Error {
    Error::new(PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED, "spec is too large")
        .detail(format!("It has {got} bytes, the limit is {most}."))
        .hint("Raise scylla.max_spec_size, or keep the data elsewhere and name it in the spec.")
}

pub fn duplicate_id(id: Uuid) -> Error {
    Error::new(PgSqlErrorCode::ERRCODE_UNIQUE_VIOLATION, format!("task {id} already exists"))
}

/// A row that is not there after it was inserted. `suppressors`: the triggers and rules that can cause
/// this.
pub fn not_inserted(id: Uuid, suppressors: Option<&str>) -> Error {
    let code = PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE;
    let error = Error::new(code, format!("the row of task {id} was not inserted"));
    match suppressors {
        Some(names) => error.detail(format!(
            "These can suppress a row of table \"scylla.task\" or change its id: {names}."
        )),
        None => error,
    }
}

pub fn duplicate_key(key: &[u8], holder: Uuid) -> Error {
    let key = datum::printable(key);
    Error::new(
        PgSqlErrorCode::ERRCODE_UNIQUE_VIOLATION,
        format!("key \"{key}\" is borne by a live task of this queue already"),
    )
    .detail(format!("It is task {holder}."))
    .hint("Set on_conflict to ignore or replace to say what to do instead.")
}

/// Two elements of one array with one key.
pub fn second_key(key: &[u8]) -> Error {
    let key = datum::printable(key);
    Error::new(
        PgSqlErrorCode::ERRCODE_UNIQUE_VIOLATION,
        format!("key \"{key}\" stands in an earlier element of the array"),
    )
}

pub fn not_replaceable(id: Uuid) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_OBJECT_IN_USE,
        format!("task {id} is running and cannot be replaced"),
    )
}

pub fn cycle(id: Uuid) -> Error {
    invalid(format!("task {id} would never be ready"))
        .detail("It would wait for itself, directly or through others, or for a task that does.")
}

pub fn no_such_task(id: Uuid) -> Error {
    Error::new(PgSqlErrorCode::ERRCODE_NO_DATA_FOUND, format!("task {id} does not exist"))
}

pub fn stale_token(id: Uuid) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_OBJECT_IN_USE,
        format!("the token is not valid for task {id}"),
    )
    .detail("The lease has ended, and the task is another worker's or free again.")
}

pub fn being_settled(id: Uuid) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_OBJECT_IN_USE,
        format!("task {id} is being returned already"),
    )
    .detail("Another transaction, or an earlier call of this one, uses the same token.")
}

/// As PostgreSQL says it of any table. `change`: update or delete.
pub fn changed_meanwhile(change: &str) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
        format!("could not serialize access due to concurrent {change}"),
    )
}

pub fn wrong_status(id: Uuid, status: &str) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("task {id} is {status}"),
    )
}

pub fn not_preparable() -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
        "cannot PREPARE a transaction that has called scylla",
    )
}

pub fn read_only(function: &str) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_READ_ONLY_SQL_TRANSACTION,
        format!("cannot execute {function} in a read-only transaction"),
    )
}

pub fn on_standby(function: &str) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_READ_ONLY_SQL_TRANSACTION,
        format!("cannot execute {function} during recovery"),
    )
    .detail("A standby hands out nothing.")
}

pub fn not_alone(function: &str) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_ACTIVE_SQL_TRANSACTION,
        format!("{function} cannot run inside a transaction block, a function or a pipeline"),
    )
    .detail("It ends its transaction, so that it holds no snapshot while it waits.")
    .hint("Call it as a command of its own, with autocommit on.")
}

pub fn no_result(id: Uuid) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("task {id} does not allow waiting for its result"),
    )
    .hint("Submit it with post_result => true.")
}

pub fn no_set_here() -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
        "set-valued function called in context that cannot accept a set",
    )
}
