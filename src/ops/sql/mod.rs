//! SQL commands that the server runs itself, as tasks of the queue `sql`.

pub mod command;
pub mod finish;
pub mod rights;
