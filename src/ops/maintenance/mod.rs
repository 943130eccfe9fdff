//! The scheduler's work on rows whose time has come; callers do it where no scheduler runs.

pub mod expire;
pub mod fire;
pub mod notify;
pub mod persist_leases;
pub mod retention;
pub mod worker_indexes;
pub mod workers;

use board::Micros;

/// How long a row is set aside that cannot be written.
pub const QUARANTINE: Micros = Micros::from_secs(60);
