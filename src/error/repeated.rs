//! Failures that come again and again: the log has each from time to time, and how often it came.

use crate::pg::time;
use board::{Micros, Monotonic};
use std::cell::RefCell;
use std::collections::HashMap;

/// How long a failure is not reported again; each further time twice as long.
const LEAST_PAUSE: Micros = Micros::from_secs(60);
const MOST_PAUSE: Micros = Micros::from_secs(3_600);
/// How many kinds of failures are remembered: there are fewer duties.
const KINDS_MAX: usize = 64;

struct Reported {
    pause: Micros,
    next: Monotonic,
    /// How often it came since the last report.
    unreported: u64,
}

thread_local! {
    static REPORTED: RefCell<HashMap<String, Reported>> = RefCell::new(HashMap::new());
}

/// Whether to report a failure of some kind now: how often it came since the last report.
pub fn to_report(kind: &str) -> Option<u64> {
    decide(kind, time::monotonic())
}

fn decide(kind: &str, now: Monotonic) -> Option<u64> {
    REPORTED.with_borrow_mut(|all| {
        if let Some(it) = all.get_mut(kind) {
            if now < it.next {
                it.unreported += 1;
                return None;
            }
            // One that did not come for a while is a new one.
            let is_over = now >= it.next + it.pause;
            it.pause = if is_over { LEAST_PAUSE } else { (it.pause * 2).min(MOST_PAUSE) };
            it.next = now + it.pause;
            return Some(std::mem::take(&mut it.unreported));
        }
        if all.len() >= KINDS_MAX {
            all.retain(|_, it| now < it.next);
        }
        let new = Reported { pause: LEAST_PAUSE, next: now + LEAST_PAUSE, unreported: 0 };
        all.insert(kind.to_owned(), new);
        Some(0)
    })
}
