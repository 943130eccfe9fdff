//! PostgreSQL's locks on databases and relations.

use pgrx::pg_sys;

/// Takes PostgreSQL's lock on a database for this transaction, unless that takes waiting.
/// `InvalidOid` is the lock of all notifications.
pub fn try_lock_database(database: pg_sys::Oid, mode: u32) -> bool {
    let tag = pg_sys::LOCKTAG {
        locktag_field1: 0,
        locktag_field2: pg_sys::DatabaseRelationId.to_u32(),
        locktag_field3: database.to_u32(),
        locktag_field4: 0,
        locktag_type: pg_sys::LockTagType::LOCKTAG_OBJECT as u8,
        locktag_lockmethodid: pg_sys::DEFAULT_LOCKMETHOD as u8,
    };
    // SAFETY: a lock of the transaction, which its end releases.
    let got = unsafe { pg_sys::LockAcquire(&tag, mode as i32, false, true) };
    got != pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL
}

/// Takes a lock on a relation for this transaction, unless that takes waiting.
pub fn try_relation(relation: pg_sys::Oid, mode: u32) -> bool {
    // SAFETY: a lock of the transaction, which its end releases; the relation need not exist.
    unsafe { pg_sys::ConditionalLockRelationOid(relation, mode as i32) }
}

/// Takes the lock of a reader on a relation, which need not exist, for this transaction.
pub fn share(relation: pg_sys::Oid) {
    // SAFETY: a lock of the transaction, which its end releases.
    unsafe { pg_sys::LockRelationOid(relation, pg_sys::AccessShareLock as i32) };
}

/// A lock on a relation that one process has at a time. It keeps no other from reading or writing.
pub struct Locked(pg_sys::Oid);

impl Locked {
    const MODE: i32 = pg_sys::ShareUpdateExclusiveLock as i32;

    /// Waits for the lock, which ends with this value, or with the transaction after an error.
    pub fn alone(relation: pg_sys::Oid) -> Locked {
        // SAFETY: a lock of the transaction, on a relation that need not exist.
        unsafe { pg_sys::LockRelationOid(relation, Locked::MODE) };
        Locked(relation)
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // SAFETY: while a panic unwinds, the transaction is about to end, with all its locks.
        if !std::thread::panicking() {
            unsafe { pg_sys::UnlockRelationOid(self.0, Locked::MODE) };
        }
    }
}
