//! Cancelling: the row is locked first, then moved; its slot goes at the commit (I3).

use crate::desk::{self, AT_ONCE, Change, Home, with_board};
use crate::moves::settle::{Ending, settle};
use crate::moves::{Place, id_at, ids, session, settled};
use crate::payload::{self, UUIDS, Uuid};
use crate::statement::statement;
use crate::task::CANCELLED;
use std::collections::HashSet;

statement!(LOCK, "lock", [UUIDS]);

/// Cancels tasks. For each: whether it was live; `None` when there is no such task.
pub fn cancel(home: &Home, wanted: &[Uuid]) -> Vec<Option<bool>> {
    let session = session(home);
    let rows = session.run(&LOCK, &[ids(wanted.iter().copied())]);
    let live: Vec<Uuid> = (0..rows.len()).map(|row| id_at(&rows, row, 0)).collect();
    desk::promise(
        home,
        live.iter().enumerate().map(|(row, id)| match payload::number(rows.get(row, 6)) {
            0 => Change::Gone(id.0),
            _ => Change::Cancel(Place::at(&rows, row, 1, *id).offer()),
        }),
    );
    let mut endings: Vec<Ending> = Vec::with_capacity(live.len());
    for some in live.chunks(AT_ONCE) {
        // The lease as it is while the row is locked, for the history.
        with_board(|board| {
            let house = home.find(board);
            let lease = |id: &Uuid| board.peek(house?, id.0).filter(|slot| slot.is_held()).copied();
            endings.extend(some.iter().map(|id| Ending {
                id: *id,
                lease: lease(id),
                result: None,
                error: None,
            }));
        });
    }
    let cancelled: HashSet<Uuid> = if endings.is_empty() {
        HashSet::new()
    } else {
        settle(&session, CANCELLED, &endings).into_iter().map(|ended| ended.id).collect()
    };
    let others = wanted.iter().copied().filter(|id| !cancelled.contains(id));
    let settled: HashSet<Uuid> = match others.clone().next() {
        None => HashSet::new(),
        Some(_) => settled(&session, others).into_iter().map(|(id, _)| id).collect(),
    };
    let mut seen = HashSet::new();
    let answer = |id: &Uuid| match cancelled.contains(id) {
        true => Some(seen.insert(*id)),
        false => settled.contains(id).then_some(false),
    };
    wanted.iter().map(answer).collect()
}
