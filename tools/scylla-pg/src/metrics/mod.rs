//! The numbers of one database, as Prometheus reads them.

pub mod collect;
mod page;

use crate::connection;
use crate::explain;
use crate::failure::Failure;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use collect::{Counters, Snapshot};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_postgres::Client;

/// For how long all scrapers get the same page.
const SHARED_FOR: Duration = Duration::from_secs(1);
/// How long one round may take. Prometheus waits for 10 s, unless it is told otherwise.
const MOST: Duration = Duration::from_secs(5);

/// Of how many queues, and schedules, is told by default.
pub const MAX_NAMES: usize = 1000;

type Read = dyn Fn() -> Result<Snapshot, Failure> + Send + Sync;

/// Where the numbers are from.
enum Source {
    /// A connection of its own to the database that `--dbname` names.
    Own(Option<String>),
    /// What another part of the program has read.
    Shared(Box<Read>),
}

/// What asks one database, and remembers what it has told.
pub struct Exporter {
    source: Source,
    max_names: usize,
    state: Mutex<Scraped>,
}

#[derive(Default)]
struct Scraped {
    client: Option<Client>,
    /// The counters of each queue, as they were told last.
    told: HashMap<String, Counters>,
    last: Option<Page>,
    /// The failure that was written last; it is not written again and again.
    failing: Option<String>,
}

/// What one round has found.
#[derive(Clone)]
struct Page {
    made: Instant,
    is_up: bool,
    text: Bytes,
}

/// The paths `/metrics` and `/healthz`.
pub fn router(exporter: Arc<Exporter>) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .with_state(exporter)
}

async fn healthz(State(exporter): State<Arc<Exporter>>) -> (StatusCode, &'static str) {
    match exporter.page().await.is_up {
        true => (StatusCode::OK, "ok\n"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "the database does not answer\n"),
    }
}

async fn metrics(State(exporter): State<Arc<Exporter>>) -> impl IntoResponse {
    let page = exporter.page().await;
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page.text)
}

impl Exporter {
    /// For a database as `--dbname` names it. Of more than `max_names` queues or schedules, it
    /// tells of the first by name.
    pub fn new(dbname: Option<String>, max_names: usize) -> Arc<Exporter> {
        Arc::new(Exporter { source: Source::Own(dbname), max_names, state: Mutex::default() })
    }

    /// For what another part of the program reads, which also writes its failures.
    pub fn of(
        read: impl Fn() -> Result<Snapshot, Failure> + Send + Sync + 'static,
        max_names: usize,
    ) -> Arc<Exporter> {
        let source = Source::Shared(Box::new(read));
        Arc::new(Exporter { source, max_names, state: Mutex::default() })
    }

    /// The numbers, at most a second old. One round serves all who wait meanwhile.
    async fn page(&self) -> Page {
        let mut state = self.state.lock().await;
        if let Some(page) = &state.last
            && page.made.elapsed() < SHARED_FOR
        {
            return page.clone();
        }
        let begun = Instant::now();
        let found = timeout(MOST, self.round(&mut state)).await.unwrap_or_else(|_| {
            Err(Failure::new(format!("the server did not answer within {} s", MOST.as_secs())))
        });
        let snapshot = match found {
            Ok(snapshot) => {
                let is_own = matches!(self.source, Source::Own(_));
                if state.failing.take().is_some() && is_own {
                    eprintln!("scylla-pg: the database answers");
                }
                Some(snapshot)
            }
            Err(failure) => {
                state.client = None;
                let failure = failure.to_string();
                let is_own = matches!(self.source, Source::Own(_));
                if is_own && state.failing.as_ref() != Some(&failure) {
                    eprintln!("{failure}");
                }
                state.failing = Some(failure);
                None
            }
        };
        let text = page::text(snapshot.as_ref(), begun.elapsed());
        let page = Page { made: Instant::now(), is_up: snapshot.is_some(), text: text.into() };
        state.last = Some(page.clone());
        page
    }

    async fn round(&self, state: &mut Scraped) -> Result<Snapshot, Failure> {
        let mut snapshot = match &self.source {
            Source::Own(dbname) => self.ask(dbname.as_deref(), state).await?,
            Source::Shared(read) => read()?,
        };
        snapshot.limit(self.max_names);
        snapshot.keep_counting(&mut state.told);
        if state.told.len() > 2 * self.max_names {
            let there: HashMap<_, _> =
                snapshot.queues.iter().map(|queue| (queue.name.as_str(), ())).collect();
            state.told.retain(|name, _| there.contains_key(name.as_str()));
        }
        Ok(snapshot)
    }

    async fn ask(&self, dbname: Option<&str>, state: &mut Scraped) -> Result<Snapshot, Failure> {
        // A server that was restarted since has closed the connection.
        let open = state.client.take().filter(|client| !client.is_closed());
        let reused = open.is_some();
        let mut client = connected(dbname, open).await?;
        let mut found = collect::snapshot(&client, self.max_names).await;
        if reused && found.is_err() && client.is_closed() {
            client = connected(dbname, None).await?;
            found = collect::snapshot(&client, self.max_names).await;
        }
        if let Err(failure) = found {
            return Err(explain::explain(&client, failure).await);
        }
        state.client = Some(client);
        found
    }
}

async fn connected(dbname: Option<&str>, open: Option<Client>) -> Result<Client, Failure> {
    match open {
        Some(client) => Ok(client),
        None => connection::connect(dbname).await,
    }
}
