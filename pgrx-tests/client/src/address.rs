//! Where servers listen, and how to connect to them.

use crate::wait::{milliseconds, seconds};
use postgres::Config;
use std::sync::{Arc, RwLock};

/// Where a server listens. A restart of the server takes another port.
pub(crate) type Address = Arc<RwLock<(String, u16)>>;

pub(crate) fn config(address: &Address, database: &str) -> Config {
    let (host, port) = address.read().unwrap().clone();
    let mut config = Config::new();
    config.host(&host).port(port).user("postgres").dbname(database).connect_timeout(seconds(20));
    // a statement that hangs is a failure, not a pause
    config.options(format!("-c statement_timeout={}", milliseconds(120_000).as_millis()).as_str());
    config
}
