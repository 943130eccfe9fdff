//! Where the server is, and how it is reached.

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use deadpool_postgres::Connect;
use futures_util::future::BoxFuture;
use tokio::task::JoinHandle;
use tokio_postgres::{
    Client as PgClient, Config, NoTls, Socket,
    tls::{MakeTlsConnect, TlsConnect},
};

use crate::error::Error;

/// Where the server is, and how it is reached: a configuration of tokio-postgres, and a TLS
/// connector.
///
/// ```
/// # fn run() -> Result<(), scylla_pg::Error> {
/// use scylla_pg::Connector;
///
/// let local: Connector = "host=/var/run/postgresql dbname=app user=app".parse()?;
/// # Ok(())
/// # }
/// # run().unwrap();
/// ```
///
/// With TLS give the connector of postgres-openssl, postgres-native-tls or tokio-postgres-rustls to
/// [`Connector::new`].
#[derive(Clone)]
pub struct Connector(Arc<dyn Open>);

trait Open: Send + Sync {
    fn config(&self) -> Config;
    fn connect(
        &self,
        config: Config,
    ) -> BoxFuture<'_, Result<(PgClient, JoinHandle<()>), tokio_postgres::Error>>;
}

struct Opener<F, T> {
    config: F,
    tls: T,
}

impl<F, T> Open for Opener<F, T>
where
    F: Fn() -> Config + Send + Sync,
    T: MakeTlsConnect<Socket> + Clone + Send + Sync,
    T::Stream: Send + Sync + 'static,
    T::TlsConnect: Send + Sync,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    fn config(&self) -> Config {
        (self.config)()
    }

    fn connect(
        &self,
        config: Config,
    ) -> BoxFuture<'_, Result<(PgClient, JoinHandle<()>), tokio_postgres::Error>> {
        Box::pin(async move {
            let (client, connection) = config.connect(self.tls.clone()).await?;
            let task = tokio::spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!("scylla: a connection has ended: {error}");
                }
            });
            Ok((client, task))
        })
    }
}

impl Connector {
    /// Connects as `config` says, with the TLS connector `tls`.
    pub fn new<T>(config: Config, tls: T) -> Self
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send + Sync,
        T::TlsConnect: Send + Sync,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        Self::from_fn(move || config.clone(), tls)
    }

    /// Asks for the configuration before each connection is made, for passwords that change.
    pub fn from_fn<F, T>(config: F, tls: T) -> Self
    where
        F: Fn() -> Config + Send + Sync + 'static,
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send + Sync,
        T::TlsConnect: Send + Sync,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        Self(Arc::new(Opener { config, tls }))
    }

    /// The same, with a name for the views of the server.
    pub(crate) fn named(&self, application_name: impl Into<String>) -> Named {
        Named { connector: self.clone(), application_name: application_name.into() }
    }
}

impl From<Config> for Connector {
    fn from(config: Config) -> Self {
        Self::new(config, NoTls)
    }
}

impl FromStr for Connector {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Ok(text.parse::<Config>()?.into())
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").finish_non_exhaustive()
    }
}

/// A connector whose connections have a name.
#[derive(Clone)]
pub(crate) struct Named {
    connector: Connector,
    application_name: String,
}

impl Named {
    /// What the user has set wins.
    fn config(&self) -> Config {
        let mut config = self.connector.0.config();
        if config.get_application_name().is_none() {
            config.application_name(&self.application_name);
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_secs(10));
        }
        // a server that has vanished is noticed without these only after two hours
        if config.get_keepalives_idle() == Duration::from_secs(2 * 60 * 60) {
            config.keepalives_idle(Duration::from_secs(15));
        }
        if config.get_keepalives_interval().is_none() {
            config.keepalives_interval(Duration::from_secs(5));
        }
        if config.get_keepalives_retries().is_none() {
            config.keepalives_retries(3);
        }
        config
    }

    /// A connection, and the task that serves it.
    pub async fn open(&self) -> Result<(PgClient, JoinHandle<()>), tokio_postgres::Error> {
        self.connector.0.connect(self.config()).await
    }
}

impl Connect for Named {
    fn connect(
        &self,
        _: &Config,
    ) -> BoxFuture<'_, Result<(PgClient, JoinHandle<()>), tokio_postgres::Error>> {
        Box::pin(self.open())
    }
}
