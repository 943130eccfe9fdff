//! Waiting on a latch: for a client that hangs up, and how the wait is named.

use pgrx::pg_sys;

/// The event of a wait that a closed connection ends; 0: no such event, and the wait has to end
/// often enough to ask `has_hung_up`.
#[cfg(not(feature = "pg14"))]
pub const HANG_UP: u32 = pg_sys::WL_SOCKET_CLOSED;
/// The event of a wait that a closed connection ends; 0: no such event, and the wait has to end
/// often enough to ask `has_hung_up`.
#[cfg(feature = "pg14")]
pub const HANG_UP: u32 = 0;

/// Whether the client has closed its connection, where no wait tells.
pub fn has_hung_up(socket: i32) -> bool {
    if HANG_UP != 0 {
        return false;
    }
    let mut look = libc::pollfd { fd: socket, events: libc::POLLRDHUP, revents: 0 };
    // SAFETY: one socket, or -1, which is passed over; does not wait.
    unsafe { libc::poll(&mut look, 1, 0) > 0 }
}

/// What `pg_stat_activity` shows: from 17 on the extension's own name.
#[cfg(any(feature = "pg17", feature = "pg18"))]
pub fn wait_event() -> u32 {
    thread_local! {
        static EVENT: std::cell::OnceCell<u32> = const { std::cell::OnceCell::new() };
    }
    // SAFETY: a name that ends with a zero; the same one has the same number in all processes.
    let new = || unsafe { pg_sys::WaitEventExtensionNew(c"ScyllaWait".as_ptr()) };
    EVENT.with(|event| *event.get_or_init(new))
}

/// What `pg_stat_activity` shows: from 17 on the extension's own name.
#[cfg(not(any(feature = "pg17", feature = "pg18")))]
pub fn wait_event() -> u32 {
    pg_sys::PG_WAIT_EXTENSION
}
