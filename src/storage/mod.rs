//! Rows: finding, writing and linking them, below any policy.

pub mod columns;
pub mod edges;
pub mod ending;
pub mod lookup;
pub mod move_rows;
pub mod privileges;
pub mod queue_counts;
pub mod rows;
pub mod run_counts;
pub mod settle;
pub mod writers;
