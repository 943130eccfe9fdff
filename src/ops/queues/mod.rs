//! Queues: their settings.

pub mod configure;
pub mod drop;
pub mod max_tries;
