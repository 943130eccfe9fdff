//! What the scheduler does with rows whose time has come, and callers where none runs.

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
