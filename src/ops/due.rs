//! When a waiting task is due: `scylla.timing_advance` before its `run_at`.

use crate::guc;
use board::Wall;

/// Whether a task with this `run_at` has to wait at time `now`.
pub fn is_ahead(run_at: Wall, now: Wall) -> bool {
    run_at > horizon(now)
}

/// Tasks whose `run_at` is not later than this are due at time `now`.
pub fn horizon(now: Wall) -> Wall {
    now + guc::timing_advance()
}
