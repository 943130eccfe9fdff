//! A worker's connections: each call has a time-out, and a lost connection is replaced.

use std::{fmt, sync::Arc, time::Duration};

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, Runtime, Timeouts};
use tokio::{
    sync::Notify,
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

pub(crate) type Params<'p> = &'p [(&'p (dyn ToSql + Sync), Type)];

/// Opens connections, and runs short calls on a few of them.
pub(crate) struct Link {
    connector: Named,
    pool: Pool,
    timeout: Duration,
}

impl Link {
    pub fn new(connector: Named, size: usize, timeout: Duration) -> Self {
        let manager =
            Manager::from_connect(Default::default(), connector.clone(), ManagerConfig::default());
        let timeouts =
            Timeouts { wait: Some(timeout), create: Some(timeout), recycle: Some(timeout) };
        let pool = Pool::builder(manager)
            .max_size(size)
            .runtime(Runtime::Tokio1)
            .timeouts(timeouts)
            .build();
        Self { connector, pool: pool.expect("a pool with a runtime has time-outs"), timeout }
    }

    /// Runs one statement on a connection of the pool, within the time-out of all calls.
    pub async fn call(&self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, Failure> {
        self.call_within(self.timeout, sql, params).await
    }

    /// Runs one statement on a connection of the pool. Late: the connection is closed, since its state is unknown.
    pub async fn call_within(
        &self,
        limit: Duration,
        sql: &str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, Failure> {
        let connection = self.pool.get().await.map_err(|error| Failure::gone(&error))?;
        // without a name: a pooler may give the next statement to another connection of the server
        let result = match timeout(limit, connection.query_typed(sql, params)).await {
            Ok(rows) => rows.map_err(Failure::from),
            Err(_) => Err(Failure::Gone(format!("no answer within {limit:?}"))),
        };
        if matches!(result, Err(Failure::Gone(_))) {
            drop(Object::take(connection));
        }
        result
    }

    /// A connection of its own, for statements that wait.
    pub async fn open(&self) -> Result<Waiter, Failure> {
        match timeout(self.timeout, self.connector.open()).await {
            Ok(Ok((client, task))) => {
                Ok(Waiter { client, task, connector: self.connector.clone() })
            }
            Ok(Err(error)) => Err(Failure::gone(&error)), // refused, too: it may be let in later
            Err(_) => Err(Failure::Gone("no answer to a connection attempt".into())),
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
    connector: Named,
}

impl Waiter {
    /// Runs one statement. Each `interrupt` makes the server cancel it, which is no error: then there is no row.
    pub async fn wait(
        &self,
        limit: Duration,
        interrupt: Arc<Notify>,
        sql: &str,
        params: Params<'_>,
    ) -> Result<Option<Row>, Failure> {
        let mut call = std::pin::pin!(timeout(limit, self.client.query_typed(sql, params)));
        let answer = tokio::select! {
            answer = &mut call => answer,
            () = interrupt.notified() => {
                tokio::select! {
                    answer = &mut call => answer,
                    () = self.cancel() => return Err(Failure::Gone("a wait does not end".into())),
                }
            }
        };
        match answer {
            Ok(Ok(rows)) => Ok(rows.into_iter().next()),
            Ok(Err(error)) if error.code() == Some(&SqlState::QUERY_CANCELED) => Ok(None),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(Failure::Gone(format!("no answer within {limit:?}"))),
        }
    }

    /// Asks to cancel the statement, again and again for two seconds: a request that is too early does nothing.
    async fn cancel(&self) {
        for _ in 0..40 {
            let _ =
                timeout(Duration::from_secs(2), self.connector.cancel(self.client.cancel_token()))
                    .await;
            sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.task.abort();
    }
}
