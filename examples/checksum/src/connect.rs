//! The server that the environment names, as libpq reads it.

use std::{env, error::Error, iter};

use scylla_pg::{
    Connector,
    tokio_postgres::{Client, Config, NoTls},
};

use crate::options::Result;

fn config() -> Result<Config> {
    let variable = |name, default: &str| env::var(name).unwrap_or_else(|_| default.into());
    let mut config = Config::new();
    config
        .host(variable("PGHOST", "/var/run/postgresql"))
        .port(variable("PGPORT", "5432").parse()?)
        .user(variable("PGUSER", "postgres"))
        .dbname(variable("PGDATABASE", "postgres"));
    Ok(config)
}

/// How the workers and the client of scylla connect.
pub fn connector() -> Result<Connector> {
    Ok(config()?.into())
}

/// A connection to look at the tables.
pub async fn connect(application_name: &str) -> Result<Client> {
    let (client, connection) = config()?.application_name(application_name).connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// The message with its causes: the driver's own says only "db error".
pub fn describe(error: &(dyn Error + 'static)) -> String {
    let causes = iter::successors(Some(error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
