//! What PostgreSQL knows by name: roles and time zones.

pub mod role;
pub mod zone;
