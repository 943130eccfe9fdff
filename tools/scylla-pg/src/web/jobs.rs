//! Actions on many tasks, batch by batch, that go on while the viewer looks at their progress.

use super::access::{Identity, lock, random};
use super::database::Database;
use super::log::log;
use crate::failure::Failure;
use serde_json::json;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use tokio_postgres::Client;
use uuid::Uuid;

/// How many tasks are done in one transaction.
const BATCH: i64 = 1_000;
/// How many jobs are remembered.
const REMEMBERED: usize = 200;

#[derive(Clone, Copy, PartialEq)]
pub enum Deed {
    Cancel,
    Resubmit,
    Delete,
}

impl Deed {
    pub fn named(name: &str) -> Option<Deed> {
        match name {
            "cancel" => Some(Deed::Cancel),
            "resubmit" => Some(Deed::Resubmit),
            "delete" => Some(Deed::Delete),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Deed::Cancel => "cancel",
            Deed::Resubmit => "resubmit",
            Deed::Delete => "delete",
        }
    }

    /// As a button has it.
    pub fn verb(self) -> &'static str {
        match self {
            Deed::Cancel => "Cancel",
            Deed::Resubmit => "Retry",
            Deed::Delete => "Delete",
        }
    }

    pub fn done(self) -> &'static str {
        match self {
            Deed::Cancel => "cancelled",
            Deed::Resubmit => "submitted again",
            Deed::Delete => "deleted",
        }
    }

    fn matching(self) -> &'static str {
        match self {
            Deed::Cancel => "select scylla.cancel_matching($1::text::jsonb, $2, $3)",
            Deed::Resubmit => "select scylla.resubmit_matching($1::text::jsonb, $2, $3)",
            Deed::Delete => "select scylla.delete_matching($1::text::jsonb, $2, $3)",
        }
    }

    /// How many tasks match that it would be done to.
    pub async fn count(self, client: &Client, filter: &str) -> Result<i64, Failure> {
        let row = client.query_one(self.matching(), &[&filter, &None::<i32>, &true]).await?;
        Ok(row.get(0))
    }

    async fn to_some(self, client: &Client, filter: &str, most: i64) -> Result<i64, Failure> {
        let most = i32::try_from(most.min(BATCH)).unwrap_or(i32::MAX);
        let row = client.query_one(self.matching(), &[&filter, &Some(most), &false]).await?;
        Ok(row.get(0))
    }

    pub async fn to_tasks(self, client: &Client, ids: &[Uuid]) -> Result<i64, Failure> {
        let sql = match self {
            Deed::Cancel => "select count(*) from unnest(scylla.cancel_tasks($1)) it where it",
            Deed::Resubmit => "select count(it) from unnest(scylla.resubmit($1)) it",
            Deed::Delete => "select scylla.delete_tasks($1)::bigint",
        };
        Ok(client.query_one(sql, &[&ids]).await?.get(0))
    }
}

pub enum End {
    Running,
    Done,
    Stopped,
    Failed(Failure),
}

pub struct Job {
    pub id: String,
    pub database: String,
    pub identity: Identity,
    pub deed: Deed,
    pub total: i64,
    pub done: AtomicI64,
    pub stop: AtomicBool,
    pub end: Mutex<End>,
}

#[derive(Default)]
pub struct Jobs(Mutex<VecDeque<Arc<Job>>>);

impl Jobs {
    /// One of this viewer's.
    pub fn find(&self, id: &str, database: &str, identity: &Identity) -> Option<Arc<Job>> {
        let jobs = lock(&self.0);
        jobs.iter()
            .find(|it| it.id == id && it.database == database && it.identity == *identity)
            .cloned()
    }

    /// Begins to do it to all tasks that match, but to no more than were counted.
    pub fn begin(
        &self,
        database: Arc<Database>,
        identity: Identity,
        peer: IpAddr,
        deed: Deed,
        filter: String,
        total: i64,
    ) -> String {
        let job = Arc::new(Job {
            id: random()[..16].to_owned(),
            database: database.name.clone(),
            identity,
            deed,
            total,
            done: AtomicI64::new(0),
            stop: AtomicBool::new(false),
            end: Mutex::new(End::Running),
        });
        let mut jobs = lock(&self.0);
        jobs.push_back(job.clone());
        if jobs.len() > REMEMBERED {
            jobs.pop_front();
        }
        let id = job.id.clone();
        tokio::spawn(async move {
            let end = match run(&job, &database, &filter).await {
                Ok(true) => End::Done,
                Ok(false) => End::Stopped,
                Err(failure) => End::Failed(failure),
            };
            let error = match &end {
                End::Failed(failure) => Some(failure.message.clone()),
                _ => None,
            };
            log(
                "action",
                peer,
                &job.identity,
                json!({
                    "database": job.database,
                    "action": format!("{}_matching", job.deed.name()),
                    "filter": filter,
                    "matched": job.total,
                    "number": job.done.load(Relaxed),
                    "error": error,
                }),
            );
            *lock(&job.end) = end;
        });
        id
    }
}

/// False: it was stopped.
async fn run(job: &Job, database: &Database, filter: &str) -> Result<bool, Failure> {
    let client = database.lend(&job.identity).await?;
    loop {
        let left = job.total - job.done.load(Relaxed);
        if left <= 0 {
            return Ok(true);
        }
        if job.stop.load(Relaxed) {
            return Ok(false);
        }
        let more = job.deed.to_some(&client, filter, left).await?;
        // The rest has changed meanwhile.
        if more == 0 {
            return Ok(true);
        }
        job.done.fetch_add(more, Relaxed);
    }
}
