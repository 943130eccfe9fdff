//! Every error: SQLSTATE, message, detail and hint, in PostgreSQL's error style.

mod argument;
mod context;
mod report;
mod schedule;
mod task;

pub use argument::*;
pub use context::*;
pub use report::{Error, Result, unwrap_or_raise};
pub use schedule::*;
pub use task::*;
