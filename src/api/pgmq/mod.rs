//! The functions behind those of the schema `pgmq`, and those that make and drop it.

mod messages;
mod queues;
mod topics;
