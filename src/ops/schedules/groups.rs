//! The groups of the runs of SQL commands.

use crate::pg::datum::{self, BIGINT, TEXT};
use crate::pg::spi::statement;
use crate::shmem::database::Database;
use crate::storage::rows::session;
use pgrx::pg_sys::Datum;

statement!(SET_GROUP, "schedules/set_group", [BIGINT, TEXT]);

/// Sets the group of a schedule's runs; `None`: that of their role.
pub fn set_group(db: &Database, schedule: i64, group: Option<&[u8]>) {
    session(db).run(&SET_GROUP, &[Some(Datum::from(schedule)), group.map(datum::varlena)]);
}
