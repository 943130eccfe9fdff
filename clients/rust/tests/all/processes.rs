//! Workers in processes of their own: `tests/program.rs`.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use crate::server::{Server, folder, kill, until};

pub struct Program {
    process: Child,
    log: PathBuf,
}

impl Program {
    pub async fn start(server: &Server, queue: &str, options: &[&str]) -> Self {
        let log = folder("log");
        let process = Command::new(example("program"))
            .arg(server.url())
            .arg(queue)
            .arg(&log)
            .args(options)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let program = Self { process, log };
        program.says("name").await;
        program
    }

    pub fn pid(&self) -> i32 {
        self.process.id() as i32
    }

    pub fn signal(&self, signal: &str) {
        kill(self.pid(), signal);
    }

    pub fn lines(&self) -> Vec<String> {
        fs::read_to_string(&self.log).unwrap_or_default().lines().map(Into::into).collect()
    }

    pub fn said(&self, words: &str) -> usize {
        self.lines().iter().filter(|line| line.starts_with(words)).count()
    }

    pub async fn says(&self, words: &str) -> String {
        self.says_times(words, 1).await
    }

    /// Waits until it has said something so many times; the last line.
    pub async fn says_times(&self, words: &str, times: usize) -> String {
        until(words, async || {
            let lines = self.lines();
            let mut said = lines.iter().filter(|line| line.starts_with(words));
            said.nth(times - 1).cloned()
        })
        .await
    }

    pub async fn name(&self) -> String {
        self.says("name").await.trim_start_matches("name ").into()
    }

    /// Waits until it has ended; its exit status, and what it said last.
    pub async fn ended(&mut self) -> (Option<i32>, String) {
        let status = until("the process ends", async || self.process.try_wait().unwrap()).await;
        (status.code(), self.lines().pop().unwrap_or_default())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What cargo has built of an example.
pub fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().join("examples").join(name)
}
