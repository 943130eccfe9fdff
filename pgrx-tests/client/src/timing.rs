//! Waiting, and measuring time.

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

/// Asks every few milliseconds until there is an answer; panics when `limit` has passed.
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

/// The processor time that a process has used, in ticks of 10 ms.
pub fn processor_time(pid: i32) -> i64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process");
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    fields[11..13].iter().map(|it| it.parse::<i64>().expect("a number")).sum()
}
