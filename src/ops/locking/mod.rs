//! Locking tasks for a transaction that ends them or makes them wait.

pub mod lock;
pub mod withdraw;
