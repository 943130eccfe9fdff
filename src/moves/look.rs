//! Looking: one task's entry, and the leases that stand.

use crate::desk::{AT_ONCE, Home, with_board};
use crate::moves::session;
use crate::payload::{UUID, Uuid};
use crate::statement::statement;
use board::Slot;
use pgrx::pg_sys::{self, Datum};

statement!(ENTRY, "entry", [UUID]);

/// The entry of a task, shown to `show` while it lives; `None`: there is no such task.
pub fn entry<T>(home: &Home, id: Uuid, show: impl FnOnce(Datum) -> T) -> Option<T> {
    let session = session(home);
    session.run(&ENTRY, &[Some(id.datum())]).first().map(show)
}

/// The leases of this database that stand, all or one task's.
pub fn leases(home: &Home, task: Option<Uuid>) -> Vec<Slot> {
    let Some(house) = with_board(|board| home.find(board)) else {
        return Vec::new();
    };
    if let Some(id) = task {
        let lease = with_board(|board| board.peek(house, id.0).filter(|it| stands(it)).copied());
        return lease.into_iter().collect();
    }
    let (mut leases, mut from) = (Vec::new(), 0);
    loop {
        leases.reserve(AT_ONCE);
        let places = with_board(|board| {
            let places = board.places();
            let some = from..places.min(from + AT_ONCE as u32);
            leases.extend(some.filter_map(|at| board.slot_at(at, house)).filter(|it| stands(it)));
            places
        });
        from += AT_ONCE as u32;
        if from >= places {
            return leases;
        }
        pgrx::check_for_interrupts!();
    }
}

/// Whether this transaction should see the lease: its own changes count, others' once committed.
fn stands(slot: &Slot) -> bool {
    // SAFETY: reads this process's id.
    slot.is_held_for(unsafe { pg_sys::MyProcPid })
}
