//! PostgreSQL's interfaces, wrapped thinly: values, time, and statements.

pub mod datum;
pub mod jsonb;
pub mod spi;
pub mod time;
pub mod uuid;
