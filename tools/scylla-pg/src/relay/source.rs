//! The application's database, with the outbox.

use super::answer::within;
use super::target::Task;
use crate::connection;
use crate::failure::Failure;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

/// Prepares a session. Partitions are emptied too often for statistics: the indexes are right.
const SESSION: &str = "
set search_path = pg_catalog, pg_temp;
set enable_seqscan = off;
set timezone = 'UTC';
set intervalstyle = 'postgres';
set statement_timeout = '50s';
set idle_in_transaction_session_timeout = '30s';
set tcp_keepalives_idle = 10;
set tcp_keepalives_interval = 5;
set tcp_keepalives_count = 3;
listen scylla_outbox";

/// The rows of transactions that have ended since a snapshot, whose unfinished transactions are
/// those from $1 on, and $2. In order, from beyond the number $3.
const POLL: &str = "
select pg_current_snapshot()::text, coalesce(array_agg(seq order by seq), '{}'),
    (select last_value from scylla.outbox_round),
    coalesce(extract(epoch from clock_timestamp() - min(submitted)), 0)::float8
from (
    select seq, submitted from scylla.outbox
    where (xid >= $1::text::xid8 or xid = any ($2::text[]::xid8[])) and seq > $3
    order by seq limit 1000000
) as new";
/// The limit of a poll.
const WINDOW: usize = 1_000_000;

const FETCH: &str = include_str!("fetch.sql");
const IDS: &str = "select id, seq from scylla.outbox where seq = any ($1::bigint[]) order by seq";

/// How long another transaction may keep the lock of a partition that is to be emptied. Those that
/// come after wait for as long.
const LOCK_TIMEOUT: &str = "50ms";

/// Which transactions had not ended.
#[derive(Clone)]
struct Snapshot {
    xmax: String,
    xip: Vec<String>,
}

impl Snapshot {
    /// Before all transactions.
    fn first() -> Snapshot {
        Snapshot { xmax: "0".into(), xip: Vec::new() }
    }

    /// Reads `xmin:xmax:xip,xip`.
    fn parse(text: &str) -> Option<Snapshot> {
        let mut parts = text.split(':').skip(1);
        let (xmax, xip) = (parts.next()?.to_owned(), parts.next()?);
        let xip = xip.split(',').filter(|it| !it.is_empty()).map(str::to_owned).collect();
        Some(Snapshot { xmax, xip })
    }
}

pub struct Source {
    client: Client,
    notified: Arc<Notify>,
    poll: Statement,
    fetch: Statement,
    ids: Statement,
    /// All rows that it shows are carried. It holds for this session only: a server that
    /// crashes may give the number of a transaction again.
    carried: Snapshot,
    /// What to set that to, and the last row, while a window is not at its end.
    unfinished: Option<(Snapshot, i64)>,
    /// Whether rows may have been carried in an earlier session.
    is_first: bool,
}

/// What a poll has found.
pub struct Window {
    /// Numbers of rows to carry, in order.
    pub rows: Vec<i64>,
    pub round: i64,
    /// The age of the oldest, in seconds.
    pub lag: f64,
    snapshot: Snapshot,
}

impl Source {
    pub async fn connect(dbname: &str) -> Result<Source, Failure> {
        let notified = Arc::new(Notify::new());
        let client = within(connection::listen(dbname, notified.clone())).await?;
        within(async { Ok(client.batch_execute(SESSION).await?) }).await?;
        let exists = "select to_regclass('scylla.outbox_round') is not null";
        let row = within(async { Ok(client.query_one(exists, &[]).await?) }).await?;
        if !row.get::<_, bool>(0) {
            return Err(Failure::new("the database of --from has no outbox")
                .hint("Install it: scylla-pg relay --print-sql | psql -1")
                .fatal());
        }
        let poll = within(async { Ok(client.prepare(POLL).await?) }).await?;
        let fetch = within(async { Ok(client.prepare(FETCH).await?) }).await?;
        let ids = within(async { Ok(client.prepare(IDS).await?) }).await?;
        let carried = Snapshot::first();
        Ok(Source { client, notified, poll, fetch, ids, carried, unfinished: None, is_first: true })
    }

    /// Finds committed rows that were not carried.
    pub async fn poll(&self) -> Result<Window, Failure> {
        let Snapshot { xmax, xip } = &self.carried;
        let last = self.unfinished.as_ref().map_or(0, |(_, last)| *last);
        let row =
            within(async { Ok(self.client.query_one(&self.poll, &[xmax, xip, &last]).await?) })
                .await?;
        let text: &str = row.get(0);
        let snapshot = Snapshot::parse(text)
            .ok_or_else(|| Failure::new(format!("unexpected snapshot \"{text}\"")))?;
        Ok(Window { rows: row.get(1), round: row.get(2), lag: row.get(3), snapshot })
    }

    /// Notes that the rows of a window are carried.
    pub fn done(&mut self, window: Window) {
        let whole = window.rows.len() < WINDOW;
        let (snapshot, _) = self.unfinished.take().unwrap_or((window.snapshot, 0));
        match window.rows.last() {
            // What ended during a window of many polls is found again, and its ids are known.
            Some(last) if !whole => self.unfinished = Some((snapshot, *last)),
            _ => {
                self.carried = snapshot;
                self.is_first = false;
            }
        }
    }

    /// Whether rows may have been carried in an earlier session.
    pub fn is_first(&self) -> bool {
        self.is_first
    }

    /// The tasks of some rows.
    pub async fn fetch(&self, rows: &[i64]) -> Result<Vec<Task>, Failure> {
        let rows = within(async { Ok(self.client.query(&self.fetch, &[&rows]).await?) }).await?;
        let task = |row: &tokio_postgres::Row| Task { id: row.get(0), json: row.get(1) };
        Ok(rows.iter().map(task).collect())
    }

    /// The ids of some rows, with their numbers.
    pub async fn ids(&self, rows: &[i64]) -> Result<Vec<(Uuid, i64)>, Failure> {
        let rows = within(async { Ok(self.client.query(&self.ids, &[&rows]).await?) }).await?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    }

    /// Waits for a submission. What was submitted before, and commits later, is found
    /// after the time.
    pub async fn wait(&self, most: Duration) {
        let _ = timeout(most, self.notified.notified()).await;
    }

    /// Says whether submissions shall notify.
    pub async fn set_listening(&self, listening: bool) -> Result<(), Failure> {
        let value: i64 = if listening { 1 } else { 2 };
        self.set("scylla.outbox_listener", value).await
    }

    /// Has new rows go to the partition of a round.
    pub async fn set_round(&self, round: i64) -> Result<(), Failure> {
        self.set("scylla.outbox_round", round).await
    }

    async fn set(&self, register: &str, value: i64) -> Result<(), Failure> {
        let set = "select setval($1::text::regclass, $2)";
        within(async { Ok(self.client.query_one(set, &[&register, &value]).await?) })
            .await
            .map(|_| ())
    }

    /// Empties the partition of a round, unless another transaction uses it, or has left rows there
    /// that are not carried. Whether it is empty.
    pub async fn empty(&self, round: i64) -> Result<bool, Failure> {
        let partition = format!("scylla.outbox_{}", round % 2);
        match self.truncate(&partition).await {
            Err(failure) if failure.code == Some(SqlState::LOCK_NOT_AVAILABLE) => {
                within(async { Ok(self.client.batch_execute("rollback").await?) }).await?;
                Ok(false)
            }
            result => result,
        }
    }

    async fn truncate(&self, partition: &str) -> Result<bool, Failure> {
        let lock = format!(
            "begin isolation level read committed; set local lock_timeout = '{LOCK_TIMEOUT}';
            lock table {partition} in access exclusive mode"
        );
        within(async { Ok(self.client.batch_execute(&lock).await?) }).await?;
        let rows = format!(
            "select exists (select from {partition}), exists (select from {partition}
                where xid >= $1::text::xid8 or xid = any ($2::text[]::xid8[]))"
        );
        let Snapshot { xmax, xip } = &self.carried;
        let row = within(async { Ok(self.client.query_one(&rows, &[xmax, xip]).await?) }).await?;
        let (has_rows, has_new): (bool, bool) = (row.get(0), row.get(1));
        let end = match (has_rows, has_new) {
            (_, true) => "rollback".to_owned(),
            (true, false) => format!("truncate {partition}; commit"),
            (false, false) => "commit".to_owned(),
        };
        within(async { Ok(self.client.batch_execute(&end).await?) }).await?;
        Ok(!has_new)
    }
}
