//! The worker processes, and what they tell.

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

use crate::{error::Result, work::Shift};

pub enum News {
    Named(String),
    Owned,
    Returned(usize),
    /// Its output has ended.
    Gone,
}

pub struct Member {
    process: Child,
    pub name: String,
}

pub struct Crew {
    members: Vec<Member>,
    news: Receiver<(usize, News)>,
}

impl Crew {
    pub fn hire(count: u16, shift: Shift) -> Result<Self> {
        let (tell, news) = mpsc::channel();
        let mut crew = Self { members: vec![], news };
        for index in 0..count.into() {
            let mut process = Command::new(env::current_exe()?)
                .args(["worker", "--batch", &shift.batch.to_string()])
                .args(["--lease", &shift.lease.to_string()])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()?;
            let output = process.stdout.take().ok_or("a worker has no output")?;
            crew.members.push(Member { process, name: String::new() });
            let tell = tell.clone();
            thread::spawn(move || listen(index, output, &tell));
        }
        Ok(crew)
    }

    /// The next news within `patience`, if there is any, and whose it is.
    pub fn next(&mut self, patience: Duration) -> Result<Option<(usize, News)>> {
        match self.news.recv_timeout(patience) {
            Ok((index, News::Named(name))) => {
                self.members[index].name.clone_from(&name);
                Ok(Some((index, News::Named(name))))
            }
            Ok(news) => Ok(Some(news)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err("all the workers have ended".into()),
        }
    }

    pub fn name(&self, index: usize) -> &str {
        &self.members[index].name
    }

    pub fn process_id(&self, index: usize) -> u32 {
        self.members[index].process.id()
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
        self.members[index].process.wait()?;
        Ok(())
    }

    fn signal(&self, index: usize, signal: Signal) -> Result<()> {
        let id = i32::try_from(self.process_id(index))?;
        Ok(kill(Pid::from_raw(id), signal)?)
    }

    /// Lets everybody finish what he is at.
    pub fn dismiss(mut self) -> Result<()> {
        for member in &mut self.members {
            drop(member.process.stdin.take());
        }
        for member in &mut self.members {
            member.process.wait()?;
        }
        Ok(())
    }
}

impl Drop for Crew {
    /// No worker outlives us, however we end.
    fn drop(&mut self) {
        for member in &mut self.members {
            let _ = member.process.kill();
            let _ = member.process.wait();
        }
    }
}

fn listen(index: usize, output: ChildStdout, tell: &Sender<(usize, News)>) {
    for line in BufReader::new(output).lines().map_while(std::result::Result::ok) {
        let news = match line.split_once(' ') {
            Some(("name", name)) => News::Named(name.into()),
            Some(("owned", _)) => News::Owned,
            Some(("returned", count)) => News::Returned(count.parse().unwrap_or(0)),
            _ => continue,
        };
        if tell.send((index, news)).is_err() {
            return;
        }
    }
    let _ = tell.send((index, News::Gone));
}
