//! `submit`

use super::filter::json;
use crate::failure::Failure;
use clap::Args;
use serde_json::json;
use std::io::{self, Read, Write};
use tokio_postgres::Client;
use uuid::Uuid;

/// Submit a task
#[derive(Args)]
#[command(after_help = "\
Prints the task's id. Where the queue has no such task yet, it begins with this one.

Examples:
  scylla-pg submit mail '{\"to\": \"joe@example.com\"}'
  scylla-pg submit mail - < spec.json
  scylla-pg submit report --delay '2 hours' --max-tries 3
  scylla-pg submit sync --key account-7 --on-conflict ignore
  scylla-pg submit invoice --after \"$(scylla-pg submit order)\"")]
pub struct Submit {
    /// Queue that workers serve
    queue: String,
    /// What the task is about, JSON; -: from stdin
    #[arg(default_value = "{}")]
    spec: String,
    /// What to do, within the queue
    #[arg(long, default_value = "")]
    action: String,
    /// Higher runs first, 0 to 4294967295
    #[arg(long, default_value_t = 0, allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(0..=4294967295))]
    priority: i64,
    /// The task's id; by default a new one
    #[arg(long)]
    id: Option<Uuid>,
    /// Name that is unique among the queue's unfinished tasks
    #[arg(long)]
    key: Option<String>,
    /// What to do when the key is taken
    #[arg(long, default_value = "error", value_parser = ["error", "ignore", "replace"], requires = "key")]
    on_conflict: String,
    /// How long the key stays taken, such as '1 day'
    #[arg(long, value_name = "INTERVAL", requires = "key")]
    unique_for: Option<String>,
    /// Not to run before this time
    #[arg(long, value_name = "TIME")]
    run_at: Option<String>,
    /// Not to run for this long, such as '5 minutes'
    #[arg(long, value_name = "INTERVAL", conflicts_with = "run_at")]
    delay: Option<String>,
    /// Not to run before this task has settled; may be given more than once
    #[arg(long, value_name = "ID")]
    after: Vec<Uuid>,
    /// What to do when one of those fails
    #[arg(long, default_value = "abort", value_parser = ["abort", "run"], requires = "after")]
    on_failure: String,
    /// Number of tries; 0: no limit
    #[arg(long, value_name = "N")]
    max_tries: Option<i32>,
    /// Pause before the first retry
    #[arg(long, value_name = "INTERVAL")]
    retry_interval: Option<String>,
    /// Longest random time added to a pause
    #[arg(long, value_name = "INTERVAL")]
    retry_jitter: Option<String>,
    /// Length of a lease
    #[arg(long, value_name = "INTERVAL")]
    timeout: Option<String>,
    /// Allow waiting for the task's result
    #[arg(long)]
    post_result: bool,
    /// Group in the queue: a tenant, an account
    #[arg(long, value_name = "GROUP")]
    group_key: Option<String>,
    /// JSON object for clients
    #[arg(long, value_name = "JSON")]
    meta: Option<String>,
}

const SUBMIT: &str = "
select scylla.submit($1, $2::text::jsonb, action => $3, priority => $4, id => $5, key => $6,
    on_conflict => $7, run_at => coalesce($8::text::timestamptz, now() + $9::text::interval),
    after => $10::uuid[], on_failure => $11, max_tries => $12, retry_interval => $13::text::interval,
    retry_jitter => $14::text::interval, timeout => $15::text::interval, post_result => $16,
    group_key => $17, meta => $18::text::jsonb, unique_for => $19::text::interval)";

impl Submit {
    pub fn check(&self) -> Result<(), Failure> {
        if self.spec != "-" {
            check_json("SPEC", &self.spec)?;
        }
        self.meta.as_deref().map_or(Ok(()), |meta| check_json("--meta", meta))
    }

    pub async fn run(&self, client: &Client, as_json: bool) -> Result<(), Failure> {
        let mut spec = self.spec.clone();
        if spec == "-" {
            spec.clear();
            io::stdin().read_to_string(&mut spec)?;
            check_json("the spec on stdin", &spec)?;
        }
        let row = client
            .query_one(
                SUBMIT,
                &[
                    &self.queue,
                    &spec,
                    &self.action,
                    &self.priority,
                    &self.id,
                    &self.key,
                    &self.on_conflict,
                    &self.run_at,
                    &self.delay,
                    &self.after,
                    &self.on_failure,
                    &self.max_tries,
                    &self.retry_interval,
                    &self.retry_jitter,
                    &self.timeout,
                    &self.post_result,
                    &self.group_key,
                    &self.meta,
                    &self.unique_for,
                ],
            )
            .await?;
        let id: Option<Uuid> = row.get(0);
        let mut out = io::stdout();
        match id {
            _ if as_json => writeln!(out, "{}", json!({ "id": id.map(|it| it.to_string()) }))?,
            Some(id) => writeln!(out, "{id}")?,
            // `ignore`, without the right to look.
            None => eprintln!("scylla-pg: the key is taken, and you may not see by which task"),
        }
        Ok(())
    }
}

fn check_json(what: &str, text: &str) -> Result<(), Failure> {
    json(text).map(|_| ()).map_err(|error| {
        Failure::usage(format!("{what}: {error}"))
            .hint("Text needs double quotes inside of single ones: '\"text\"'")
    })
}
