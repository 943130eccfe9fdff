//! Shared memory: the segment that holds the board, this backend's database on it and what belongs
//! to the extension there, what a transaction does to the board when it ends, and waiting for what
//! happens on it.

pub mod database;
pub mod durability;
pub mod latch_wait;
pub mod members;
pub mod on_board;
pub mod schedulers;
pub mod segment;
pub mod sql_slot;
pub mod xact;
