//! Takes unfinished jobs of another job table over as tasks, each exactly once.
//!
//! The source is read through one snapshot and not changed. The id of a task follows from its job.
//! A transaction of scylla's database submits tasks and notes their ids, so that an import that was
//! interrupted goes on where it was.

mod peer;

use crate::connection;
use crate::failure::Failure;
pub use peer::Peer;
use serde_json::Value;
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::sleep;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

const ROWS: &str = include_str!("rows.sql");
const SCHEMA: &str = include_str!("target.sql");
/// How many jobs go in one transaction.
const BATCH: usize = 1_000;
/// The pause after a queue was full.
const RETRY: Duration = Duration::from_secs(1);

/// The job table, read in one snapshot.
pub struct Source {
    client: Client,
    rows: String,
}

/// What is asked for beside the connection.
pub struct Options<'a> {
    pub peer: Peer,
    pub schema: &'a str,
    pub base_priority: i64,
    pub running: bool,
}

/// The jobs that become tasks of one queue.
pub struct Queue {
    pub name: String,
    /// How many become tasks.
    pub taken: i64,
    /// How many run at the peer, and stay there.
    pub running: i64,
    /// How many stay for another reason.
    pub left: i64,
}

/// What changes for some jobs of a queue.
pub struct Note {
    pub queue: String,
    pub text: String,
    pub jobs: i64,
}

/// Jobs, as their tasks.
struct Job {
    task: Uuid,
    json: String,
}

/// What became of some jobs.
#[derive(Default)]
pub struct Done {
    pub imported: u64,
    /// By an earlier run.
    pub earlier: u64,
    /// The job's id at the peer, and why scylla refused it.
    pub refused: Vec<(String, String)>,
}

impl Source {
    /// Connects, and begins the snapshot.
    pub async fn open(from: Option<&str>, options: &Options<'_>) -> Result<Source, Failure> {
        let Options { peer, schema, base_priority, running } = options;
        let rows = ROWS
            .replace("$jobs", peer.jobs())
            .replace("$schema", &format!("\"{}\"", schema.replace('"', "\"\"")))
            .replace("$place", &literal(schema))
            .replace("$peer", &literal(peer.name()))
            .replace("$base", &format!("{base_priority}::bigint"))
            .replace("$running", &running.to_string());
        let client = connection::connect(from).await?;
        client
            .batch_execute(
                "set search_path = pg_catalog, pg_temp; set timezone = 'UTC'; set statement_timeout = 0;
                begin isolation level repeatable read read only",
            )
            .await?;
        Ok(Source { client, rows })
    }

    /// How many jobs there are, by queue.
    pub async fn queues(&self) -> Result<Vec<Queue>, Failure> {
        let sql = format!(
            "{} select queue, count(*) filter (where held is null),
                count(*) filter (where held = 'running'),
                count(*) filter (where held <> 'running')
            from job group by queue order by queue",
            self.rows
        );
        let rows = self.client.query(&sql, &[]).await?;
        let queue = |row: &tokio_postgres::Row| Queue {
            name: row.get(0),
            taken: row.get(1),
            running: row.get(2),
            left: row.get(3),
        };
        Ok(rows.iter().map(queue).collect())
    }

    /// What changes, by queue.
    pub async fn notes(&self) -> Result<Vec<Note>, Failure> {
        let sql = format!(
            "{} select queue, note, count(*)
            from job, unnest(case when held is null then notes
                when held = 'running' then array['running at the peer: left there (--running takes it)']
                else array[held || ' at the peer: left there'] end) as note
            where note is not null group by queue, note order by queue, note",
            self.rows
        );
        let rows = self.client.query(&sql, &[]).await?;
        let note = |row: &tokio_postgres::Row| Note {
            queue: row.get(0),
            text: row.get(1),
            jobs: row.get(2),
        };
        Ok(rows.iter().map(note).collect())
    }

    /// Prepares to read the jobs, in the order in which the peer would run them.
    async fn declare(&self) -> Result<(), Failure> {
        let sql = format!(
            "declare import no scroll cursor for {} select task, jsonb_build_object('id', task,
                'queue', queue, 'action', action, 'spec', spec, 'priority', priority, 'run_at', run_at,
                'max_tries', max_tries, 'retry_interval', retry_interval::text, 'key', key,
                'group_key', group_key, 'meta', meta)::text
            from job where held is null
            order by place nulls first, number nulls first, id",
            self.rows
        );
        Ok(self.client.batch_execute(&sql).await?)
    }

    async fn fetch(&self) -> Result<Vec<Job>, Failure> {
        let sql = format!("fetch {BATCH} from import");
        let rows = self.client.query(&sql, &[]).await?;
        Ok(rows.iter().map(|row| Job { task: row.get(0), json: row.get(1) }).collect())
    }
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Submits what the source has, and tells after each batch how many jobs are done.
pub async fn carry(
    source: &Source,
    target: &mut Client,
    mut tell: impl FnMut(u64),
) -> Result<Done, Failure> {
    // Two imports that begin at once make it one after the other.
    let schema =
        format!("begin; select pg_advisory_xact_lock(hashtext('scylla_import')); {SCHEMA} commit");
    let exists = "select to_regclass('scylla_import.imported') is not null";
    if !target.query_one(exists, &[]).await?.get::<_, bool>(0) {
        target.batch_execute(&schema).await?;
    }
    let note = target
        .prepare(
            "insert into scylla_import.imported (id) select unnest($1::uuid[])
            on conflict do nothing returning id",
        )
        .await?;
    let submit = target
        .prepare(
            "select error from scylla.submit_tasks($1::text::jsonb, atomic => false)
            with ordinality as done (id, outcome, error, n) order by n",
        )
        .await?;
    source.declare().await?;
    let (mut done, mut seen) = (Done::default(), 0);
    loop {
        let jobs = source.fetch().await?;
        if jobs.is_empty() {
            return Ok(done);
        }
        loop {
            match carry_batch(target, &note, &submit, &jobs, &mut done).await {
                // A queue or the board is full. It goes on when workers have made room.
                Err(failure) if failure.code == Some(SqlState::CONFIGURATION_LIMIT_EXCEEDED) => {
                    eprintln!("{failure}");
                    sleep(RETRY).await;
                }
                result => break result?,
            }
        }
        seen += jobs.len() as u64;
        tell(seen);
    }
}

async fn carry_batch(
    target: &mut Client,
    note: &Statement,
    submit: &Statement,
    jobs: &[Job],
    done: &mut Done,
) -> Result<(), Failure> {
    let transaction = target.transaction().await?;
    let ids: Vec<Uuid> = jobs.iter().map(|job| job.task).collect();
    let rows = transaction.query(note, &[&ids]).await?;
    let new: HashSet<Uuid> = rows.iter().map(|row| row.get(0)).collect();
    let new: Vec<&Job> = jobs.iter().filter(|job| new.contains(&job.task)).collect();
    let array = new.iter().map(|job| job.json.as_str()).collect::<Vec<_>>().join(",");
    let rows = transaction.query(submit, &[&format!("[{array}]")]).await?;
    let mut refused = Vec::new();
    let mut reasons = Vec::new();
    for (job, row) in new.iter().zip(&rows) {
        if let Some(reason) = row.get::<_, Option<String>>(0) {
            refused.push(job.task);
            reasons.push((peer_id(&job.json), reason));
        }
    }
    if !refused.is_empty() {
        let forget = "delete from scylla_import.imported where id = any ($1)";
        transaction.execute(forget, &[&refused]).await?;
    }
    transaction.commit().await?;
    done.imported += (new.len() - refused.len()) as u64;
    done.earlier += (jobs.len() - new.len()) as u64;
    done.refused.append(&mut reasons);
    Ok(())
}

/// The job's id at the peer.
fn peer_id(json: &str) -> String {
    let task: Value = serde_json::from_str(json).unwrap_or_default();
    task["meta"]["imported"]["id"].as_str().unwrap_or_default().to_owned()
}
