//! Order: in a queue with `max_running_per_group` 1 each task that is ready is behind others of its
//! group, until the scheduler brings it forward.

use crate::ops::submit::draft::Entry;
use crate::shmem::database::Database;
use crate::shmem::segment::{any_queue_keeps_order, with_board};
use crate::shmem::xact::AT_ONCE;

/// Notes which tasks are of queues that keep the order, as the board knows them. What it learns after
/// that is put right by the commit, or by the look at all groups that follows a change of the setting.
pub fn look_up(db: &Database, entries: &mut [Entry]) {
    if !any_queue_keeps_order() {
        return;
    }
    for some in entries.chunks_mut(AT_ONCE) {
        with_board(|board| {
            let Some(entry) = db.find(board) else { return };
            for it in some {
                it.keeps_order = board.keeps_order_named(entry, &it.draft.queue);
            }
        });
    }
}
