//! Leases: owning tasks and keeping them.

pub mod extend;
pub mod own;
pub mod release_worker;
pub mod worker;
