//! The tasks that a filter takes: a page of them, or all.

pub mod act;
pub mod filter;
pub mod list;
