//! A worker's connections: each call has a time-out, and a lost connection is replaced.

use std::{
    fmt,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, Runtime, Timeouts};
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_postgres::{
    Client as PgClient, Row,
    error::SqlState,
    types::{ToSql, Type},
};

use crate::{
    connector::Named,
    error::{DatabaseError, with_sources},
};

/// Why a call gave nothing.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The connection was lost. Whether the server has carried out the call is unknown.
    Gone(String),
    /// The server has answered with an error.
    Refused(DatabaseError),
}

impl Failure {
    fn gone(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::Gone(with_sources(error))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone(why) => f.write_str(why),
            Self::Refused(error) => error.fmt(f),
        }
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        // a read-only server: another one is the primary now
        let lost = |code: &SqlState| {
            code.code().starts_with("08")
                || ["57P01", "57P02", "57P05", "25006"].contains(&code.code())
        };
        if error.code().is_none_or(lost) { Self::gone(&error) } else { Self::Refused(error.into()) }
    }
}

async fn query(
    connection: &Object,
    prepares: bool,
    sql: &str,
    params: Params<'_>,
) -> Result<Vec<Row>, tokio_postgres::Error> {
    if !prepares {
        // without a name: a pooler may give the next statement to another connection of the server
        return connection.query_typed(sql, params).await;
    }
    let (values, types): (Vec<_>, Vec<_>) = params.iter().cloned().unzip();
    let statement = connection.prepare_typed_cached(sql, &types).await?;
    connection.query(&statement, &values).await
}

fn is_unprepared(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| ["26000", "42P05", "0A000"].contains(&code.code()))
}

fn no_answer(limit: Duration) -> Failure {
    Failure::Gone(format!("no answer within {limit:?}"))
}

pub(crate) type Params<'p> = &'p [(&'p (dyn ToSql + Sync), Type)];

/// Opens connections, and runs short calls on a few of them.
pub(crate) struct Link {
    connector: Named,
    pool: Pool,
    timeout: Duration,
    /// Statements are prepared, each once on a connection.
    prepares: AtomicBool,
}

impl Link {
    pub fn new(connector: Named, size: usize, timeout: Duration, prepares: bool) -> Self {
        let manager =
            Manager::from_connect(Default::default(), connector.clone(), ManagerConfig::default());
        let timeouts =
            Timeouts { wait: Some(timeout), create: Some(timeout), recycle: Some(timeout) };
        let pool = Pool::builder(manager)
            .max_size(size)
            .runtime(Runtime::Tokio1)
            .timeouts(timeouts)
            .build();
        Self {
            connector,
            pool: pool.expect("a pool with a runtime has time-outs"),
            timeout,
            prepares: prepares.into(),
        }
    }

    /// Runs one statement on a connection of the pool, within the time-out of all calls.
    pub async fn call(&self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, Failure> {
        self.call_within(self.timeout, sql, params).await
    }

    /// Runs one statement on a connection of the pool. Late: the connection is closed, since its
    /// state is unknown.
    pub async fn call_within(
        &self,
        limit: Duration,
        sql: &str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, Failure> {
        loop {
            let prepares = self.prepares.load(Ordering::Relaxed);
            let connection = self.pool.get().await.map_err(|error| Failure::gone(&error))?;
            let rows = timeout(limit, query(&connection, prepares, sql, params)).await;
            let result = match rows {
                // nothing was done: the statement is not there, or there already, or its result has
                // other columns now
                Ok(Err(error)) if prepares && is_unprepared(&error) => {
                    tracing::warn!("no prepared statements from now on: {}", with_sources(&error));
                    self.prepares.store(false, Ordering::Relaxed);
                    drop(Object::take(connection));
                    continue;
                }
                Ok(rows) => rows.map_err(Failure::from),
                Err(_) => Err(no_answer(limit)),
            };
            if matches!(result, Err(Failure::Gone(_))) {
                drop(Object::take(connection));
            }
            return result;
        }
    }

    /// A connection of its own, for statements that wait.
    pub async fn open(&self) -> Result<Waiter, Failure> {
        match timeout(self.timeout, self.connector.open()).await {
            Ok(Ok((client, task))) => Ok(Waiter { client, task }),
            Ok(Err(error)) => Err(Failure::gone(&error)), // refused, too: it may be let in later
            Err(_) => Err(Failure::Gone("no answer to a connection attempt".into())),
        }
    }

    /// Cancels a statement that waits, again and again for a quarter of a second: a request may
    /// come too early.
    ///
    /// Not by a cancel request as the protocol has it: the driver ends that connection at once, and
    /// PgBouncer 1.18 exits when it does so before the request has been passed on.
    pub async fn end_wait(&self, sql: &str) {
        let cancel = "select count(pg_cancel_backend(pid)) from pg_stat_activity
            where application_name = current_setting('application_name') and query = $1
                and state = 'active' and usename = current_user and datname = current_database()";
        for _ in 0..5 {
            if self.call(cancel, &[(&sql, Type::TEXT)]).await.is_err() {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Closes the connections that are idle.
    pub fn clear(&self) {
        self.pool.retain(|_, _| false);
    }

    /// Closes all connections, those in use at the end of their calls.
    pub fn close(&self) {
        self.pool.close();
    }
}

/// A connection on which statements wait.
pub(crate) struct Waiter {
    client: PgClient,
    task: JoinHandle<()>,
}

impl Waiter {
    /// Runs one statement. That another connection has cancelled it is no error: then there is no
    /// row.
    pub async fn wait(
        &self,
        limit: Duration,
        sql: &str,
        params: Params<'_>,
    ) -> Result<Option<Row>, Failure> {
        match timeout(limit, self.client.query_typed(sql, params)).await {
            Ok(Ok(rows)) => Ok(rows.into_iter().next()),
            Ok(Err(error)) if error.code() == Some(&SqlState::QUERY_CANCELED) => Ok(None),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(no_answer(limit)),
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.task.abort();
    }
}
