//! What differs between the major versions of PostgreSQL, and nothing else: code elsewhere is the
//! same for all of them.

pub mod catalog;
pub mod query;
pub mod search_path;
pub mod server;
pub mod waiting;

// Before a version is added here, look up in its sources and release notes:
// * the number of AddinShmemInitLock, in `server`: lwlocknames.h, from 17 on lwlocklist.h.
// * what a table can have that makes a write past the executor wrong: `storage::writers` names
//   what it refuses.
#[cfg(not(any(
    feature = "pg14",
    feature = "pg15",
    feature = "pg16",
    feature = "pg17",
    feature = "pg18"
)))]
compile_error!("scylla is not known to work with this PostgreSQL: see src/pg/compat");
