//! The connection to the server, as libpq's programs make it.

mod conninfo;
mod passfile;
mod tls;

use crate::failure::Failure;
use conninfo::{Parameters, SOCKET_FOLDERS};
use std::future::poll_fn;
use std::path::Path;
use tokio_postgres::error::SqlState;
use tokio_postgres::{AsyncMessage, Client, Connection};
use tokio_postgres::{Config, Socket, tls::MakeTlsConnect, tls::TlsStream};

/// How long to wait for a server that does not answer, in seconds.
const CONNECT_TIMEOUT: &str = "10";

/// Connects by a conninfo string, a URI or the name of a database; for what it does not say, by the
/// environment.
pub async fn connect(dbname: Option<&str>) -> Result<Client, Failure> {
    let mut parameters = Parameters::from_environment();
    if let Some(dbname) = dbname {
        parameters.read(dbname)?;
    }
    parameters.fill("application_name", || "scylla-pg".into());
    parameters.fill("connect_timeout", || CONNECT_TIMEOUT.into());
    parameters.fill("user", || whoami::username().unwrap_or_else(|_| "postgres".into()));
    let user = parameters.get("user").unwrap_or_default().to_owned();
    parameters.fill("dbname", || user);
    let port = parameters.get("port").unwrap_or("5432").to_owned();
    parameters.fill("host", || {
        let has_socket =
            |folder: &&&str| Path::new(folder).join(format!(".s.PGSQL.{port}")).exists();
        SOCKET_FOLDERS.iter().find(has_socket).unwrap_or(&"localhost").to_string()
    });
    passfile::find_password(&mut parameters);
    let tls = tls::connector(&mut parameters)?;
    let config = parameters.config()?;
    connect_by(&config, tls).await.map_err(|failure| explain(failure, &parameters))
}

async fn connect_by<T>(config: &Config, tls: T) -> Result<Client, Failure>
where
    T: MakeTlsConnect<Socket>,
    T::Stream: Send + 'static,
{
    let (client, connection) = config.connect(tls).await?;
    tokio::spawn(drive(connection));
    Ok(client)
}

/// Does the connection's work until it ends, and writes the server's warnings.
async fn drive<S>(mut connection: Connection<Socket, S>)
where
    S: TlsStream + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notice(notice) = message
            && notice.severity() == "WARNING"
        {
            eprintln!("WARNING: {}", notice.message());
            if let Some(hint) = notice.hint() {
                eprintln!("HINT: {hint}");
            }
        }
    }
}

/// Says where no server answered, and where a password can come from.
fn explain(failure: Failure, parameters: &Parameters) -> Failure {
    let wants_password = failure.message.contains("password missing");
    if failure.code.is_none() && !wants_password {
        let (host, port) = (parameters.get("host").unwrap_or(""), parameters.get("port"));
        let place = format!("host \"{host}\", port {}", port.unwrap_or("5432"));
        return Failure::new("could not connect to the server")
            .detail(format!("{place}: {}.", failure.message))
            .hint("Name the server by --dbname, or by PGHOST and PGPORT.");
    }
    if wants_password || failure.code == Some(SqlState::INVALID_PASSWORD) {
        return Failure::new(failure.message)
            .hint("Have a line for the server in ~/.pgpass, or set PGPASSWORD.");
    }
    failure
}
