//! One worker: owns tasks, reads their files, returns the results.
//!
//! It reports each step to its parent on standard output, one line each: `name`, `owned`,
//! `returned`.

use std::{
    io::{self, Write},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use postgres::Client;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    checksum::checksum,
    connect::connect,
    options::{ACTION, LeaseOptions, QUEUE, Result},
};

/// Set when standard input has ended: the parent has stopped the worker, or is dead.
static STOPPED: AtomicBool = AtomicBool::new(false);

pub fn run(options: LeaseOptions) -> Result<()> {
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        STOPPED.store(true, Ordering::Relaxed);
    });
    match work(options) {
        // the server, or the pipe to the parent, may end before this process
        Err(_) if stopped_within(Duration::from_millis(200)) => Ok(()),
        result => result,
    }
}

fn stopped() -> bool {
    STOPPED.load(Ordering::Relaxed)
}

fn stopped_within(timeout: Duration) -> bool {
    let start = Instant::now();
    while !stopped() && start.elapsed() < timeout {
        thread::sleep(Duration::from_millis(5));
    }
    stopped()
}

fn work(options: LeaseOptions) -> Result<()> {
    let mut client = connect("scylla demo worker")?;
    let name: String = client.query_one("select scylla.register_worker()", &[])?.get(0);
    report(&format!("name {name}"))?;
    while !stopped() {
        let tasks = own(&mut client, &name, options)?;
        if tasks.is_empty() {
            thread::sleep(Duration::from_millis(50));
            continue;
        }
        report(&format!("owned {}", tasks.len()))?;
        let returned =
            Batch { client: &mut client, options, extended: Instant::now(), tasks }.work()?;
        report(&format!("returned {returned}"))?;
    }
    Ok(())
}

fn report(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

struct Task {
    id: Uuid,
    token: Uuid,
    path: String,
}

fn own(client: &mut Client, name: &str, options: LeaseOptions) -> Result<Vec<Task>> {
    let statement = "select id, token, spec ->> 'path' from scylla.own_tasks(worker => $1, \
         queue => $2, max_tasks => $3, actions => array[$4], timeout => make_interval(secs => $5))";
    let rows =
        client.query(statement, &[&name, &QUEUE, &options.batch, &ACTION, &options.lease])?;
    Ok(rows
        .iter()
        .map(|row| Task { id: row.get(0), token: row.get(1), path: row.get(2) })
        .collect())
}

/// Tasks that this worker has leased.
struct Batch<'a> {
    client: &'a mut Client,
    options: LeaseOptions,
    extended: Instant,
    tasks: Vec<Task>,
}

impl Batch<'_> {
    /// Returns every task. The result is the number of leases that were still valid.
    fn work(mut self) -> Result<usize> {
        let (mut completed, mut results) = (vec![], vec![]);
        let (mut aborted, mut errors) = (vec![], vec![]);
        for index in 0..self.tasks.len() {
            let path = self.tasks[index].path.clone();
            match checksum(Path::new(&path), || self.keep())? {
                Ok(sum) => {
                    completed.push(index);
                    results.push(json!({ "sha256": sum.sha256, "size": sum.size }));
                }
                Err(error) => {
                    aborted.push(index);
                    errors.push(json!({
                        "code": "unreadable",
                        "args": { "path": path },
                        "description": error.to_string(),
                    }));
                }
            }
        }
        Ok(self.return_all("completed", &completed, "results", &results)?
            + self.return_all("aborted", &aborted, "errors", &errors)?)
    }

    /// Extends the leases when a third of their length has passed. A lost lease shows at the
    /// return.
    fn keep(&mut self) -> Result<()> {
        if self.extended.elapsed().as_secs_f64() > self.options.lease / 3.0 {
            let (ids, tokens) = self.leases(self.tasks.iter());
            self.client.execute("select scylla.extend_tasks($1, $2)", &[&ids, &tokens])?;
            self.extended = Instant::now();
        }
        Ok(())
    }

    fn return_all(
        &mut self,
        outcome: &str,
        indices: &[usize],
        argument: &str,
        values: &[Value],
    ) -> Result<usize> {
        if indices.is_empty() {
            return Ok(0);
        }
        let (ids, tokens) = self.leases(indices.iter().map(|&index| &self.tasks[index]));
        let statement = format!("select scylla.return_tasks($1, $2, $3, {argument} => $4)");
        let row = self.client.query_one(&statement, &[&ids, &tokens, &outcome, &values])?;
        let statuses: Vec<Option<String>> = row.get(0);
        Ok(statuses.iter().flatten().count())
    }

    fn leases<'b>(&self, tasks: impl Iterator<Item = &'b Task>) -> (Vec<Uuid>, Vec<Uuid>) {
        tasks.map(|task| (task.id, task.token)).unzip()
    }
}
