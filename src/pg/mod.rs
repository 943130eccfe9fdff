//! PostgreSQL's interfaces, wrapped thinly: values, time, and statements.

pub mod datum;
pub mod jsonb;
pub mod planner;
pub mod process;
pub mod relcache;
pub mod settings;
pub mod spi;
pub mod time;
pub mod uuid;
