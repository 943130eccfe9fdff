//! PostgreSQL's interfaces, wrapped thinly: values, time, and statements.

pub mod command;
pub mod compat;
pub mod datum;
pub mod jsonb;
pub mod kept;
pub mod lock;
pub mod named;
pub mod planner;
pub mod process;
pub mod relcache;
pub mod settings;
pub mod spi;
pub mod subtransaction;
pub mod time;
pub mod uuid;
