//! Indexes of settled tasks by worker. A day's partition gets its own when the day is over: entered
//! with each task it would be a seventh of what settling writes to the log, built at once it is a
//! seventieth. So what a worker has settled today is found by reading today's partition.

use crate::extension::database::Database;
use crate::pg::datum::{self, OID};
use crate::pg::spi::statement;
use crate::pg::{lock, settings};
use crate::storage::rows::session;
use pgrx::pg_sys::{self, Oid};

statement!(MISSING, "maintenance/missing_worker_indexes", [OID]);

/// An index that a partition should have.
pub struct Missing {
    partition: Oid,
    /// What creates it.
    command: Vec<u8>,
}

/// The indexes that are to be created, those of the newest partitions first.
pub fn missing(db: &Database) -> Vec<Missing> {
    let session = session(db);
    let rows = session.run(&MISSING, &[Some(db.finished.into())]);
    (0..rows.len())
        .map(|row| Missing {
            partition: Oid::from_u32(datum::number(rows.get(row, 0)) as u32),
            command: datum::text(rows.get(row, 1)),
        })
        .collect()
}

impl Missing {
    /// Creates the index, unless another transaction changes the partition: then later. Tasks that
    /// settle meanwhile go to another partition.
    pub fn create(&self, db: &Database) {
        if lock::try_relation(self.partition, pg_sys::ShareRowExclusiveLock) {
            settings::set_local(c"max_parallel_maintenance_workers", c"0");
            session(db).run_text(&self.command, &[], &[]);
        }
    }
}
