//! Running a command as a client would have it run, and the memory that passes it to the process
//! which does that.

pub mod shared_area;
pub mod simple_query;
