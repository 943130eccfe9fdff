//! What the scheduler of a database does besides firing and SQL commands, each duty in transactions
//! of its own. `serve` says when.

pub mod announce;
pub mod countdowns;
pub mod lanes;
pub mod leases;
pub mod order;
pub mod retention;
pub mod stats;
