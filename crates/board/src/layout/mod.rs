pub mod names;
pub mod rank;
pub mod slot;
