//! Every error: SQLSTATE, message, detail and hint, in PostgreSQL's error style.

mod argument;
mod context;
mod message;
mod privileges;
mod queue;
mod repeated;
mod report;
mod schedule;
mod sql;
mod task;

pub use argument::*;
pub use context::*;
pub use message::*;
pub use privileges::*;
pub use queue::*;
pub use report::{Error, Result, unwrap_or_raise};
pub use schedule::*;
pub use sql::*;
pub use task::*;
