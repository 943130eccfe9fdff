//! A naive board beside the real one, and the table behind both: plain maps, linear scans.
//!
//! `World::apply` does an operation on both and panics as soon as they differ.

#![allow(dead_code, reason = "not every test uses every operation")]

pub mod cards;
pub mod check;
pub mod drain;
pub mod limits;
pub mod operations;
pub mod rebuilds;
pub mod refills;
pub mod sequence;
pub mod transactions;
pub mod workers;
pub mod world;
