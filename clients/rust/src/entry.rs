//! What the server tells about a task.

use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use crate::error::TaskError;

/// A task as `scylla.task` shows it. Times are as PostgreSQL writes them in JSON.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Entry {
    /// Its id.
    #[serde(rename = "rn", alias = "id")]
    pub id: Uuid,
    /// Its queue.
    pub queue: String,
    /// What is to be done.
    pub action: String,
    /// Its name among the queue's unfinished tasks.
    pub key: Option<String>,
    /// With what it is to be done.
    pub spec: Value,
    /// Higher ones run first.
    pub priority: i64,
    /// Where it is.
    pub status: Status,
    /// How much is done, from 0 to 1.
    pub progress: f64,
    /// When it was submitted.
    pub created: String,
    /// When it was changed last.
    pub updated: String,
    /// Not before.
    pub run_at: Option<String>,
    /// When the lease ends, while it runs.
    pub deadline: Option<String>,
    /// The worker, while it runs.
    pub owner: Option<String>,
    /// How many tries were begun.
    pub tries: i32,
    /// How many there can be; none: as the queue says.
    pub max_tries: Option<i32>,
    /// How many of the tasks that it came after were aborted or cancelled.
    pub num_failures: i32,
    /// The tasks that it comes after.
    #[serde(default)]
    pub after: Vec<Uuid>,
    /// What it failed with, oldest first.
    #[serde(default)]
    pub errors: Vec<TaskError>,
    /// What its handler has returned.
    #[serde(default)]
    pub result: Value,
    /// What became of it: ownerships, retries, yields, expired leases.
    #[serde(default)]
    pub history: Vec<Value>,
    /// Its group.
    pub group_key: Option<String>,
    /// What was noted about it.
    #[serde(default)]
    pub meta: Value,
}

/// Where a task is between its submission and its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Status {
    /// A task that it comes after has not settled, or its time has not come.
    Waiting,
    /// A worker may own it.
    Ready,
    /// A worker owns it.
    Running,
    /// It has succeeded.
    Completed,
    /// It has failed for good.
    Aborted,
    /// It was cancelled.
    Cancelled,
}

/// How a task has ended.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Settled {
    /// Completed, aborted or cancelled.
    pub status: Status,
    /// What the handler has returned; null unless the task has completed.
    pub result: Value,
}
