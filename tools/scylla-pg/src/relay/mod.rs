//! Carries submitted tasks from the outbox of an application's database to scylla's server: in the
//! order of their commits, and each exactly once.
//!
//! A transaction of scylla's database submits tasks and notes their ids. What a relay knows about
//! the outbox holds for its session. After the loss of a connection it compares the ids of all rows
//! that the outbox still has.

mod answer;
mod source;
mod target;

use crate::failure::Failure;
use serde_json::json;
use source::{Source, Window};
use std::collections::HashSet;
use std::io::{self, Write};
use std::time::{Duration, Instant};
use target::{Carried, Status, Target};
use tokio::time::sleep;
use tokio_postgres::error::SqlState;

/// The functions and tables of the application's database.
pub const OUTBOX: &str = include_str!("outbox.sql");

/// How many tasks go in one transaction.
const BATCH: usize = 1_000;
/// How many ids are compared at once.
const COMPARED: usize = 20_000;
/// A pause after a window with few rows, so that the next one has more.
const PAUSE: Duration = Duration::from_millis(5);
/// How long the relay looks often after it has found something.
const BUSY: Duration = Duration::from_secs(1);
/// How often a relay that is not the one that carries asks whether it is, and retries are made.
const RETRY: Duration = Duration::from_secs(1);
/// The longest pause between two attempts to connect.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How often the state is noted.
const REPORT: Duration = Duration::from_secs(5);

pub struct Relay {
    /// The application's database.
    pub from: String,
    /// Scylla's database.
    pub to: Option<String>,
    /// The name of the outbox there.
    pub name: String,
    /// How long to wait for a notification before looking.
    pub poll_interval: Duration,
    /// How long a partition is written before the other one is.
    pub round: Duration,
    pub as_json: bool,
}

/// What a relay remembers beyond its sessions.
#[derive(Default)]
struct Progress {
    total: Carried,
    lag: f64,
    waiting: usize,
    reported: Option<Instant>,
}

impl Relay {
    /// Carries until the process ends.
    pub async fn run(&self) -> Result<(), Failure> {
        let mut progress = Progress::default();
        let mut pause = Duration::from_millis(100);
        loop {
            let begun = Instant::now();
            let Err(failure) = self.session(&mut progress, false).await else { return Ok(()) };
            if failure.is_fatal() {
                return Err(failure);
            }
            if begun.elapsed() > LONGEST_PAUSE {
                pause = Duration::from_millis(100);
            }
            eprintln!("{failure}");
            sleep(pause).await;
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }

    /// Carries what is there.
    pub async fn run_once(&self) -> Result<(), Failure> {
        self.session(&mut Progress::default(), true).await
    }

    /// Carries until a connection is lost.
    async fn session(&self, progress: &mut Progress, once: bool) -> Result<(), Failure> {
        let target = Target::connect(self.to.as_deref(), &self.name).await?;
        let mut source = Source::connect(&self.from).await?;
        self.wait_for_turn(&target).await?;
        source.set_listening(false).await?;
        let (mut found, mut rotated, mut tried) = (Instant::now(), Instant::now(), Instant::now());
        let mut is_listening = false;
        let mut carried = false;
        loop {
            let window = source.poll().await?;
            let count = window.rows.len();
            if count > 0 {
                found = Instant::now();
                carried = true;
                if is_listening {
                    source.set_listening(false).await?;
                    is_listening = false;
                }
            }
            let round = window.round;
            self.carry(&source, &target, &window, progress).await?;
            source.done(window);
            (progress.lag, progress.waiting) = (0.0, 0);
            self.report(&target, progress, once).await?;
            let is_over = count == 0 && !source.is_first();
            if once && is_over {
                return Ok(());
            }
            let is_time = carried && rotated.elapsed() > self.round && tried.elapsed() > RETRY;
            if is_time && !source.is_first() {
                tried = Instant::now();
                if rotate(&source, &target, round + 1).await? {
                    (rotated, carried) = (Instant::now(), false);
                }
            }
            if count >= BATCH {
                continue;
            }
            if found.elapsed() < BUSY {
                sleep(PAUSE).await;
            } else if is_listening {
                source.wait(self.poll_interval).await;
            } else {
                // A look after it finds what was submitted before.
                source.set_listening(true).await?;
                is_listening = true;
            }
        }
    }

    /// Waits until no other relay carries from this outbox.
    async fn wait_for_turn(&self, target: &Target) -> Result<(), Failure> {
        let mut is_told = false;
        while !target.lead().await? {
            if !is_told {
                self.tell("standby", &Progress::default())?;
            }
            is_told = true;
            sleep(RETRY).await;
        }
        Ok(())
    }

    /// Carries the rows of a window.
    async fn carry(
        &self,
        source: &Source,
        target: &Target,
        window: &Window,
        progress: &mut Progress,
    ) -> Result<(), Failure> {
        let begun = Instant::now();
        let size = if source.is_first() { COMPARED } else { BATCH };
        let mut left = window.rows.len();
        for rows in window.rows.chunks(size) {
            let rows =
                if source.is_first() { new_rows(source, target, rows).await? } else { rows.into() };
            for batch in rows.chunks(BATCH) {
                let tasks = source.fetch(batch).await?;
                progress.waiting = left;
                progress.lag = window.lag + begun.elapsed().as_secs_f64();
                self.report(target, progress, false).await?;
                let done = loop {
                    match target.carry(&tasks, window.round).await {
                        // A queue or the board is full. Those who submit are not told.
                        Err(failure)
                            if failure.code == Some(SqlState::CONFIGURATION_LIMIT_EXCEEDED) =>
                        {
                            eprintln!("{failure}");
                            progress.lag = window.lag + begun.elapsed().as_secs_f64();
                            self.report(target, progress, false).await?;
                            sleep(RETRY).await;
                        }
                        result => break result?,
                    }
                };
                progress.total.new += done.new;
                progress.total.refused += done.refused;
            }
            left -= rows.len().min(left);
        }
        Ok(())
    }

    /// Notes the state now and then.
    async fn report(
        &self,
        target: &Target,
        progress: &mut Progress,
        now: bool,
    ) -> Result<(), Failure> {
        if !now && progress.reported.is_some_and(|it| it.elapsed() < REPORT) {
            return Ok(());
        }
        progress.reported = Some(Instant::now());
        let status =
            Status { lag: progress.lag, waiting: progress.waiting as i64, total: progress.total };
        let relay = format!("process {}", std::process::id());
        target.report(&relay, &status).await?;
        self.tell("active", progress)
    }

    /// Prints the state.
    fn tell(&self, state: &str, progress: &Progress) -> Result<(), Failure> {
        if self.as_json {
            let Progress { total, lag, waiting, .. } = progress;
            let status = json!({
                "name": self.name, "state": state, "lag_seconds": lag, "waiting": waiting,
                "carried": total.new, "refused": total.refused,
            });
            writeln!(io::stdout(), "{status}")?;
        }
        Ok(())
    }
}

/// Those of the rows that were not carried in an earlier session.
async fn new_rows(source: &Source, target: &Target, rows: &[i64]) -> Result<Vec<i64>, Failure> {
    let given = source.ids(rows).await?;
    let ids: Vec<_> = given.iter().map(|(id, _)| *id).collect();
    let unknown: HashSet<_> = target.unknown(&ids).await?.into_iter().collect();
    Ok(given.into_iter().filter(|(id, _)| unknown.contains(id)).map(|(_, row)| row).collect())
}

/// Begins a round, if the partition that it writes can be emptied. A row stays for one round
/// at least after it was carried, and its id for one more: both servers may lose what they did
/// last.
async fn rotate(source: &Source, target: &Target, round: i64) -> Result<bool, Failure> {
    if !source.empty(round).await? {
        return Ok(false);
    }
    match target.forget(round).await {
        Err(failure) if failure.code == Some(SqlState::LOCK_NOT_AVAILABLE) => {
            target.rollback().await?;
            return Ok(false);
        }
        result => result?,
    }
    source.set_round(round).await?;
    Ok(true)
}
