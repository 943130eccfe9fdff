//! The worker processes and their events.

use std::{
    env,
    io::{BufRead, BufReader},
    process::{Child, ChildStdout, Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    thread,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
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
    events: Receiver<(usize, Event)>,
}

impl WorkerPool {
    pub fn start(count: u16, options: LeaseOptions) -> Result<Self> {
        let (report, events) = mpsc::channel();
        let mut pool = Self { workers: vec![], events };
        for index in 0..count.into() {
            let mut process = Command::new(env::current_exe()?)
                .args(["worker", "--batch", &options.batch.to_string()])
                .args(["--lease", &options.lease.to_string()])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()?;
            let output = process.stdout.take().ok_or("a worker has no output")?;
            pool.workers.push(WorkerProcess { process, name: String::new() });
            let report = report.clone();
            thread::spawn(move || listen(index, output, &report));
        }
        Ok(pool)
    }

    /// The next event within `timeout`, with the index of its worker.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<(usize, Event)>> {
        match self.events.recv_timeout(timeout) {
            Ok((index, Event::Named(name))) => {
                self.workers[index].name.clone_from(&name);
                Ok(Some((index, Event::Named(name))))
            }
            Ok(events) => Ok(Some(events)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err("all the workers have ended".into()),
        }
    }

    pub fn name(&self, index: usize) -> &str {
        &self.workers[index].name
    }

    pub fn process_id(&self, index: usize) -> u32 {
        self.workers[index].process.id()
    }

    pub fn freeze(&self, index: usize) -> Result<()> {
        self.signal(index, Signal::SIGSTOP)
    }

    pub fn thaw(&self, index: usize) -> Result<()> {
        self.signal(index, Signal::SIGCONT)
    }

    /// `kill -9`.
    pub fn kill(&mut self, index: usize) -> Result<()> {
        self.signal(index, Signal::SIGKILL)?;
        self.workers[index].process.wait()?;
        Ok(())
    }

    fn signal(&self, index: usize, signal: Signal) -> Result<()> {
        let id = i32::try_from(self.process_id(index))?;
        Ok(kill(Pid::from_raw(id), signal)?)
    }

    /// Lets each worker finish its batch, and waits for it.
    pub fn stop(mut self) -> Result<()> {
        for worker in &mut self.workers {
            drop(worker.process.stdin.take());
        }
        for worker in &mut self.workers {
            worker.process.wait()?;
        }
        Ok(())
    }
}

impl Drop for WorkerPool {
    /// No worker process outlives the job, however the job ends.
    fn drop(&mut self) {
        for worker in &mut self.workers {
            let _ = worker.process.kill();
            let _ = worker.process.wait();
        }
    }
}

fn listen(index: usize, output: ChildStdout, report: &Sender<(usize, Event)>) {
    for line in BufReader::new(output).lines().map_while(std::result::Result::ok) {
        let events = match line.split_once(' ') {
            Some(("name", name)) => Event::Named(name.into()),
            Some(("owned", _)) => Event::Owned,
            Some(("returned", count)) => Event::Returned(count.parse().unwrap_or(0)),
            _ => continue,
        };
        if report.send((index, events)).is_err() {
            return;
        }
    }
    let _ = report.send((index, Event::Gone));
}
