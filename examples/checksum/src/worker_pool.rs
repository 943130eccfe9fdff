//! The worker processes and their events.

use std::{env, process::Stdio, time::Duration};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, ChildStdout, Command},
    sync::mpsc::{self, UnboundedReceiver, UnboundedSender},
    time::timeout,
};

use crate::options::{LeaseOptions, Result};

pub enum Event {
    Named(String),
    Owned,
    Returned(usize),
    /// Its output has ended.
    Gone,
}

pub struct WorkerProcess {
    process: Child,
    pub name: String,
}

pub struct WorkerPool {
    workers: Vec<WorkerProcess>,
    events: UnboundedReceiver<(usize, Event)>,
}

impl WorkerPool {
    pub fn start(count: u16, options: LeaseOptions) -> Result<Self> {
        let (report, events) = mpsc::unbounded_channel();
        let mut pool = Self { workers: vec![], events };
        for index in 0..count.into() {
            let mut process = Command::new(env::current_exe()?)
                .args(["worker", "--batch", &options.batch.to_string()])
                .args(["--lease", &options.lease.to_string()])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .kill_on_drop(true) // none outlives the job, however that ends
                .spawn()?;
            let output = process.stdout.take().ok_or("a worker has no output")?;
            pool.workers.push(WorkerProcess { process, name: String::new() });
            tokio::spawn(listen(index, output, report.clone()));
        }
        Ok(pool)
    }

    /// The next event within `limit`, with the index of its worker.
    pub async fn next(&mut self, limit: Duration) -> Result<Option<(usize, Event)>> {
        match timeout(limit, self.events.recv()).await {
            Ok(Some((index, Event::Named(name)))) => {
                self.workers[index].name.clone_from(&name);
                Ok(Some((index, Event::Named(name))))
            }
            Ok(Some(event)) => Ok(Some(event)),
            Ok(None) => Err("all the workers have ended".into()),
            Err(_) => Ok(None),
        }
    }

    pub fn name(&self, index: usize) -> &str {
        &self.workers[index].name
    }

    pub fn process_id(&self, index: usize) -> u32 {
        self.workers[index].process.id().unwrap_or_default()
    }

    pub fn freeze(&self, index: usize) -> Result<()> {
        self.signal(index, Signal::SIGSTOP)
    }

    pub fn thaw(&self, index: usize) -> Result<()> {
        self.signal(index, Signal::SIGCONT)
    }

    /// `kill -9`.
    pub async fn kill(&mut self, index: usize) -> Result<()> {
        self.signal(index, Signal::SIGKILL)?;
        self.workers[index].process.wait().await?;
        Ok(())
    }

    fn signal(&self, index: usize, signal: Signal) -> Result<()> {
        let id = self.workers[index].process.id().ok_or("the worker has ended")?;
        Ok(kill(Pid::from_raw(i32::try_from(id)?), signal)?)
    }

    /// Lets each worker end what it has begun, and waits for it.
    pub async fn stop(mut self) -> Result<()> {
        for worker in &mut self.workers {
            drop(worker.process.stdin.take());
        }
        for worker in &mut self.workers {
            worker.process.wait().await?;
        }
        Ok(())
    }
}

async fn listen(index: usize, output: ChildStdout, report: UnboundedSender<(usize, Event)>) {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let event = match line.split_once(' ') {
            Some(("name", name)) => Event::Named(name.into()),
            Some(("owned", _)) => Event::Owned,
            Some(("returned", count)) => Event::Returned(count.parse().unwrap_or(0)),
            _ => continue,
        };
        if report.send((index, event)).is_err() {
            return;
        }
    }
    let _ = report.send((index, Event::Gone));
}
