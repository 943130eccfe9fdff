//! Errors of where and when a call is made: the server, the database, the transaction, the query.

use crate::error::repeated::to_report;
use crate::error::report::Error;
use crate::pg::{datum, settings};
use pgrx::prelude::*;
use std::ffi::{CStr, CString};

fn not_available(message: impl Into<String>) -> Error {
    Error::new(PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, message)
}

/// What may succeed later, unchanged.
fn not_now(message: impl Into<String>) -> Error {
    Error::new(PgSqlErrorCode::ERRCODE_CANNOT_CONNECT_NOW, message)
}

fn limit_exceeded(message: impl Into<String>) -> Error {
    Error::new(PgSqlErrorCode::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED, message)
}

/// The library is not in `shared_preload_libraries`.
pub fn not_preloaded() -> Error {
    not_available("scylla must be loaded via shared_preload_libraries")
        .detail("Its shared memory is allocated when the server starts.")
        .hint("Add scylla to shared_preload_libraries in postgresql.conf and restart the server.")
}

/// The database does not have the extension.
pub fn not_created() -> Error {
    not_available("extension \"scylla\" does not exist")
        .hint("Run CREATE EXTENSION scylla in this database.")
}

/// The extension's objects are those of another version than the library.
pub fn other_version(objects: &str, library: &str) -> Error {
    not_available(format!("extension \"scylla\" is not of the library's version {library}"))
        .detail(format!("In this database it is of version {objects}."))
        .hint(
            "Run ALTER EXTENSION scylla UPDATE in this database. If the packages were upgraded \
             while the server was running, restart it first.",
        )
}

/// A function that was declared for an earlier version of the library.
pub fn outdated_function() -> Error {
    not_available("the function belongs to an earlier version of extension \"scylla\"")
        .hint("Call the function of schema \"scylla\", or create it again.")
}

/// Tables of the extension's names are not the extension's.
pub fn not_as_installed() -> Error {
    not_available("schema \"scylla\" does not have the tables of extension \"scylla\"")
        .detail("The schema was renamed, or its tables do not belong to the extension any more.")
        .hint("Restore the schema's name, or add the tables with ALTER EXTENSION scylla ADD TABLE.")
}

/// Tables of the extension that belong to different roles: which one calls act for is not clear.
pub fn owners_differ(those: [(&CStr, Option<CString>); 2]) -> Error {
    let [first, other] = those.map(|(table, owner)| {
        let owner = owner.unwrap_or_default();
        format!("scylla.{} belongs to role {}", table.to_string_lossy(), owner.to_string_lossy())
    });
    not_available("the tables of extension \"scylla\" have different owners")
        .detail(format!("{first}, and {other}."))
        .hint("Give all tables and sequences of the extension to one role with ALTER TABLE … OWNER TO.")
}

/// Something of others on the extension's tables that writing their rows would leave out.
pub fn added(what: &str) -> Error {
    not_available(format!("extension \"scylla\" does not support {what}"))
        .detail(
            "Others may add indexes to its tables, publish them, and add columns. Triggers, rules, \
             policies, checks and foreign keys are refused.",
        )
        .hint(
            "Drop or disable it. To follow tasks, use LISTEN, the table scylla.finished, or logical \
             decoding.",
        )
}

/// The extension is created in a schema whose owner could replace its objects.
pub fn schema_of_another_role() -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
        "must be owner of schema \"scylla\" to create extension \"scylla\"",
    )
    .detail("The schema's owner could replace the objects of the extension.")
    .hint("Drop the schema, or change its owner with ALTER SCHEMA scylla OWNER TO CURRENT_USER.")
}

/// Rows cannot be written as the table is.
pub fn altered(table: &str) -> Error {
    not_available(format!("table \"{table}\" has been altered"))
        .detail(
            "The extension's columns must be as they were made. Others must be nullable, or have a \
             constant as their default.",
        )
        .hint("Undo the change.")
}

/// Tasks cannot be found by their ids.
pub fn no_primary_key() -> Error {
    not_available("table \"scylla.task\" has been altered")
        .detail("It needs a primary key on its column id alone, and each column under its name.")
        .hint("Restore the key with ALTER TABLE scylla.task ADD PRIMARY KEY (id).")
}

/// A caller waited for the board too long (I1).
pub fn board_not_built(database: &str) -> Error {
    not_now(format!("the board of database \"{database}\" is not built"))
        .detail(
            "The scheduler has not built it in time, and a transaction that has written data \
             cannot.",
        )
        .hint("Try again in a new transaction. See the server's log for what stops the scheduler.")
}

/// A warning: no background worker could be started for a database.
pub fn no_scheduler(database: &str) -> Error {
    limit_exceeded(format!("the scylla scheduler of database \"{database}\" is not running"))
        .detail(
            "Calls of own_tasks handle due tasks and expired leases meanwhile. There are no \
             notifications, no schedules, no SQL commands and no retention.",
        )
        .hint("Raise max_worker_processes and restart the server.")
}

/// A warning: no background worker could be started for SQL commands.
pub fn no_sql_process() -> Error {
    limit_exceeded("no process can be started that runs SQL commands")
        .detail(
            "Every background worker of the server is in use. The commands wait until one is free.",
        )
        .hint("Raise max_worker_processes and restart the server.")
}

/// A warning: the server runs no SQL commands.
pub fn sql_is_off() -> Error {
    limit_exceeded("the server runs no SQL commands")
        .detail("The setting scylla.sql_workers is 0.")
        .hint("Raise scylla.sql_workers and restart the server.")
}

/// A warning: leases of the table for which the board has no free slot.
pub fn leases_lost(count: usize) -> Error {
    limit_exceeded(format!("could not restore {count} leases"))
        .detail("Every slot of the board is in use; these tasks become ready again.")
        .hint("Raise scylla.board_size and restart the server.")
}

/// The database was copied, restored, or closed by hand (I12).
pub fn closed(database: &str) -> Error {
    not_now(format!("scylla is closed in database \"{database}\""))
        .detail(
            "The database was copied or restored, or closed by scylla.open(false). Its tasks do \
             not run.",
        )
        .hint("Call scylla.open() if its tasks should run here.")
}

/// The board has no entry left for a database.
pub fn too_many_databases() -> Error {
    limit_exceeded("too many databases use scylla")
        .detail(format!("scylla serves at most {} databases of a server.", board::MAX_DATABASES))
}

/// A lease needs a slot, and every slot has a lease or is another database's share.
pub fn board_full(database: &str) -> Error {
    limit_exceeded(format!("too many leases in database \"{database}\""))
        .detail(
            "Every slot of the board has a lease, or is kept free for other databases or queues.",
        )
        .hint("Return some tasks, or raise scylla.board_size and restart the server.")
}

/// `PREPARE TRANSACTION` would lose what the transaction is to do to the board.
pub fn not_preparable() -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
        "cannot PREPARE a transaction that has called scylla",
    )
}

/// A function that writes, called in a read-only transaction.
pub fn read_only(function: &str) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_READ_ONLY_SQL_TRANSACTION,
        format!("cannot execute {function} in a read-only transaction"),
    )
}

/// A function that hands out tasks, called on a standby.
pub fn on_standby(function: &str) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_READ_ONLY_SQL_TRANSACTION,
        format!("cannot execute {function} during recovery"),
    )
    .detail("A standby does not hand out tasks.")
}

/// A procedure that ends its transaction, called where it may not.
pub fn not_top_level(function: &str) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_ACTIVE_SQL_TRANSACTION,
        format!("{function} cannot run inside a transaction block, a function or a pipeline"),
    )
    .detail("The procedure ends its transaction, so that it holds no snapshot while it waits.")
    .hint("Call it as a command of its own, with autocommit on.")
}

/// A function that returns rows, called where one value is expected.
pub fn no_set_here() -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
        "set-valued function called in context that cannot accept a set",
    )
}

/// Warns in the server's log of a message that was dropped: the answer alone tells its sender.
pub fn warn_message_dropped(queue: &[u8], id: Option<&[u8]>, why: &Error) {
    let queue = datum::printable(queue);
    let message = format!("scylla dropped a message for queue \"{queue}\": {}", why.message());
    let mut warning = Error::new(PgSqlErrorCode::ERRCODE_WARNING, message);
    if let Some(id) = id {
        // One that is longer than ids may be is not shown as a whole.
        let id: String = datum::printable(id).chars().take(128).collect();
        warning = warning.detail(format!("Its id is \"{id}\"."));
    }
    settings::with([(c"client_min_messages", c"error")], || warning.report(PgLogLevel::WARNING));
}

/// Logs the failure of a duty, which is done again later: a duty that fails again and again, from
/// time to time.
pub fn log_failure(duty: &str, message: &str) {
    let Some(before) = to_report(duty) else { return };
    let message = format!("scylla could not {duty}: {}", datum::clipped(message));
    let mut it = Error::new(PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION, message);
    if before > 0 {
        it = it.detail(format!("It has failed {before} more times since the last report."));
    }
    it.report(PgLogLevel::LOG);
}
