//! Connecting.

use postgres::{Client, NoTls};

/// Connects as a connection string says.
pub fn connect(connection: &str) -> Client {
    Client::connect(connection, NoTls).expect("connect")
}
