//! A connection to the server that the environment names, as libpq reads it.

use std::env;

use postgres::{Client, Config, NoTls};

use crate::error::Result;

pub fn connect(application_name: &str) -> Result<Client> {
    let variable = |name, default: &str| env::var(name).unwrap_or_else(|_| default.into());
    let client = Config::new()
        .host(&variable("PGHOST", "/var/run/postgresql"))
        .port(variable("PGPORT", "5432").parse()?)
        .user(&variable("PGUSER", "postgres"))
        .dbname(&variable("PGDATABASE", "postgres"))
        .application_name(application_name)
        .connect(NoTls)?;
    Ok(client)
}
