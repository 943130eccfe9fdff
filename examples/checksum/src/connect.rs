//! A connection to the server that the environment names, as libpq reads it.

use std::{env, error::Error, iter};

use postgres::{Client, Config, NoTls};

use crate::options::Result;

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

/// The message with its causes: the driver's own says only "db error".
pub fn describe(error: &(dyn Error + 'static)) -> String {
    let causes = iter::successors(Some(error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
