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

/// How long a test waits for what takes `quiet` on a machine that has nothing else to do. A busy
/// one, or one with a slow disk, needs less than this; what never happens takes longer.
pub const fn patience(quiet: Duration) -> Duration {
    Duration::from_secs(30 + 5 * quiet.as_secs())
}

/// A process that waits in the server looks again after 5 s, woken or not.
pub const BACKSTOP: Duration = milliseconds(4_500);

/// Runs what must not take as long as the backstop of a wait that is not woken.
#[track_caller]
pub fn promptly<T>(wait: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let answer = wait();
    assert!(started.elapsed() < BACKSTOP, "took {:?}", started.elapsed());
    answer
}

/// Polls every few milliseconds until there is an answer. Panics when it has not come with all
/// patience for what takes `quiet`.
#[track_caller]
pub fn eventually<T>(quiet: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let (started, limit) = (Instant::now(), patience(quiet));
    loop {
        if let Some(answer) = look() {
            return answer;
        }
        assert!(started.elapsed() < limit, "not within {limit:?}: {what}");
        sleep(milliseconds(5));
    }
}
