//! PostgreSQL's locks on databases.

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
