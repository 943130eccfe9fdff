//! The connection to the server, as libpq's programs make it.

mod conninfo;
mod passfile;
mod tls;

use crate::failure::Failure;
use conninfo::{Parameters, SOCKET_FOLDERS};
use std::future::poll_fn;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio_postgres::error::SqlState;
use tokio_postgres::{AsyncMessage, Client, Connection};
use tokio_postgres::{Config, Socket, tls::MakeTlsConnect, tls::TlsStream};

/// How long to wait for a server that does not answer, in seconds.
const CONNECT_TIMEOUT: &str = "10";

/// Another role than that of the parameters, and what it proves itself by.
pub struct Login<'a> {
    pub role: &'a str,
    pub password: Option<&'a str>,
}

/// Connects by a conninfo string, a URI or the name of a database; for what it does not say, by the
/// environment.
pub async fn connect(dbname: Option<&str>) -> Result<Client, Failure> {
    connect_as(dbname, None).await
}

/// Connects as another role, with nothing that the program could prove itself by.
pub async fn connect_as(dbname: Option<&str>, login: Option<Login<'_>>) -> Result<Client, Failure> {
    open(dbname, login, None).await
}

/// Connects, and tells of notifications.
pub async fn listen(dbname: &str, notified: Arc<Notify>) -> Result<Client, Failure> {
    open(Some(dbname), None, Some(notified)).await
}

async fn open(
    dbname: Option<&str>,
    login: Option<Login<'_>>,
    notified: Option<Arc<Notify>>,
) -> Result<Client, Failure> {
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
    match login {
        None => passfile::find_password(&mut parameters),
        Some(login) => {
            for own in ["password", "passfile", "sslcert", "sslkey"] {
                parameters.take(own);
            }
            parameters.set("user", login.role.to_owned());
            if let Some(password) = login.password {
                parameters.set("password", password.to_owned());
            }
        }
    }
    let tls = tls::connector(&mut parameters)?;
    let config = parameters.config()?;
    connect_by(&config, tls, notified).await.map_err(|failure| explain(failure, &parameters))
}

async fn connect_by<T>(
    config: &Config,
    tls: T,
    notified: Option<Arc<Notify>>,
) -> Result<Client, Failure>
where
    T: MakeTlsConnect<Socket>,
    T::Stream: Send + 'static,
{
    let (client, connection) = config.connect(tls).await?;
    tokio::spawn(drive(connection, notified));
    Ok(client)
}

/// Does the connection's work until it ends, and writes the server's warnings.
async fn drive<S>(mut connection: Connection<Socket, S>, notified: Option<Arc<Notify>>)
where
    S: TlsStream + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        match message {
            AsyncMessage::Notice(notice) if notice.severity() == "WARNING" => {
                eprintln!("WARNING: {}", notice.message());
                if let Some(hint) = notice.hint() {
                    eprintln!("HINT: {hint}");
                }
            }
            AsyncMessage::Notification(_) => notified.iter().for_each(|it| it.notify_one()),
            _ => {}
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
        return failure.hint("Have a line for the server in ~/.pgpass, or set PGPASSWORD.");
    }
    failure
}
