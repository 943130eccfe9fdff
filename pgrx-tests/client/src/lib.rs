//! The harness of the client tests: private servers, databases of one's own, and sessions that
//! speak the contract. Each test binary shares one server; tests that break theirs start another.

mod address;
mod database;
mod server;
mod session;
mod timing;

pub use database::Database;
pub use server::Server;
pub use session::{Lease, Session, an_error, code, failure, is_lost};
pub use timing::{eventually, milliseconds, processor_time, seconds, sleep};

pub use postgres::error::DbError;
pub use serde_json::{Value, json};
pub use uuid::Uuid;

/// A fresh database with scylla on this binary's shared server.
pub fn database() -> Database {
    Server::shared().database()
}
