//! Counts and rates on the console.

use std::{
    collections::BTreeMap,
    io::{IsTerminal, Write, stdout},
    time::Duration,
};

use scylla_pg::tokio_postgres::Client;

use crate::options::{QUEUE, Result};

pub fn per_second(tasks: usize, time: Duration) -> u64 {
    (tasks as f64 / time.as_secs_f64().max(0.001)).round() as u64
}

pub type Counts = BTreeMap<String, usize>;

pub async fn status_counts(client: &Client) -> Result<Counts> {
    let statement = "select status, count(*) from scylla.tasks where queue = $1 group by status";
    let rows = client.query(statement, &[&QUEUE]).await?;
    rows.iter().map(|row| Ok((row.get(0), usize::try_from(row.get::<_, i64>(1))?))).collect()
}

pub fn settled_of(counts: &Counts) -> usize {
    ["completed", "aborted", "cancelled"].iter().filter_map(|&status| counts.get(status)).sum()
}

pub fn progress_line(counts: &Counts, rate: u64) {
    let count = |status| counts.get(status).copied().unwrap_or(0);
    let line = format!(
        "   ready {:>6}  running {:>4}  completed {:>6}  aborted {:>3}  {rate:>6} tasks/s",
        count("ready"),
        count("running"),
        count("completed"),
        count("aborted"),
    );
    // on a terminal each line takes the place of the one before
    if stdout().is_terminal() {
        print!("\r{line}\x1b[K");
        let _ = stdout().flush();
    } else {
        println!("{line}");
    }
}

pub fn end_line() {
    if stdout().is_terminal() {
        println!();
    }
}
