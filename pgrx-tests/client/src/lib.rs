//! The harness of the client tests: private servers, databases, and sessions that call the SQL
//! functions. Each test binary shares one server; tests that crash or reconfigure a server start
//! their own.

mod address;
mod counts;
mod database;
mod process;
mod server;
mod session;
mod wait;
mod waiter;

pub use database::Database;
pub use process::{limit_memory, own_memory, processor_time, sleeps, spare_memory};
pub use server::Server;
pub use session::{Lease, Session, an_error, code, explain, failure, is_lost};
pub use wait::{BACKSTOP, eventually, milliseconds, patience, promptly, seconds, sleep};
pub use waiter::wait_for_work;

pub use postgres::error::{DbError, Error};
pub use serde_json::{Value, json};
pub use uuid::Uuid;

/// A fresh database with scylla on this binary's shared server.
pub fn database() -> Database {
    Server::shared().database()
}
