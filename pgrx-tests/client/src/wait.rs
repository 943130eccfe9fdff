//! Durations, and waiting for a condition.

use std::time::{Duration, Instant};

pub const fn milliseconds(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub fn sleep(time: Duration) {
    std::thread::sleep(time);
}

/// Polls every few milliseconds until there is an answer. Panics after `limit`.
#[track_caller]
pub fn eventually<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(answer) = look() {
            return answer;
        }
        assert!(started.elapsed() < limit, "not within {limit:?}: {what}");
        sleep(milliseconds(5));
    }
}
