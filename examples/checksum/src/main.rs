//! The main job of scylla on real input: the SHA-256 of every file below a folder, computed by
//! worker processes, of which one is killed in the middle.

mod checksum;
mod connect;
mod crew;
mod error;
mod files;
mod job;
mod progress;
mod report;
mod work;
mod worker;

use std::{path::PathBuf, process::ExitCode};

use clap::Parser;
use work::Shift;

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

fn main() -> ExitCode {
    let result = match Command::parse() {
        Command::Run { files, workers, shift } => job::run(&files, workers, shift),
        Command::Worker { shift } => worker::run(shift),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("demo: {}", error::describe(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}
