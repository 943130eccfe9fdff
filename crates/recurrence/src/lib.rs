//! When a schedule runs: the expression, the time zone, and the policies for missed and overlapping
//! runs.
//!
//! No PostgreSQL in here: times come in as arguments, and a [`Zone`] tells the offset of a time
//! zone.
//!
//! * [`Recurrence`]: the expression of a schedule, a [`Cron`] expression or a fixed interval.
//! * [`Series`]: the runs of a schedule, in order: the expression in its zone, between two times.
//! * [`decide`], [`catch_up`]: which of the runs that are due fire, and which are skipped.
#![forbid(unsafe_code)]

mod calendar;
mod cron;
mod fields;
mod policy;
mod series;
mod zone;

#[doc(hidden)]
pub use calendar::{civil, weekday};
pub use cron::Cron;
pub use fields::Invalid;
pub use policy::{CatchUp, Decision, Misfire, Overlap, Pending, catch_up, decide};
pub use series::{Recurrence, Series};
pub use zone::{Utc, Zone};
