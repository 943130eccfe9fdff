//! Until when waiting tasks fire.

use crate::guc;
use board::Wall;

/// Whether a task that is not to run before `run_at` must wait at the time `now`.
pub fn is_ahead(run_at: Wall, now: Wall) -> bool {
    run_at > horizon(now)
}

/// Until when tasks fire now.
pub fn horizon(now: Wall) -> Wall {
    now + guc::timing_advance()
}
