//! What a caller does for the clock while there is none: owning and returning go on.

use crate::desk::{Home, with_board};
use crate::moves::{follow, reclaim, refill};
use pgrx::pg_sys;

/// Ends leases whose deadline has passed, a batch at the most: their tasks are ready once the caller's
/// transaction commits. Counts down what was put off, and surveys the tables if somebody asked for it.
pub fn attend(home: &Home, house: u32) {
    // SAFETY: reads this backend's transaction state.
    let (writes, may_fail) = unsafe {
        let writes = pg_sys::GetTopTransactionIdIfAny() != pg_sys::InvalidTransactionId;
        (writes, pg_sys::XactIsoLevel >= pg_sys::XACT_REPEATABLE_READ as i32)
    };
    // What this transaction alone knows is nobody else's yet.
    if !writes && with_board(|board| std::mem::take(&mut board.house_mut(house).refresh)) {
        refill::survey(home, house);
    }
    // A snapshot from before would refuse rows that somebody changed since.
    if !may_fail {
        if with_board(|board| std::mem::take(&mut board.house_mut(house).put_off))
            && follow::take_up(home, reclaim::BATCH).0 > 0
        {
            // There may be more; and what a rollback takes back is to be taken up again.
            with_board(|board| board.house_mut(house).put_off = true);
        }
        let mut due = reclaim::take_due(home, house, reclaim::BATCH);
        if !due.is_empty() {
            reclaim::reclaim(home, &mut due);
        }
    }
}
