//! Writes rows past the executor and many at a time, as PostgreSQL does for its catalogs. Tables
//! that are not as the extension made them are left to statements.

pub mod columns;
mod indexes;
pub mod partition_map;
pub mod partition_writer;
mod table_writer;
pub mod task_writer;
