//! What clients saw, and whether it agrees with what is promised and with the tables.

pub mod checker;
#[cfg(test)]
mod judged;
pub mod log;
pub mod tail;
mod together;
