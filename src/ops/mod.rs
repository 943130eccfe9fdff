//! What can happen to a task, by subject. Each operation changes the tables by few statements or
//! none, and the board by the changes that it registers for the end of the transaction.

pub mod dependencies;
pub mod drop_queue;
pub mod due;
pub mod finish;
pub mod lease;
pub mod locking;
pub mod maintenance;
pub mod matching;
pub mod pgmq;
pub mod privileges;
pub mod query;
pub mod queues;
pub mod resubmit;
pub mod schedules;
pub mod sql;
pub mod stats;
pub mod submit;
pub mod supply;
