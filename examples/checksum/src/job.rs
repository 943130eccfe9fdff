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
    crew::{Crew, News},
    error::Result,
    files,
    progress::{self, per_second, settled_of, status_counts},
    report::{self, Outcome},
    work::{ACTION, QUEUE, Shift},
};

const SUBMIT_AT_ONCE: usize = 1000;
const TICK: Duration = Duration::from_millis(500);
/// Without progress for so long (and a lease) the job has failed.
const PATIENCE: Duration = Duration::from_secs(60);

pub fn run(folder: &Path, workers: u16, shift: Shift) -> Result<()> {
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
        shift.batch, shift.lease
    );
    let crew = Crew::hire(workers, shift)?;
    let mut watch = Watch { client: &mut client, crew, total: submitted.len(), victim: None };
    watch.until_done(PATIENCE + Duration::from_secs_f64(shift.lease))?;
    let Watch { crew, victim, .. } = watch;
    crew.dismiss()?;
    report::report(&mut client, &Outcome { submitted, started, victim })
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
    crew: Crew,
    total: usize,
    /// The name of the worker that was killed.
    victim: Option<String>,
}

impl Watch<'_> {
    fn until_done(&mut self, patience: Duration) -> Result<()> {
        let mut returned = 0;
        let (mut settled, mut progress) = (0, Instant::now());
        let mut tick = Instant::now();
        loop {
            match self.crew.next(TICK.saturating_sub(tick.elapsed()))? {
                Some((_, News::Returned(count))) => returned += count,
                Some((index, News::Owned))
                    if self.victim.is_none() && returned >= self.total / 3 =>
                {
                    self.strike(index)?;
                }
                Some((index, News::Gone))
                    if self.victim.as_deref() != Some(self.crew.name(index)) =>
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
            progress::print_line(&counts, per_second(now - settled, tick.elapsed()));
            tick = Instant::now();
            if now > settled {
                (settled, progress) = (now, tick);
            }
            if settled >= self.total {
                return Ok(());
            }
            if progress.elapsed() > patience {
                return Err(format!("no progress for {} s", patience.as_secs()).into());
            }
        }
    }

    /// Kills a worker, if it still holds tasks when it is stopped: it just said that it owned some.
    fn strike(&mut self, index: usize) -> Result<()> {
        self.crew.freeze(index)?;
        thread::sleep(Duration::from_millis(100)); // the server ends what it had been asked for
        let name = self.crew.name(index).to_string();
        let held: i64 = self
            .client
            .query_one(
                "select count(*) from scylla.tasks \
                 where queue = $1 and status = 'running' and owner = $2",
                &[&QUEUE, &name],
            )?
            .get(0);
        if held == 0 {
            return self.crew.thaw(index);
        }
        self.crew.kill(index)?;
        progress::end_line();
        println!("== kill -9 {} ({name}), which holds {held} tasks", self.crew.process_id(index));
        self.victim = Some(name);
        Ok(())
    }
}
