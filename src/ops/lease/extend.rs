//! Heartbeats: a lease's deadline moves; no row is written, and no rollback takes it back.

use crate::guc;
use crate::pg::time;
use crate::pg::uuid::{Uuid, seal};
use crate::shmem::database::Home;
use crate::shmem::segment;
use crate::shmem::xact::AT_ONCE;
use board::{Claim, Held, Seal};
use pgrx::pg_sys;

/// Moves the deadlines of leases to now + `length` (microseconds; `None`: each one's own). True
/// for each whose token holds.
pub fn extend(
    home: &Home,
    leases: &[(Uuid, Uuid)],
    length: Option<i64>,
    progress: Option<f64>,
) -> Vec<bool> {
    let sealed: Vec<(Uuid, Seal)> = leases.iter().map(|(id, token)| (*id, seal(*token))).collect();
    let mut held = vec![Held::Busy; sealed.len()];
    loop {
        let claim = Claim {
            worker: &[],
            // SAFETY: reads this process's id.
            holder: unsafe { pg_sys::MyProcPid },
            now: time::now(),
            length,
            fallback: guc::lease_timeout(),
        };
        for (some, held) in sealed.chunks(AT_ONCE).zip(held.chunks_mut(AT_ONCE)) {
            let woken = home.on_board(|board, house| {
                for ((id, seal), held) in some.iter().zip(held.iter_mut()) {
                    if *held == Held::Busy {
                        *held = board.extend(house, id.0, seal, &claim, progress);
                    }
                }
                board.wants_clock(house).then_some(house)
            });
            woken.into_iter().for_each(segment::wake_clock);
        }
        if !held.contains(&Held::Busy) {
            return held.into_iter().map(|held| held == Held::Yes).collect();
        }
        segment::wait();
    }
}
