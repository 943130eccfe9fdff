//! The harness of the client tests: private servers, databases, and sessions that call the SQL
//! functions. Each test binary shares one server; tests that crash or reconfigure a server start
//! their own.

mod address;
mod database;
mod server;
mod session;
mod wait;
mod waiter;

pub use database::Database;
pub use server::Server;
pub use session::{Lease, Session, an_error, code, failure, is_lost};
pub use wait::{eventually, milliseconds, seconds, sleep};
pub use waiter::wait_for_work;

pub use postgres::error::DbError;
pub use serde_json::{Value, json};
pub use uuid::Uuid;

/// A fresh database with scylla on this binary's shared server.
pub fn database() -> Database {
    Server::shared().database()
}

/// How often a process has slept.
pub fn sleeps(pid: i32) -> i64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process");
    let line = status.lines().find_map(|it| it.strip_prefix("voluntary_ctxt_switches:"));
    line.expect("a count").trim().parse().expect("a number")
}

/// The processor time that a process has used, in ticks of 10 ms.
pub fn processor_time(pid: i32) -> i64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process");
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    fields[11..13].iter().map(|it| it.parse::<i64>().expect("a number")).sum()
}
