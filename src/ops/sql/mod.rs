//! SQL commands that the server runs itself, as tasks of the queue `sql`.

pub mod command;
pub mod finish;
pub mod rights;

/// The queue of these tasks. No worker owns them.
pub const QUEUE: &[u8] = b"sql";

/// The owner of a command that runs.
pub const WORKER: &[u8] = b"scylla sql worker";
