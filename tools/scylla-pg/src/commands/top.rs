//! `top`

use super::may_look;
use crate::failure::Failure;
use crate::output::{Table, duration, plain};
use clap::Args;
use console::{Term, truncate_str};
use serde_json::json;
use std::collections::HashMap;
use std::future::Future;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;
use tokio::time::sleep;
use tokio_postgres::{Client, Row};

/// Show the queues, their work and their rates
#[derive(Args)]
#[command(after_help = "\
Shows the queues with the most ready tasks first, again and again, until you interrupt it. Where the
output is no terminal, it prints once. Rates are tasks a second, over the interval.

  WAITING  tasks that wait for a time or for other tasks
  READY    tasks that a worker could own
  RUNNING  tasks that workers own
  IN/S     submitted
  OUT/S    completed, aborted or cancelled
  FAIL/S   aborted
  OLDEST   how long the oldest ready task has waited
  WORKERS  workers that called within the last minute

Examples:
  scylla-pg top
  scylla-pg top --once --interval 10
  scylla-pg top --json --interval 1 | jq '.queues[] | select(.oldest_ready_seconds > 60) | .queue'")]
pub struct Top {
    /// Seconds between two views
    #[arg(short, long, value_name = "SECONDS", default_value_t = 2.0, value_parser = seconds)]
    interval: f64,
    /// Print once
    #[arg(long)]
    once: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|it| (0.1..=3600.0).contains(it));
    number.ok_or_else(|| "a number from 0.1 to 3600 is needed".to_owned())
}

const QUEUES: &str = "
select q.queue, q.waiting::bigint, q.ready::bigint, q.running::bigint,
    extract(epoch from q.oldest_ready)::float8 as oldest, coalesce(q.paused, false) as paused,
    coalesce(s.submitted, 0)::bigint as submitted, coalesce(s.aborted, 0)::bigint as aborted,
    coalesce(s.completed + s.aborted + s.cancelled, 0)::bigint as settled,
    coalesce(w.workers, 0) as workers, extract(epoch from clock_timestamp())::float8 as now
from scylla.queues q
left join scylla.stats s on s.queue = q.queue
left join (
    select queue, count(*) as workers from scylla.workers
    where last_seen > clock_timestamp() - interval '1 minute' group by queue
) w on w.queue = q.queue
order by q.ready desc nulls last, q.running desc nulls last, q.queue";

/// What is counted of a queue at one time.
struct Counts {
    submitted: i64,
    settled: i64,
    aborted: i64,
    now: f64,
}

/// One queue, with its rates since the sample before.
struct Line {
    queue: String,
    waiting: Option<i64>,
    ready: Option<i64>,
    running: Option<i64>,
    rates: [f64; 3],
    oldest: Option<f64>,
    workers: i64,
    paused: bool,
}

type Sample = HashMap<String, Counts>;

async fn sample(client: &Client, before: &Sample) -> Result<(Vec<Line>, Sample), Failure> {
    let rows = client.query(QUEUES, &[]).await?;
    let counts = |row: &Row| Counts {
        submitted: row.get("submitted"),
        settled: row.get("settled"),
        aborted: row.get("aborted"),
        now: row.get("now"),
    };
    let line = |row: &Row| {
        let (queue, now): (String, Counts) = (row.get(0), counts(row));
        let rates = match before.get(&queue) {
            Some(then) => {
                let per_second = |more: i64| more.max(0) as f64 / (now.now - then.now).max(0.001);
                [
                    per_second(now.submitted - then.submitted),
                    per_second(now.settled - then.settled),
                    per_second(now.aborted - then.aborted),
                ]
            }
            None => [0.0; 3],
        };
        Line {
            queue,
            waiting: row.get(1),
            ready: row.get(2),
            running: row.get(3),
            rates,
            oldest: row.get("oldest"),
            workers: row.get("workers"),
            paused: row.get("paused"),
        }
    };
    let lines = rows.iter().map(line).collect();
    Ok((lines, rows.iter().map(|row| (row.get(0), counts(row))).collect()))
}

impl Top {
    pub async fn run<F>(
        &self,
        client: &Client,
        connect: impl Fn() -> F,
        as_json: bool,
    ) -> Result<(), Failure>
    where
        F: Future<Output = Result<Client, Failure>>,
    {
        let interval = Duration::from_secs_f64(self.interval);
        let (_, mut before) = sample(client, &Sample::new()).await?;
        if before.is_empty() {
            may_look(client).await?;
        }
        sleep(interval).await;
        if self.once || as_json || !io::stdout().is_terminal() {
            let (lines, _) = sample(client, &before).await?;
            return print(&lines, as_json);
        }
        let term = Term::stdout();
        let mut again = None;
        loop {
            match sample(again.as_ref().unwrap_or(client), &before).await {
                Ok((lines, now)) => {
                    before = now;
                    draw(&term, &table(&lines))?;
                }
                // A server that restarts comes back.
                Err(failure) if failure.code.is_none() || client.is_closed() => {
                    draw(&term, &[format!("{failure}")])?;
                    again = connect().await.ok().or(again);
                }
                Err(failure) => return Err(failure),
            }
            sleep(interval).await;
        }
    }
}

/// As much as the terminal has room for.
fn draw(term: &Term, lines: &[String]) -> Result<(), Failure> {
    let (height, width) = term.size();
    let lines = lines.iter().take(usize::from(height).saturating_sub(1));
    let text: String =
        lines.map(|it| format!("{}\n", truncate_str(it, width.into(), "…"))).collect();
    term.clear_screen()?;
    Ok(term.write_str(&text)?)
}

fn table(lines: &[Line]) -> Vec<String> {
    let mut table =
        Table::new("QUEUE >WAITING >READY >RUNNING >IN/S >OUT/S >FAIL/S >OLDEST >WORKERS STATE");
    let number = |it: Option<i64>| it.map_or("?".to_owned(), |it| it.to_string());
    for line in lines {
        let [submitted, settled, aborted] = line.rates.map(|it| format!("{it:.1}"));
        table.row([
            plain(&line.queue).into_owned(),
            number(line.waiting),
            number(line.ready),
            number(line.running),
            submitted,
            settled,
            aborted,
            line.oldest.map_or(String::new(), duration),
            line.workers.to_string(),
            if line.paused { "paused" } else { "" }.to_owned(),
        ]);
    }
    if lines.is_empty() { vec!["no queue".to_owned()] } else { table.lines() }
}

fn print(lines: &[Line], as_json: bool) -> Result<(), Failure> {
    let mut out = io::stdout();
    if !as_json {
        return Ok(table(lines).iter().try_for_each(|line| writeln!(out, "{line}"))?);
    }
    let object = |line: &Line| {
        json!({
            "queue": line.queue,
            "waiting": line.waiting,
            "ready": line.ready,
            "running": line.running,
            "submitted_per_second": line.rates[0],
            "settled_per_second": line.rates[1],
            "aborted_per_second": line.rates[2],
            "oldest_ready_seconds": line.oldest,
            "workers": line.workers,
            "paused": line.paused,
        })
    };
    let queues: Vec<_> = lines.iter().map(object).collect();
    Ok(writeln!(out, "{}", json!({ "queues": queues }))?)
}
