//! Every error: SQLSTATE, message, detail and hint, in PostgreSQL's error style.

mod access;
mod argument;
mod context;
mod message;
mod queue;
mod repeated;
mod report;
mod schedule;
mod sql;
mod task;

pub use access::*;
pub use argument::*;
pub use context::*;
pub use message::*;
pub use queue::*;
pub use report::{Error, Result, unwrap_or_raise};
pub use schedule::*;
pub use sql::*;
pub use task::*;
