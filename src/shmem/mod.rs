//! Shared memory: the segment that holds the board and its one lock, which process schedules which
//! database, and the processes that run SQL commands.

pub mod schedulers;
pub mod segment;
pub mod sql_record;
