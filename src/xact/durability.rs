//! Commits that wait neither for the disk nor for a standby, and when they have become as durable
//! as `synchronous_commit` asks for.

use crate::pg::compat::server;
use crate::pg::settings;
use pgrx::pg_sys::{self, SyncCommitLevel, XLogRecPtr};
use std::ptr;

/// How durable commits of this process are to be: the value of `synchronous_commit`.
pub fn wanted_level() -> i32 {
    // SAFETY: a setting of this process.
    unsafe { pg_sys::synchronous_commit }
}

/// Has the commit of this transaction wait for the local disk at most, or for nothing.
pub fn wait_for_disk_only(flushes: bool) {
    settings::set_local(c"synchronous_commit", if flushes { c"local" } else { c"off" });
}

/// The end of the last commit of this process in the write-ahead log.
pub fn last_commit() -> XLogRecPtr {
    // SAFETY: a number of this process.
    unsafe { pg_sys::XactLastCommitEnd }
}

/// Waits until the write-ahead log is on the local disk up to here.
pub fn flush(to: XLogRecPtr) {
    // SAFETY: outside of any lock.
    unsafe { pg_sys::XLogFlush(to) };
}

/// Whether a commit with this end is as durable as the level asks for: on the local disk, and with
/// the synchronous standbys, if there are to be any.
pub fn is_durable(end: XLogRecPtr, level: i32) -> bool {
    if level == SyncCommitLevel::SYNCHRONOUS_COMMIT_OFF as i32 {
        return true;
    }
    server::flushed() >= end && standbys_have(end, level)
}

/// Which of the positions that standbys have confirmed a commit of this level waits for, as
/// `SyncRepWaitForLSN` has it; `None`: it waits for none.
fn confirmed_at(level: i32) -> Option<usize> {
    const REMOTE_WRITE: i32 = SyncCommitLevel::SYNCHRONOUS_COMMIT_REMOTE_WRITE as i32;
    const REMOTE_FLUSH: i32 = SyncCommitLevel::SYNCHRONOUS_COMMIT_REMOTE_FLUSH as i32;
    const REMOTE_APPLY: i32 = SyncCommitLevel::SYNCHRONOUS_COMMIT_REMOTE_APPLY as i32;
    match level {
        REMOTE_WRITE => Some(0),
        REMOTE_FLUSH => Some(1),
        REMOTE_APPLY => Some(2),
        _ => None,
    }
}

fn standbys_have(end: XLogRecPtr, level: i32) -> bool {
    // SAFETY: settings of this process; a list of names ends with a zero.
    let are_asked = unsafe {
        let names = pg_sys::SyncRepStandbyNames;
        pg_sys::max_wal_senders > 0 && !names.is_null() && *names != 0
    };
    let Some(at) = confirmed_at(level).filter(|_| are_asked) else { return true };
    // SAFETY: one aligned number in shared memory, which only grows; seen late it is asked for
    // again.
    unsafe { ptr::read_volatile(&raw const (*pg_sys::WalSndCtl).lsn[at]) >= end }
}
