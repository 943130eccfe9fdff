//! One worker: a handler that reads a file, and a `scylla_pg::Worker` that runs it.
//!
//! It reports each step to its parent on standard output, one line each: `name`, `owned`,
//! `returned`.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use scylla_pg::{HandlerError, Spec, Task, Worker, WorkerHandle};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncWriteExt, copy, sink, stdin, stdout},
    task::spawn_blocking,
    time::sleep,
};

use crate::{
    checksum::{Checksum, checksum},
    connect::connector,
    options::{ACTION, LeaseOptions, QUEUE, Result},
};

/// How many files are read at once.
const CONCURRENCY: usize = 4;

/// What is to be done: the checksum of a file.
#[derive(Serialize, Deserialize)]
pub struct Sha256Of {
    pub path: PathBuf,
}

impl Spec for Sha256Of {
    const QUEUE: &'static str = QUEUE;
    const ACTION: &'static str = ACTION;
}

/// Reads a file. A file that cannot be read has no checksum, however often it is tried.
async fn sha256_of(task: Task<Sha256Of>) -> Result<Checksum, HandlerError> {
    let wanted = Wanted::default();
    let flag = wanted.0.clone();
    let path = task.spec.path.clone();
    // reading blocks: not in a thread of tokio's
    let read = spawn_blocking(move || checksum(&path, || !flag.load(Ordering::Relaxed)));
    match read.await? {
        Ok(Some(checksum)) => Ok(checksum),
        Ok(None) => Err(HandlerError::retry("the file was not read to its end")),
        Err(error) => {
            Err(HandlerError::abort("unreadable", error.to_string()).with("path", &task.spec.path))
        }
    }
}

/// Set when the handler is dropped, so that its thread stops reading.
#[derive(Default)]
struct Wanted(Arc<AtomicBool>);

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub async fn run(options: LeaseOptions) -> Result<()> {
    let concurrency = CONCURRENCY.min(options.batch);
    let worker = Worker::builder(connector()?)
        .register(sha256_of)
        .concurrency(concurrency)
        .prefetch(options.batch - concurrency)
        .lease(Duration::from_secs_f64(options.lease))
        .prepared_statements(true) // there is no pooler
        .build()?;
    let reporting = tokio::spawn(report(worker.handle()));
    worker.run_until(parent_has_ended()).await?;
    reporting.abort();
    Ok(())
}

/// The parent stops the worker, or is dead: standard input ends.
async fn parent_has_ended() {
    let _ = copy(&mut stdin(), &mut sink()).await;
}

async fn report(handle: WorkerHandle) -> std::io::Result<()> {
    let mut out = stdout();
    out.write_all(format!("name {}\n", handle.name()).as_bytes()).await?;
    let mut told = handle.stats();
    loop {
        let stats = handle.stats();
        let returned = stats.completed + stats.aborted - told.completed - told.aborted;
        let mut lines = String::new();
        if stats.owned > told.owned {
            lines += &format!("owned {}\n", stats.owned - told.owned);
        }
        if returned > 0 {
            lines += &format!("returned {returned}\n");
        }
        out.write_all(lines.as_bytes()).await?;
        out.flush().await?;
        told = stats;
        sleep(Duration::from_millis(20)).await;
    }
}
