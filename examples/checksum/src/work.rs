//! What the job and its workers agree on.

use clap::Args;

/// The queue that all the tasks go through.
pub const QUEUE: &str = "files";
/// What to do with a task of that queue.
pub const ACTION: &str = "sha256";

/// How a worker takes its tasks.
#[derive(Args, Clone, Copy)]
pub struct Shift {
    /// How many tasks a worker owns at once
    #[arg(long, value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(i32).range(1..=10_000))]
    pub batch: i32,
    /// How long a lease lasts
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0, value_parser = seconds)]
    pub lease: f64,
}

fn seconds(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(value) if (0.1..=3600.0).contains(&value) => Ok(value),
        _ => Err("a number of seconds from 0.1 to 3600".into()),
    }
}
