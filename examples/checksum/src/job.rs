//! The job from the first file to the last result.

use std::{
    collections::HashMap,
    path::Path,
    time::{Duration, Instant, SystemTime},
};

use scylla_pg::{Client, NewTasks, tokio_postgres, uuid::Uuid};
use tokio::time::sleep;

use crate::{
    connect::{connect, connector},
    files,
    options::{LeaseOptions, QUEUE, Result},
    progress::{end_line, per_second, progress_line, settled_of, status_counts},
    report::{self, Outcome},
    worker::Sha256Of,
    worker_pool::{Event, WorkerPool},
};

const TICK: Duration = Duration::from_millis(500);
/// The job fails after this time without progress, plus one lease.
const NO_PROGRESS_TIMEOUT: Duration = Duration::from_secs(60);

pub async fn run(folder: &Path, workers: u16, options: LeaseOptions) -> Result<()> {
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
    let client = connect("scylla demo").await?;
    let start = Instant::now();
    let submitted = submit(files.paths).await?;
    let rate = per_second(submitted.len(), start.elapsed());
    println!("== submitted {} tasks, {rate} tasks/s", submitted.len());

    let started = client.query_one("select clock_timestamp()", &[]).await?.get::<_, SystemTime>(0);
    println!(
        "== {workers} worker processes, {} tasks at once, leases of {} s",
        options.batch, options.lease
    );
    let pool = WorkerPool::start(workers, options)?;
    let mut watch = Watch { client: &client, pool, total: submitted.len(), killed: None };
    watch.until_done(NO_PROGRESS_TIMEOUT + Duration::from_secs_f64(options.lease)).await?;
    let Watch { pool, killed, .. } = watch;
    pool.stop().await?;
    report::report(&client, &Outcome { submitted, started, killed }).await
}

/// One task for each file, all in one transaction; the paths by task.
async fn submit(paths: Vec<String>) -> Result<HashMap<Uuid, String>> {
    let specs = paths.iter().map(|path| Sha256Of { path: path.into() });
    let ids = Client::connect(connector()?).submit_many(NewTasks::of(specs)).await?;
    Ok(ids.into_iter().zip(paths).collect())
}

struct Watch<'a> {
    client: &'a tokio_postgres::Client,
    pool: WorkerPool,
    total: usize,
    /// The name of the worker that was killed.
    killed: Option<String>,
}

impl Watch<'_> {
    async fn until_done(&mut self, timeout: Duration) -> Result<()> {
        let mut returned = 0;
        let (mut settled, mut progress) = (0, Instant::now());
        let mut tick = Instant::now();
        loop {
            match self.pool.next(TICK.saturating_sub(tick.elapsed())).await? {
                Some((_, Event::Returned(count))) => returned += count,
                Some((index, Event::Owned))
                    if self.killed.is_none() && returned >= self.total / 3 =>
                {
                    self.kill_one(index).await?;
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
            let counts = status_counts(self.client).await?;
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
    async fn kill_one(&mut self, index: usize) -> Result<()> {
        self.pool.freeze(index)?;
        sleep(Duration::from_millis(100)).await; // the server first ends the statement that runs
        let name = self.pool.name(index).to_string();
        let held: i64 = self
            .client
            .query_one(
                "select count(*) from scylla.tasks \
                 where queue = $1 and status = 'running' and owner = $2",
                &[&QUEUE, &name],
            )
            .await?
            .get(0);
        if held == 0 {
            return self.pool.thaw(index);
        }
        self.pool.kill(index).await?;
        end_line();
        println!("== kill -9 {} ({name}), which holds {held} tasks", self.pool.process_id(index));
        self.killed = Some(name);
        Ok(())
    }
}
