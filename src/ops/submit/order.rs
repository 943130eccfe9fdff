//! Order: in a queue with `max_running_per_group` 1 each task that is ready is behind others of its
//! group, until the scheduler brings it forward.

use crate::ops::submit::draft::Entry;
use crate::pg::datum::{self, TEXTS};
use crate::pg::spi::{Session, statement};
use crate::shmem::database::Database;
use crate::shmem::segment::AT_ONCE;
use crate::shmem::segment::with_board;
use board::BuildState;
use std::collections::HashSet;

statement!(QUEUES_IN_ORDER, "submit/queues_in_order", [TEXTS]);

/// Notes which tasks are of queues that keep the order: as the board knows them, or before it is
/// built as the table does. What a queue is told after that is put right by the commit, or by the
/// look at all groups that follows a change of the setting.
pub fn look_up(db: &Database, session: &Session, entries: &mut [Entry]) {
    for some in entries.chunks_mut(AT_ONCE) {
        let is_built = with_board(|board| {
            let built = |entry: &u32| board.entry(*entry).build_state == BuildState::Built;
            let Some(entry) = db.find(board).filter(built) else { return false };
            for it in &mut *some {
                it.keeps_order = board.keeps_order_named(entry, &it.draft.queue);
            }
            true
        });
        if !is_built {
            look_up_in_table(session, some);
        }
    }
}

fn look_up_in_table(session: &Session, entries: &mut [Entry]) {
    let named: HashSet<&[u8]> = entries.iter().map(|it| &*it.draft.queue).collect();
    let names = named.into_iter().map(|queue| Some(datum::varlena(queue)));
    let rows = session.run(&QUEUES_IN_ORDER, &[Some(datum::array(TEXTS, names))]);
    let found: HashSet<Vec<u8>> =
        (0..rows.len()).map(|row| datum::text(rows.get(row, 0))).collect();
    for it in entries {
        it.keeps_order = found.contains(&*it.draft.queue);
    }
}
