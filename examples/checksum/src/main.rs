//! The main job of scylla on real input: the SHA-256 of every file below a folder, computed by
//! worker processes, of which one is killed in the middle.

mod checksum;
mod connect;
mod crew;
mod files;
mod job;
mod report;
mod worker;

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Parser};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The queue that all the tasks go through.
const QUEUE: &str = "files";
/// What to do with a task of that queue.
const ACTION: &str = "sha256";

#[derive(Parser)]
#[command(about, disable_help_subcommand = true)]
enum Command {
    /// Submit one task for every file, start the workers, kill one, look at what became of the tasks
    Run {
        /// The folder whose files are the work
        #[arg(long, value_name = "DIR", default_value = "/usr/share")]
        files: PathBuf,
        /// How many worker processes
        #[arg(long, value_name = "N", default_value_t = 4,
              value_parser = clap::value_parser!(u16).range(2..=64))]
        workers: u16,
        #[command(flatten)]
        shift: Shift,
    },
    /// What each worker process does until its standard input ends
    Worker {
        #[command(flatten)]
        shift: Shift,
    },
}

/// How a worker takes its tasks.
#[derive(Args, Clone, Copy)]
struct Shift {
    /// How many tasks a worker owns at once
    #[arg(long, value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(i32).range(1..=10_000))]
    batch: i32,
    /// How long a lease lasts
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0, value_parser = seconds)]
    lease: f64,
}

fn seconds(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(value) if (0.1..=3600.0).contains(&value) => Ok(value),
        _ => Err("a number of seconds from 0.1 to 3600".into()),
    }
}

fn main() -> ExitCode {
    let result = match Command::parse() {
        Command::Run { files, workers, shift } => job::run(&files, workers, shift),
        Command::Worker { shift } => worker::run(shift),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("demo: {}", connect::describe(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}
