//! Dependencies between tasks: adding them, and counting them down.

pub mod add;
pub mod count_down;
pub mod graph;
