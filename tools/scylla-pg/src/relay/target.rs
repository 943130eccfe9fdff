//! Scylla's database, to which tasks are carried.

use super::answer::within;
use crate::connection;
use crate::failure::Failure;
use std::collections::HashSet;
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

/// Prepares a session. The server notices within half a minute that its client is gone. What is
/// carried may be forgotten by the outbox, so that its commit has to last. Statements are planned
/// once, while the tables are small: their plans have to suit large ones.
const SESSION: &str = "
set search_path = pg_catalog, pg_temp;
set enable_seqscan = off;
set jit = off;
set timezone = 'UTC';
set intervalstyle = 'postgres';
set statement_timeout = '50s';
set idle_in_transaction_session_timeout = '30s';
set tcp_keepalives_idle = 10;
set tcp_keepalives_interval = 5;
set tcp_keepalives_count = 3;
select set_config('synchronous_commit', 'on', false) where current_setting('synchronous_commit') = 'off'";

const SCHEMA: &str = include_str!("target.sql");
const CARRY: &str = include_str!("carry.sql");

const REPORT: &str = "
insert into scylla_relay.source as s (name, relay, seen, lag, waiting, carried, refused)
values ($1, $2, clock_timestamp(), make_interval(secs => $3), $4, $5, $6)
on conflict (name) do update set relay = excluded.relay, seen = excluded.seen, lag = excluded.lag,
    waiting = excluded.waiting, carried = excluded.carried, refused = excluded.refused";

pub struct Target {
    client: Client,
    source: String,
    carry: Statement,
}

/// One task of the outbox.
pub struct Task {
    pub id: Uuid,
    /// The arguments of `scylla.submit`, as a JSON object.
    pub json: String,
}

/// What became of some tasks.
#[derive(Clone, Copy, Default)]
pub struct Carried {
    pub new: i64,
    pub refused: i64,
}

/// How a relay is doing.
pub struct Status {
    /// The age of the oldest task that was not carried, in seconds.
    pub lag: f64,
    /// Tasks that are committed and not carried.
    pub waiting: i64,
    /// Since the relay's start.
    pub total: Carried,
}

impl Target {
    /// Connects, and makes what is missing.
    pub async fn connect(dbname: Option<&str>, source: &str) -> Result<Target, Failure> {
        let client = within(connection::connect(dbname)).await?;
        within(async { Ok(client.batch_execute(SESSION).await?) }).await?;
        let exists = "select to_regclass('scylla_relay.carried_' || $1 || '_2') is not null,
            exists (select from pg_extension where extname = 'scylla')";
        let row = within(async { Ok(client.query_one(exists, &[&source]).await?) }).await?;
        if !row.get::<_, bool>(1) {
            return Err(Failure::new("--dbname is no database with scylla")
                .hint("Connect to scylla's database by --dbname, and to the outbox by --from.")
                .fatal());
        }
        if !row.get::<_, bool>(0) {
            let schema = SCHEMA.replace("$source", source);
            // Two relays that begin at once make it one after the other.
            let schema = format!(
                "begin; select pg_advisory_xact_lock(hashtext('scylla_relay')); {schema} commit"
            );
            within(async { Ok(client.batch_execute(&schema).await?) }).await?;
        }
        let carry = CARRY.replace("$source", source);
        let carry = within(async { Ok(client.prepare(&carry).await?) }).await?;
        Ok(Target { client, source: source.to_owned(), carry })
    }

    /// Whether this relay is the one that carries. It stays so until the session ends, and with the
    /// session everything ends that it might still do.
    pub async fn lead(&self) -> Result<bool, Failure> {
        let lock = "select pg_try_advisory_lock(hashtextextended('scylla_relay.' || $1, 0))";
        let row = within(async { Ok(self.client.query_one(lock, &[&self.source]).await?) }).await?;
        Ok(row.get(0))
    }

    /// Submits those of the tasks that were not carried before.
    pub async fn carry(&self, tasks: &[Task], round: i64) -> Result<Carried, Failure> {
        // Of two with the same id, the first counts.
        let mut seen = HashSet::with_capacity(tasks.len());
        let tasks = tasks.iter().filter(|task| seen.insert(task.id));
        let (ids, json): (Vec<Uuid>, Vec<&str>) =
            tasks.map(|task| (task.id, task.json.as_str())).unzip();
        let generation = (round % 3) as i16;
        let row = within(async {
            Ok(self.client.query_one(&self.carry, &[&ids, &json, &generation]).await?)
        })
        .await?;
        Ok(Carried { new: row.get(0), refused: row.get(1) })
    }

    /// Which of these ids are not noted as carried.
    pub async fn unknown(&self, ids: &[Uuid]) -> Result<Vec<Uuid>, Failure> {
        let unknown = format!(
            "select given.id from unnest($1::uuid[]) as given (id) where (
                select c.id from scylla_relay.carried_{} c where c.id = given.id limit 1
            ) is null",
            self.source
        );
        let rows = within(async { Ok(self.client.query(&unknown, &[&ids]).await?) }).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// Forgets the ids of the round that was three before this one.
    pub async fn forget(&self, round: i64) -> Result<(), Failure> {
        let truncate = format!(
            "begin; set local lock_timeout = '1s';
            truncate scylla_relay.carried_{}_{}; commit",
            self.source,
            round % 3
        );
        within(async { Ok(self.client.batch_execute(&truncate).await?) }).await
    }

    /// Ends a transaction that failed.
    pub async fn rollback(&self) -> Result<(), Failure> {
        within(async { Ok(self.client.batch_execute("rollback").await?) }).await
    }

    /// Notes how the relay is doing.
    pub async fn report(&self, relay: &str, status: &Status) -> Result<(), Failure> {
        let Status { lag, waiting, total } = status;
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
            [&self.source, &relay, lag, waiting, &total.new, &total.refused];
        within(async { Ok(self.client.execute(REPORT, &values).await?) }).await.map(|_| ())
    }
}
