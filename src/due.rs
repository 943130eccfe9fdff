//! Until when waiting tasks fire.

use crate::guc;

/// Whether a task that is not to run before `run_at` must wait at the time `now`.
pub fn is_ahead(run_at: i64, now: i64) -> bool {
    run_at > horizon(now)
}

/// Until when tasks fire now.
pub fn horizon(now: i64) -> i64 {
    now.saturating_add(guc::timing_advance())
}
