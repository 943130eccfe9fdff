//! Writes rows past the executor and many at a time, as PostgreSQL does for its catalogs.

mod indexes;
pub mod partition_map;
pub mod partition_writer;
mod table_writer;
pub mod task_writer;
