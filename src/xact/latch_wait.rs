//! Waiting in the server for an event on the board, without holding a snapshot.

use crate::pg::compat::waiting::{HANG_UP, has_hung_up, wait_event};
use crate::pg::process;
use crate::pg::time;
use crate::xact::waiter::end_wait;
use board::{Micros, Monotonic};
use pgrx::pg_sys;

/// The longest sleep before checking again. A backstop; on a standby, where no process wakes
/// another, it is how changes are noticed.
const RECHECK_INTERVAL: Micros = Micros::from_secs(5);
const STANDBY_RECHECK_INTERVAL: Micros = Micros::from_secs(1);

/// Calls `look` until it answers, or until `until`. `look` queues this backend as a waiter before
/// it checks, so it cannot miss an event in between. The process sleeps in a transaction that has
/// neither a snapshot nor locks: to be called by a procedure that may end its transaction.
pub fn poll_until<T>(until: Monotonic, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    // SAFETY: the caller's SPI session is not atomic.
    let lay_down = || unsafe { pg_sys::SPI_commit() };
    lay_down();
    loop {
        let found = look();
        lay_down();
        let left = until - time::monotonic();
        if found.is_some() || left <= Micros::ZERO {
            end_wait(None);
            return found;
        }
        let must_poll = process::is_in_recovery() || HANG_UP == 0;
        sleep_on_latch(left.min(if must_poll {
            STANDBY_RECHECK_INTERVAL
        } else {
            RECHECK_INTERVAL
        }));
    }
}

/// Sleeps until the latch is set, the client is gone, or `most` has passed.
pub fn sleep_on_latch(most: Micros) {
    // SAFETY: waits on this process's latch and on its client's socket, if there is one; the
    // postmaster's death ends the process. Interrupts are handled at the end.
    unsafe {
        let port = pg_sys::MyProcPort;
        // The socket is the first field of a Port.
        let (hang_up, socket) =
            if port.is_null() { (0, -1) } else { (HANG_UP, *port.cast::<i32>()) };
        let events = pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH;
        let happened = pg_sys::WaitLatchOrSocket(
            pg_sys::MyLatch,
            (events | hang_up) as i32,
            socket,
            most.millis_up(),
            wait_event(),
        );
        pg_sys::ResetLatch(pg_sys::MyLatch);
        // The transaction began before the sleep: the extension may have been dropped since.
        pg_sys::AcceptInvalidationMessages();
        if happened as u32 & hang_up != 0 || has_hung_up(socket) {
            pg_sys::ClientConnectionLost = 1;
            pg_sys::InterruptPending = 1;
        }
    }
    pgrx::check_for_interrupts!();
}
