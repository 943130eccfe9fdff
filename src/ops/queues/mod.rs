//! Queues: their settings.

pub mod configure;
pub mod max_tries;
