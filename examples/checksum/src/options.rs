//! Settings shared by all parts of the job: the queue, the action, and how a worker leases tasks.

use clap::Args;

pub type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// The queue of all the tasks.
pub const QUEUE: &str = "files";
/// The action of these tasks.
pub const ACTION: &str = "sha256";

/// How many tasks a worker leases, and for how long.
#[derive(Args, Clone, Copy)]
pub struct LeaseOptions {
    /// How many tasks a worker owns at once
    #[arg(long, value_name = "N", default_value_t = 20,
          value_parser = batch)]
    pub batch: usize,
    /// How long a lease lasts
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0, value_parser = seconds)]
    pub lease: f64,
}

fn batch(text: &str) -> std::result::Result<usize, String> {
    match text.parse() {
        Ok(value) if (1..=10_000).contains(&value) => Ok(value),
        _ => Err("a number from 1 to 10000".into()),
    }
}

fn seconds(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(value) if (0.1..=3600.0).contains(&value) => Ok(value),
        _ => Err("a number of seconds from 0.1 to 3600".into()),
    }
}
