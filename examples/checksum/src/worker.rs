//! One worker: owns tasks, reads their files, returns what it found.
//!
//! It tells its parent on standard output what it does, one line each: `name`, `owned`, `returned`.

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
    error::Result,
    work::{ACTION, QUEUE, Shift},
};

/// Set when standard input has ended: the parent wants us no more, or is dead.
static DISMISSED: AtomicBool = AtomicBool::new(false);

pub fn run(shift: Shift) -> Result<()> {
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        DISMISSED.store(true, Ordering::Relaxed);
    });
    match work(shift) {
        // the server, or the pipe to the parent, may go before us
        Err(_) if dismissed_within(Duration::from_millis(200)) => Ok(()),
        result => result,
    }
}

fn dismissed() -> bool {
    DISMISSED.load(Ordering::Relaxed)
}

fn dismissed_within(patience: Duration) -> bool {
    let start = Instant::now();
    while !dismissed() && start.elapsed() < patience {
        thread::sleep(Duration::from_millis(5));
    }
    dismissed()
}

fn work(shift: Shift) -> Result<()> {
    let mut client = connect("scylla demo worker")?;
    let name: String = client.query_one("select scylla.register_worker()", &[])?.get(0);
    tell(&format!("name {name}"))?;
    while !dismissed() {
        let tasks = own(&mut client, &name, shift)?;
        if tasks.is_empty() {
            thread::sleep(Duration::from_millis(50));
            continue;
        }
        tell(&format!("owned {}", tasks.len()))?;
        let returned =
            Batch { client: &mut client, shift, extended: Instant::now(), tasks }.work()?;
        tell(&format!("returned {returned}"))?;
    }
    Ok(())
}

fn tell(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

struct Task {
    id: Uuid,
    token: Uuid,
    path: String,
}

fn own(client: &mut Client, name: &str, shift: Shift) -> Result<Vec<Task>> {
    let statement = "select id, token, spec ->> 'path' from scylla.own_tasks(worker => $1, \
         queue => $2, max_tasks => $3, actions => array[$4], timeout => make_interval(secs => $5))";
    let rows = client.query(statement, &[&name, &QUEUE, &shift.batch, &ACTION, &shift.lease])?;
    Ok(rows
        .iter()
        .map(|row| Task { id: row.get(0), token: row.get(1), path: row.get(2) })
        .collect())
}

/// Tasks that we hold a lease on.
struct Batch<'a> {
    client: &'a mut Client,
    shift: Shift,
    extended: Instant,
    tasks: Vec<Task>,
}

impl Batch<'_> {
    /// Returns every task; how many of them were still ours.
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
        Ok(self.give_back("completed", &completed, "results", &results)?
            + self.give_back("aborted", &aborted, "errors", &errors)?)
    }

    /// Extends the leases when a third of their time is over. Who lost one learns it on returning.
    fn keep(&mut self) -> Result<()> {
        if self.extended.elapsed().as_secs_f64() > self.shift.lease / 3.0 {
            let (ids, tokens) = self.proofs(self.tasks.iter());
            self.client.execute("select scylla.extend_tasks($1, $2)", &[&ids, &tokens])?;
            self.extended = Instant::now();
        }
        Ok(())
    }

    fn give_back(
        &mut self,
        outcome: &str,
        indices: &[usize],
        member: &str,
        values: &[Value],
    ) -> Result<usize> {
        if indices.is_empty() {
            return Ok(0);
        }
        let (ids, tokens) = self.proofs(indices.iter().map(|&index| &self.tasks[index]));
        let statement = format!("select scylla.return_tasks($1, $2, $3, {member} => $4)");
        let row = self.client.query_one(&statement, &[&ids, &tokens, &outcome, &values])?;
        let statuses: Vec<Option<String>> = row.get(0);
        Ok(statuses.iter().flatten().count())
    }

    fn proofs<'b>(&self, tasks: impl Iterator<Item = &'b Task>) -> (Vec<Uuid>, Vec<Uuid>) {
        tasks.map(|task| (task.id, task.token)).unzip()
    }
}
