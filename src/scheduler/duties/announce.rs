//! Wake-ups and notifications, after all other duties (I11).

use crate::error;
use crate::guc;
use crate::ops::maintenance::notify;
use crate::pg::time;
use crate::scheduler::process::{Commit, attempt};
use crate::shmem::segment::with_board;
use board::{Micros, Monotonic, NotifyRound};
use std::cell::Cell;

/// How often, at most, a failure to announce is logged.
const WARNING_INTERVAL: Micros = Micros::from_secs(60);

thread_local! {
    static NEXT_WARNING: Cell<Monotonic> = const { Cell::new(Monotonic::MIN) };
}

/// Wakes waiting processes, and announces which queues got tasks and which tasks settled, if it is
/// time. An error costs the announcements and nothing else (I11).
pub fn announce(entry: u32) {
    const WHAT: &str = "send notifications";
    notify::go_on_waking(entry);
    let now = time::monotonic();
    let interval = guc::notify_interval();
    let round = with_board(|board| board.begin_round(entry, now, interval));
    let Some(NotifyRound { lanes, queues, unsent }) = round else { return };
    notify::wake_in_round(entry, lanes);
    if unsent
        && let Err(message) = attempt(WHAT, Commit::Ahead, || notify::announce(entry, queues))
        && NEXT_WARNING.get() <= now
    {
        NEXT_WARNING.set(now + WARNING_INTERVAL);
        error::log_failure(WHAT, &message);
        // What fails here is tried again with the next warning.
        let _ = attempt("make room for notifications", Commit::Ahead, notify::make_room);
    }
}
