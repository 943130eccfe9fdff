//! The extension's arithmetic of time, which needs no PostgreSQL either: its own tests run here.

#[path = "../../../src/recurrence.rs"]
mod recurrence;
