//! An example of the client in Rust, on real input: worker processes compute the SHA-256 of every
//! file below a folder. One of them is killed in the middle.

mod checksum;
mod connect;
mod files;
mod job;
mod options;
mod progress;
mod report;
mod worker;
mod worker_pool;

use std::{path::PathBuf, process::ExitCode};

use clap::Parser;

use options::LeaseOptions;

#[derive(Parser)]
#[command(about, disable_help_subcommand = true)]
enum Command {
    /// Submit one task for every file, start the workers, kill one, look at what became of the
    /// tasks
    Run {
        /// The folder whose files are the work
        #[arg(long, value_name = "DIR", default_value = "/usr/share")]
        files: PathBuf,
        /// How many worker processes
        #[arg(long, value_name = "N", default_value_t = 4,
              value_parser = clap::value_parser!(u16).range(2..=64))]
        workers: u16,
        #[command(flatten)]
        options: LeaseOptions,
    },
    /// The worker process, which runs until its standard input ends
    Worker {
        #[command(flatten)]
        options: LeaseOptions,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    let result = match Command::parse() {
        Command::Run { files, workers, options } => job::run(&files, workers, options).await,
        Command::Worker { options } => worker::run(options).await,
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("checksum: {}", connect::describe(&*error));
            ExitCode::FAILURE
        }
    }
}
