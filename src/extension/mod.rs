//! This database's creation of the extension: its entry on the board, and what belongs to it.

pub mod database;
pub mod members;
