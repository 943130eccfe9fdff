//! Looking at tasks, and waiting for them.

pub mod inspect;
pub mod owned;
pub mod wait;
