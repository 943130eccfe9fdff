//! The queues of the schema `pgmq`. A message is a task whose id tells its number and its queue:
//! the number is the task's time of submission in microseconds, which no other task has.

pub mod finish;
pub mod import;
pub mod look;
pub mod queues;
pub mod read;
pub mod send;
pub mod set_vt;
pub mod topics;

/// The action of all messages.
pub const ACTION: &[u8] = b"pgmq";

/// The worker of all that read messages.
pub const WORKER: &[u8] = b"pgmq";
