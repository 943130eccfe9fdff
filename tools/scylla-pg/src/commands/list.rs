//! `list`

use super::filter::Filter;
use crate::failure::Failure;
use crate::output::{Table, duration, plain};
use clap::Args;
use serde_json::Value;
use std::io::{self, Write};
use tokio_postgres::{Client, Row};
use uuid::Uuid;

/// List tasks, the newest first
#[derive(Args)]
#[command(after_help = "\
Prints a page of 100 tasks, and how to get the next one. With --json each line is a task,
with all that the view scylla.tasks has.

Examples:
  scylla-pg list --queue mail --status aborted
  scylla-pg list --worker host-7 --status running
  scylla-pg list --queue mail --spec '{\"to\": \"joe@example.com\"}' --limit 5
  scylla-pg list --status aborted --all --json | jq -r '.errors[-1].description' | sort | uniq -c")]
pub struct List {
    #[command(flatten)]
    filter: Filter,
    /// How many tasks at most
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(i32).range(1..=10_000))]
    limit: i32,
    /// Begin behind this task: the last one of the page before
    #[arg(long, value_name = "ID")]
    after: Option<Uuid>,
    /// All tasks, page by page
    #[arg(long, conflicts_with = "limit")]
    all: bool,
}

/// How many tasks are read at a time with `--all`.
const PAGE: i32 = 1_000;

const PAGE_OF_JSON: &str = "
select t.id, to_jsonb(t)::text from scylla.list_tasks($1::text::jsonb, $2, $3) t";

const PAGE_OF_TEXT: &str = "
select t.id, t.queue, t.status, t.action, t.key, t.priority, t.tries, t.owner,
    extract(epoch from clock_timestamp() - t.created)::float8 as age,
    case when t.status = 'waiting' then extract(epoch from t.run_at - clock_timestamp())::float8 end as due,
    t.errors -> -1 ->> 'description' as error
from scylla.list_tasks($1::text::jsonb, $2, $3) t";

impl List {
    pub async fn run(&self, client: &Client, as_json: bool) -> Result<(), Failure> {
        let filter = Value::Object(self.filter.to_json()).to_string();
        let size = if self.all { PAGE } else { self.limit };
        let query = client.prepare(if as_json { PAGE_OF_JSON } else { PAGE_OF_TEXT }).await?;
        let (mut after, mut any) = (self.after, false);
        let mut out = io::stdout().lock();
        loop {
            let rows = client.query(&query, &[&filter, &after, &size]).await?;
            any |= !rows.is_empty();
            print(&rows, as_json, &mut out)?;
            after = rows.last().map(|row| row.get(0));
            let is_full = rows.len() == size as usize;
            match after {
                Some(_) if self.all && is_full => continue,
                Some(last) if is_full && !as_json => eprintln!("next page: --after {last}"),
                None if !any && !as_json => eprintln!("no task matches"),
                _ => {}
            }
            return Ok(());
        }
    }
}

fn print(rows: &[Row], as_json: bool, out: &mut impl Write) -> Result<(), Failure> {
    if as_json {
        for row in rows {
            writeln!(out, "{}", row.get::<_, &str>(1))?;
        }
        return Ok(());
    }
    let mut table = Table::new("ID QUEUE STATUS ACTION KEY >PRIORITY >TRIES >AGE NOTE");
    for row in rows {
        let text = |n| plain(row.get::<_, Option<&str>>(n).unwrap_or_default()).into_owned();
        let note = match (row.get::<_, Option<f64>>("due"), text(7), text(10)) {
            (Some(due), ..) => format!("due in {}", duration(due)),
            (None, owner, _) if row.get::<_, &str>(2) == "running" => owner,
            (None, _, error) => error,
        };
        let age = duration(row.get("age"));
        let (priority, tries) =
            (row.get::<_, i64>(5).to_string(), row.get::<_, i32>(6).to_string());
        let id = row.get::<_, Uuid>(0).to_string();
        table.row([id, text(1), text(2), text(3), text(4), priority, tries, age, note]);
    }
    if !table.is_empty() {
        table.print(out)?;
    }
    Ok(())
}
