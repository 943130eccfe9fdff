//! `cancel`, `retry` and `delete`: some tasks by their ids, or all that match a filter.

use super::filter::Filter;
use crate::failure::Failure;
use crate::output::Table;
use clap::Args;
use console::Term;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use std::io::{self, BufRead, IsTerminal, Write};
use tokio_postgres::Client;
use tokio_postgres::types::FromSqlOwned;
use uuid::Uuid;

/// How many tasks are done in one transaction.
const BATCH: i64 = 1_000;

#[derive(Args)]
pub struct Which {
    /// Tasks by their ids; without them, all that match
    #[arg(value_name = "ID")]
    ids: Vec<Uuid>,
    #[command(flatten)]
    filter: Filter,
    /// At most so many of those that match
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    max_tasks: Option<i64>,
    /// Only count those that match
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

/// Cancel unfinished tasks
#[derive(Args)]
#[command(after_help = "\
Tasks that match are counted, and cancelled when you have confirmed, 1,000 at a time. The worker of
a running one learns it at its next call.

Examples:
  scylla-pg cancel 01990000-0000-7000-8000-000000000000
  scylla-pg cancel --queue mail --status ready
  scylla-pg cancel --queue mail --created-before yesterday --yes
  scylla-pg cancel --queue mail --spec '{\"to\": \"joe@example.com\"}' --dry-run")]
pub struct Cancel {
    #[command(flatten)]
    pub which: Which,
}

/// Submit aborted and cancelled tasks again, as new ones
#[derive(Args)]
#[command(
    visible_alias = "resubmit",
    after_help = "\
Tasks that match are counted, and submitted again when you have confirmed, 1,000 at a time. Those
that were submitted again before are left out; by its id, a task can be repeated once more.

Examples:
  scylla-pg retry 01990000-0000-7000-8000-000000000000
  scylla-pg retry --queue mail --status aborted
  scylla-pg retry --queue mail --created-after '2026-01-31 12:00' --max-tasks 10"
)]
pub struct Retry {
    #[command(flatten)]
    pub which: Which,
}

/// Delete tasks, with those that wait for nothing else
#[derive(Args)]
#[command(after_help = "\
Tasks that match are counted, and deleted when you have confirmed, 1,000 at a time. Dependents that
are left without a predecessor are deleted, too.

Examples:
  scylla-pg delete 01990000-0000-7000-8000-000000000000
  scylla-pg delete --queue mail --status cancelled")]
pub struct Delete {
    #[command(flatten)]
    pub which: Which,
}

/// What is done, as the command and the server call it.
struct Deed {
    verb: &'static str,
    done: &'static str,
    function: &'static str,
}

impl Cancel {
    pub async fn run(&self, client: &Client, as_json: bool) -> Result<(), Failure> {
        let deed = Deed { verb: "cancel", done: "cancelled", function: "cancel_matching" };
        let Which { ids, .. } = &self.which;
        if ids.is_empty() {
            return self.which.matching(client, &deed, as_json).await;
        }
        let outcomes: Vec<Option<bool>> = call(client, "cancel_tasks", ids).await?;
        let outcome = |it: Option<bool>| match it {
            Some(true) => ("cancelled", None),
            Some(false) => ("settled", None),
            None => ("not found", None),
        };
        report(ids, outcomes.into_iter().map(outcome), "cancelled", as_json)
    }
}

impl Retry {
    pub async fn run(&self, client: &Client, as_json: bool) -> Result<(), Failure> {
        let deed = Deed { verb: "retry", done: "resubmitted", function: "resubmit_matching" };
        let Which { ids, .. } = &self.which;
        if ids.is_empty() {
            return self.which.matching(client, &deed, as_json).await;
        }
        let new: Vec<Option<Uuid>> = call(client, "resubmit", ids).await?;
        let outcome = |it: Option<Uuid>| match it {
            Some(_) => ("resubmitted", it),
            None => ("neither aborted nor cancelled", None),
        };
        report(ids, new.into_iter().map(outcome), "resubmitted", as_json)
    }
}

impl Delete {
    pub async fn run(&self, client: &Client, as_json: bool) -> Result<(), Failure> {
        let deed = Deed { verb: "delete", done: "deleted", function: "delete_matching" };
        let Which { ids, .. } = &self.which;
        if ids.is_empty() {
            return self.which.matching(client, &deed, as_json).await;
        }
        let deleted: i32 = call(client, "delete_tasks", ids).await?;
        tell(as_json, &json!({ "deleted": deleted }), &format!("{deleted} deleted"))
    }
}

/// Calls a function that takes ids.
async fn call<T: FromSqlOwned>(client: &Client, name: &str, ids: &[Uuid]) -> Result<T, Failure> {
    Ok(client.query_one(&format!("select scylla.{name}($1)"), &[&ids]).await?.get(0))
}

/// Prints the outcome of each task. Fails unless it is for all the one that was asked for.
fn report(
    ids: &[Uuid],
    outcomes: impl Iterator<Item = (&'static str, Option<Uuid>)>,
    wanted: &str,
    as_json: bool,
) -> Result<(), Failure> {
    let (mut out, mut all_done) = (io::stdout(), true);
    let mut table = Table::new("ID OUTCOME NEW");
    for (id, (outcome, new)) in ids.iter().zip(outcomes) {
        all_done &= outcome == wanted;
        let new = new.map(|new| new.to_string());
        if as_json {
            let mut line = json!({ "id": id.to_string(), "outcome": outcome });
            if let Some(new) = new {
                line["new_id"] = new.into();
            }
            writeln!(out, "{line}")?;
        } else {
            table.row([id.to_string(), outcome.to_owned(), new.unwrap_or_default()]);
        }
    }
    if !as_json {
        table.print(&mut out)?;
    }
    if all_done { Ok(()) } else { Err(Failure::silent()) }
}

fn tell(as_json: bool, object: &Value, text: &str) -> Result<(), Failure> {
    let mut out = io::stdout();
    if as_json {
        writeln!(out, "{object}")?
    } else {
        writeln!(out, "{text}")?
    }
    Ok(())
}

impl Which {
    pub fn check(&self) -> Result<(), Failure> {
        let has_filter = !self.filter.to_json().is_empty();
        let is_bulk = has_filter || self.max_tasks.is_some() || self.dry_run;
        match (self.ids.is_empty(), has_filter) {
            (true, false) => Err(Failure::usage("which tasks?")
                .hint("Name their ids, or what they have in common, such as --queue.")),
            (false, _) if is_bulk => Err(Failure::usage("ids and a filter do not go together")
                .hint("Leave out --max-tasks and --dry-run with ids, too.")),
            (true, true) if !self.dry_run && !self.yes && !io::stdin().is_terminal() => {
                Err(Failure::usage("cannot ask for confirmation: stdin is not a terminal")
                    .hint("Count the tasks with --dry-run, or go ahead with --yes."))
            }
            _ => Ok(()),
        }
    }

    /// Counts what matches, asks, and does it batch by batch.
    async fn matching(&self, client: &Client, deed: &Deed, as_json: bool) -> Result<(), Failure> {
        let filter = Value::Object(self.filter.to_json()).to_string();
        let sql = format!("select scylla.{}($1::text::jsonb, $2, $3)", deed.function);
        let function = client.prepare(&sql).await?;
        // The function takes an integer: a larger number is no limit.
        let some = |number: i64| i32::try_from(number).unwrap_or(i32::MAX);
        let most = self.max_tasks.map(some);
        let matched: i64 = client.query_one(&function, &[&filter, &most, &true]).await?.get(0);
        if self.dry_run {
            return tell(as_json, &json!({ "matched": matched }), &format!("{matched} match"));
        }
        if matched > 0 && !self.yes {
            confirm(deed.verb, matched)?;
        }
        let bar = ProgressBar::new(matched as u64).with_style(style());
        let mut done = 0;
        while done < matched {
            let batch = some(BATCH.min(matched - done));
            let result = client.query_one(&function, &[&filter, &batch, &false]).await;
            let more: i64 = match result {
                Ok(row) => row.get(0),
                Err(error) => {
                    bar.abandon();
                    let before = format!("{done} of {matched} were {} before that.", deed.done);
                    let failure = Failure::from(error);
                    let detail = failure.detail.iter().chain([&before]);
                    let detail = detail.map(String::as_str).collect::<Vec<_>>().join(" ");
                    return Err(failure.detail(detail));
                }
            };
            // The rest has changed meanwhile.
            if more == 0 {
                break;
            }
            done += more;
            bar.set_position(done as u64);
        }
        bar.finish_and_clear();
        tell(
            as_json,
            &json!({ "matched": matched, deed.done: done }),
            &format!("{done} {}", deed.done),
        )
    }
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("{bar:40} {human_pos} of {human_len}, {eta} left")
        .expect("the template is correct")
}

fn confirm(verb: &str, matched: i64) -> Result<(), Failure> {
    Term::stderr().write_str(&format!("{verb} {matched} tasks? [y/N] "))?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::new("nothing was changed")),
    }
}
