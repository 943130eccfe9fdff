//! Snapshots that are told to other processes.

use pgrx::pg_sys;
use std::slice;

/// The snapshot that was taken last, as long as no other one is taken.
pub struct Latest(pg_sys::Snapshot);

/// A snapshot that is kept until this value is dropped, or the transaction ends by an error.
pub struct Snapshot(pg_sys::Snapshot);

/// Lets `latest` neither allocate nor raise.
pub fn prepare() {
    // SAFETY: inside a transaction. The first one allocates the memory for all.
    unsafe { pg_sys::GetLatestSnapshot() };
}

/// Takes a snapshot, and passes on which transactions it does not see: those from a number on, and
/// the earlier ones that have not ended.
pub fn latest<T>(announce: impl FnOnce(u32, &[u32]) -> T) -> (T, Latest) {
    // SAFETY: inside a transaction. The snapshot is a static one of PostgreSQL's, with an array of
    // `xcnt` numbers; a TransactionId is a u32.
    unsafe {
        let snapshot = pg_sys::GetLatestSnapshot();
        let open = match (*snapshot).xcnt as usize {
            0 => &[][..],
            count => slice::from_raw_parts((*snapshot).xip.cast::<u32>(), count),
        };
        (announce((*snapshot).xmax.into_inner(), open), Latest(snapshot))
    }
}

impl Latest {
    /// Keeps it, for statements.
    pub fn keep(self) -> Snapshot {
        // SAFETY: the latest snapshot; the copy is this value's until it is dropped.
        Snapshot(unsafe { pg_sys::RegisterSnapshot(self.0) })
    }
}

impl Snapshot {
    pub fn as_ptr(&self) -> pg_sys::Snapshot {
        self.0
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        // After an error the end of the transaction does it.
        if !std::thread::panicking() {
            // SAFETY: registered by `keep`.
            unsafe { pg_sys::UnregisterSnapshot(self.0) };
        }
    }
}
