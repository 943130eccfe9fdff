//! The numbers of queues: counting tasks, writing totals, and what the views read.

pub mod oldest;
pub mod queues;
pub mod recount;
pub mod totals;
pub mod workers;
