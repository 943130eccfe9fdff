//! Leases: owning tasks and keeping them.

pub mod extend;
pub mod hand_out;
pub mod own;
pub mod release_worker;
pub mod reserve;
pub mod worker;
