//! The SQL functions: check the arguments, call one operation, answer.

mod call;
mod finish;
mod inspect;
mod json;
mod lease;
mod matching;
mod pgmq;
mod privileges;
mod queues;
mod retry;
mod schedules;
mod submit;
mod supply;
mod validate;
mod wait;
