//! The ways in which a task, or an ownership, ends.

pub mod begin;
pub mod cancel;
pub mod delete;
pub mod retry;
pub mod return_tasks;
