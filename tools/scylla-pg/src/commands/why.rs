//! `why`

use crate::failure::Failure;
use crate::output::plain;
use clap::Args;
use serde_json::json;
use std::io::{self, Write};
use tokio_postgres::Client;
use uuid::Uuid;

/// Say why a task is not running
#[derive(Args)]
#[command(after_help = "\
Examples:
  scylla-pg why 01990000-0000-7000-8000-000000000000
  scylla-pg why --queue mail --key joe")]
pub struct Why {
    /// The task's id
    #[arg(required_unless_present = "key")]
    id: Option<Uuid>,
    /// Queue of the key
    #[arg(short, long, requires = "key", conflicts_with = "id")]
    queue: Option<String>,
    /// Key of an unfinished task
    #[arg(long, requires = "queue", conflicts_with = "id")]
    key: Option<String>,
}

impl Why {
    pub async fn run(&self, client: &Client, as_json: bool) -> Result<(), Failure> {
        let id = match (self.id, &self.queue, &self.key) {
            (Some(id), ..) => id,
            (None, queue, key) => {
                let row = client.query_one("select scylla.task_id($1, $2)", &[queue, key]).await?;
                row.get::<_, Option<Uuid>>(0)
                    .ok_or_else(|| Failure::new("no unfinished task of the queue has this key"))?
            }
        };
        let row = client.query_one("select scylla.why($1)", &[&id]).await?;
        let why: &str = row.get(0);
        let mut out = io::stdout();
        if as_json {
            writeln!(out, "{}", json!({ "id": id.to_string(), "why": why }))?;
        } else {
            writeln!(out, "{}", plain(why))?;
        }
        Ok(())
    }
}
