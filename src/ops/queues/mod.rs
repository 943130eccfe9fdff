//! Queues: their settings.

pub mod configure;
