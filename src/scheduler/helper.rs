//! The helper of a database's scheduler: a process of its own for work that takes long, since the
//! scheduler has other duties. It does what there is to do, and ends.

use crate::extension::database::{self, Database};
use crate::memory;
use crate::ops::maintenance::worker_indexes;
use crate::ops::stats::recount;
use crate::scheduler::process::{
    Commit, builder, in_extension_transaction, install_signal_handlers, transaction,
};
use crate::scheduler::settings;
use crate::shmem::schedulers;
use crate::shmem::segment::with_board;
use pgrx::pg_sys;
use pgrx::prelude::*;

/// Starts the helper, unless it runs. Without room for a background worker the caller tries again.
pub fn start(db: &Database) {
    let database = db.database.to_u32();
    if schedulers::helper_of(database).is_none() {
        _ = builder("scylla helper", "scylla_helper")
            .set_argument(Some(pg_sys::Datum::from(database)))
            .set_restart_time(None)
            .load_dynamic();
    }
}

#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn scylla_helper(database: pg_sys::Datum) {
    let database = database.value() as u32;
    install_signal_handlers();
    if !schedulers::claim_help(database) {
        return;
    }
    // SAFETY: connects as the bootstrap superuser to the database that the scheduler named.
    unsafe {
        let database = pg_sys::Oid::from_u32(database);
        pg_sys::BackgroundWorkerInitializeConnectionByOid(database, pg_sys::InvalidOid, 0);
    }
    memory::with_reserve(|| {
        settings::pin();
        let what = "find the extension";
        if let Some(Some(db)) = transaction(what, Commit::Ahead, database::find_again) {
            help(&db);
        }
    });
}

fn help(db: &Database) {
    let entry = db.enter();
    if with_board(|board| board.wants_recount(entry)) {
        in_extension_transaction(db, "count the tasks", Commit::Ahead, || recount::recount(db));
    }
    let what = "list partitions without an index by worker";
    let missing = in_extension_transaction(db, what, Commit::Ahead, || worker_indexes::missing(db));
    for index in missing.unwrap_or_default() {
        in_extension_transaction(db, "create an index by worker", Commit::Ahead, || {
            index.create(db)
        });
    }
}
