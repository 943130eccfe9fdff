//! Looking at tasks, and waiting for them.

pub mod health;
pub mod inspect;
pub mod live_paths;
pub mod owned;
pub mod runs;
pub mod unserved;
pub mod wait;
