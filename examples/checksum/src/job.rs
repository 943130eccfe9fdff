//! The job from the first file to the last result.

use std::{
    collections::HashMap,
    path::Path,
    thread,
    time::{Duration, Instant, SystemTime},
};

use postgres::Client;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    connect::connect,
    files,
    options::{ACTION, LeaseOptions, QUEUE, Result},
    progress::{end_line, per_second, progress_line, settled_of, status_counts},
    report::{self, Outcome},
    worker_pool::{Event, WorkerPool},
};

const SUBMIT_AT_ONCE: usize = 1000;
const TICK: Duration = Duration::from_millis(500);
/// The job fails after this time without progress, plus one lease.
const NO_PROGRESS_TIMEOUT: Duration = Duration::from_secs(60);

pub fn run(folder: &Path, workers: u16, options: LeaseOptions) -> Result<()> {
    let files = files::below(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    println!(
        "== {} files below {} (left out: {} not readable, {} with names that are not UTF-8)",
        files.paths.len(),
        folder.display(),
        files.unreadable,
        files.not_utf8
    );
    if files.paths.is_empty() {
        return Err("there is nothing to do".into());
    }
    let mut client = connect("scylla demo")?;
    let start = Instant::now();
    let submitted = submit(&mut client, files.paths)?;
    let rate = per_second(submitted.len(), start.elapsed());
    println!("== submitted {} tasks, {rate} tasks/s", submitted.len());

    let started = client.query_one("select clock_timestamp()", &[])?.get::<_, SystemTime>(0);
    println!(
        "== {workers} worker processes, {} tasks at once, leases of {} s",
        options.batch, options.lease
    );
    let pool = WorkerPool::start(workers, options)?;
    let mut watch = Watch { client: &mut client, pool, total: submitted.len(), killed: None };
    watch.until_done(NO_PROGRESS_TIMEOUT + Duration::from_secs_f64(options.lease))?;
    let Watch { pool, killed, .. } = watch;
    pool.stop()?;
    report::report(&mut client, &Outcome { submitted, started, killed })
}

/// One task for each file; the paths by task.
fn submit(client: &mut Client, paths: Vec<String>) -> Result<HashMap<Uuid, String>> {
    let mut submitted = HashMap::with_capacity(paths.len());
    let statement = client.prepare("select id from scylla.submit_tasks($1)")?;
    for paths in paths.chunks(SUBMIT_AT_ONCE) {
        let task = |path| json!({ "queue": QUEUE, "action": ACTION, "spec": { "path": path } });
        let tasks: Value = paths.iter().map(task).collect();
        let rows = client.query(&statement, &[&tasks])?;
        if rows.len() != paths.len() {
            return Err(format!("{} tasks submitted of {}", rows.len(), paths.len()).into());
        }
        submitted.extend(rows.iter().map(|row| row.get(0)).zip(paths.iter().cloned()));
    }
    Ok(submitted)
}

struct Watch<'a> {
    client: &'a mut Client,
    pool: WorkerPool,
    total: usize,
    /// The name of the worker that was killed.
    killed: Option<String>,
}

impl Watch<'_> {
    fn until_done(&mut self, timeout: Duration) -> Result<()> {
        let mut returned = 0;
        let (mut settled, mut progress) = (0, Instant::now());
        let mut tick = Instant::now();
        loop {
            match self.pool.next(TICK.saturating_sub(tick.elapsed()))? {
                Some((_, Event::Returned(count))) => returned += count,
                Some((index, Event::Owned))
                    if self.killed.is_none() && returned >= self.total / 3 =>
                {
                    self.kill_one(index)?;
                }
                Some((index, Event::Gone))
                    if self.killed.as_deref() != Some(self.pool.name(index)) =>
                {
                    return Err(format!("worker {} has ended too early", index + 1).into());
                }
                _ => {}
            }
            if tick.elapsed() < TICK {
                continue;
            }
            let counts = status_counts(self.client)?;
            let now = settled_of(&counts);
            progress_line(&counts, per_second(now - settled, tick.elapsed()));
            tick = Instant::now();
            if now > settled {
                (settled, progress) = (now, tick);
            }
            if settled >= self.total {
                return Ok(());
            }
            if progress.elapsed() > timeout {
                return Err(format!("no progress for {} s", timeout.as_secs()).into());
            }
        }
    }

    /// Kills a worker that has just owned tasks, if it still has leases once it is stopped.
    fn kill_one(&mut self, index: usize) -> Result<()> {
        self.pool.freeze(index)?;
        thread::sleep(Duration::from_millis(100)); // the server first ends the statement that runs
        let name = self.pool.name(index).to_string();
        let held: i64 = self
            .client
            .query_one(
                "select count(*) from scylla.tasks \
                 where queue = $1 and status = 'running' and owner = $2",
                &[&QUEUE, &name],
            )?
            .get(0);
        if held == 0 {
            return self.pool.thaw(index);
        }
        self.pool.kill(index)?;
        end_line();
        println!("== kill -9 {} ({name}), which holds {held} tasks", self.pool.process_id(index));
        self.killed = Some(name);
        Ok(())
    }
}
