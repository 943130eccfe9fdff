//! What is known of a database at one time, for all viewers.

use std::collections::VecDeque;
use std::sync::Arc;

/// How far a plot goes back, and how many points it has.
pub const HISTORY_SECONDS: u64 = 3600;
pub const POINTS: usize = 120;

#[derive(Clone, Default)]
pub struct Snapshot {
    /// Why there is no newer one.
    pub error: Option<String>,
    pub health: Option<Health>,
    pub queues: Vec<Queue>,
    pub workers: Vec<Worker>,
}

#[derive(Clone)]
pub struct Health {
    pub version: String,
    pub open: Option<bool>,
    pub scheduler: Option<i32>,
    pub overdue: Option<f64>,
    pub board_size: i32,
    pub board_used: i32,
    pub xmin_age: Option<i64>,
    pub xmin_holder: Option<String>,
}

/// 50, 95 and 99 of a hundred took less than these seconds.
pub type Percentiles = Option<[f64; 3]>;

#[derive(Clone)]
pub struct Queue {
    pub name: String,
    /// `None`: the server is still counting.
    pub waiting: Option<i64>,
    pub ready: Option<i64>,
    pub running: Option<i64>,
    /// How long the oldest ready task has waited, in seconds.
    pub oldest: Option<f64>,
    pub paused: bool,
    pub critical: bool,
    pub max_running: Option<i64>,
    pub max_ready: Option<i64>,
    /// Submitted, settled and aborted a second.
    pub rates: [f64; 3],
    pub waited: Percentiles,
    pub ran: Percentiles,
    pub workers: i64,
    pub history: Arc<VecDeque<Point>>,
}

#[derive(Clone, Copy, Default)]
pub struct Point {
    pub ready: f64,
    pub submitted: f64,
    pub settled: f64,
    pub aborted: f64,
}

#[derive(Clone)]
pub struct Worker {
    pub name: String,
    pub queue: Option<String>,
    pub running: i64,
    /// Times as PostgreSQL writes them in UTC.
    pub last_seen: Option<String>,
    pub next_deadline: Option<String>,
    /// JSON.
    pub meta: String,
    pub draining: bool,
}

/// Percentiles of a histogram in steps of powers of two, the first up to 1 ms: the upper ends of
/// the steps they are in.
pub fn percentiles(counts: &[i64]) -> Percentiles {
    let all: i64 = counts.iter().sum();
    if all <= 0 {
        return None;
    }
    let at = |part: f64| {
        let wanted = (all as f64 * part).ceil() as i64;
        let mut sum = 0;
        let step = counts.iter().position(|count| {
            sum += count;
            sum >= wanted
        });
        2f64.powi(step.unwrap_or(counts.len()) as i32) / 1000.0
    };
    Some([at(0.5), at(0.95), at(0.99)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_ends_of_their_steps() {
        assert_eq!(percentiles(&[]), None);
        assert_eq!(percentiles(&[0, 0]), None);
        assert_eq!(percentiles(&[1]), Some([0.001; 3]));
        assert_eq!(percentiles(&[50, 45, 4, 1]), Some([0.001, 0.002, 0.004]));
    }
}
