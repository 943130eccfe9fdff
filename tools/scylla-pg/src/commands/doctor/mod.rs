//! `doctor`: what is wrong with a server, and what to do.

mod report;
mod server;
mod work;

use crate::failure::Failure;
use crate::output::plain;
use clap::Args;
use console::style;
use report::{Finding, Report, Severity};
use serde_json::json;
use std::io::{self, Write};
use tokio_postgres::Client;

/// Find what is wrong with the server, and say what to do
#[derive(Args)]
#[command(after_help = "\
Checks:
  extension    scylla is preloaded and installed, and its versions agree
  scheduler    this database is served, in time
  processes    max_worker_processes has room for schedulers and SQL tasks
  board        there is room for leases
  xmin         old snapshots, prepared transactions and idle slots keep no dead rows
  settings     autovacuum, fsync, connections, huge pages, timeouts
  tables       scylla's tables are vacuumed
  queues       each queue with ready tasks has workers, and is not paused
  relay        each outbox has a relay, which is in time, and nothing was refused

Exit status 1: there is an error or a warning. A note is no reason.
To see everything, the role has to be a member of pg_monitor.

Examples:
  scylla-pg doctor
  scylla-pg doctor --older-than '10 minutes'
  scylla-pg doctor --json | jq -r 'select(.severity == \"error\") | .message'")]
pub struct Doctor {
    /// Age from which transactions are too old
    #[arg(long, value_name = "INTERVAL", default_value = "1 hour")]
    older_than: String,
}

impl Doctor {
    pub async fn run(&self, client: &Client, as_json: bool) -> Result<(), Failure> {
        let mut report = Report::default();
        let works = server::extension(client, &mut report).await?;
        if works {
            work::scheduler(client, &mut report).await?;
        }
        server::processes(client, &mut report).await?;
        if works {
            let result = work::board(client, &mut report).await;
            report.permitted("board", result)?;
        }
        server::xmin(client, &self.older_than, &mut report).await?;
        server::settings(client, &mut report).await?;
        server::tables(client, &mut report).await?;
        if works {
            let result = work::queues(client, &mut report).await;
            report.permitted("queues", result)?;
            let result = work::relays(client, &mut report).await;
            report.permitted("relay", result)?;
        }
        print(&report, as_json)?;
        let is_wrong = |it: &Finding| matches!(it.severity, Severity::Error | Severity::Warning);
        if report.0.iter().any(is_wrong) { Err(Failure::silent()) } else { Ok(()) }
    }
}

fn print(report: &Report, as_json: bool) -> Result<(), Failure> {
    let mut out = io::stdout();
    for Finding { check, severity, message, hint } in &report.0 {
        let word = match severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
            Severity::Ok => "ok",
        };
        if as_json {
            let hint = (!hint.is_empty()).then_some(hint);
            let object =
                json!({ "check": check, "severity": word, "message": message, "hint": hint });
            writeln!(out, "{object}")?;
            continue;
        }
        let padded = style(format!("{word:7}"));
        let padded = match severity {
            Severity::Error => padded.red().bold(),
            Severity::Warning => padded.yellow(),
            Severity::Note => padded.cyan(),
            Severity::Ok => padded.green(),
        };
        writeln!(out, "{padded}  {check:9}  {}", plain(message))?;
        if !hint.is_empty() {
            writeln!(out, "{:20}{}", "", plain(hint))?;
        }
    }
    Ok(())
}
