//! The records in the board's memory, and nothing else. Each is `repr(C)` and plain: all bits zero
//! is a value of it.

pub mod entry;
pub mod header;
pub mod lane;
pub mod names;
pub mod nodes;
pub mod queue;
pub mod rank;
pub mod slot;
pub mod stats;
pub mod waiter;
pub mod worker;
