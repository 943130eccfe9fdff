//! What PostgreSQL knows by name: databases, roles and time zones.

pub mod database;
pub mod role;
pub mod zone;
