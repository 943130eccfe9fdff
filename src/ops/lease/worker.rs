//! Workers that say who they are, and those that are asked to stop. The board knows the latter, so
//! that owning reads no row; the table has both, so that they survive a crash
//! (`maintenance::workers`).

use crate::extension::database::Database;
use crate::ops::stats::workers;
use crate::pg::datum::{self, BOOL, JSONB, TEXT};
use crate::pg::spi::statement;
use crate::pg::time;
use crate::shmem::segment::with_board;
use crate::storage::rows::{session, session_of};
use crate::xact::{self, Change};
use board::Name;
use pgrx::pg_sys::Datum;

statement!(NEXT_WORKER, "lease/next_worker", []);
statement!(REGISTER, "workers/register", [TEXT, JSONB]);
statement!(DRAIN, "workers/drain", [TEXT, BOOL]);

/// The queue of what the board knows of a worker in no queue.
pub const NO_QUEUE: &[u8] = b"";

/// A name that no other call ever returns. `meta`: what the worker tells of itself, if anything.
pub fn register(db: &Database, meta: Option<Datum>) -> String {
    let number = {
        let session = session_of(db.table(c"worker_number"));
        datum::number(session.run(&NEXT_WORKER, &[]).first())
    };
    let name = format!("worker-{number}");
    if meta.is_some() {
        session(db).run(&REGISTER, &[Some(datum::varlena(name.as_bytes())), meta]);
    }
    let now = time::now().wall;
    with_board(|board| {
        db.find(board).map(|entry| board.note_worker(entry, NO_QUEUE, name.as_bytes(), now))
    });
    name
}

/// Asks a worker to stop, from the commit on. False: there is no such worker.
pub fn drain(db: &Database, worker: &[u8]) -> bool {
    let known = workers::all(db, time::now().wall);
    let is_known = known.iter().any(|(it, _)| it.name.as_bytes() == worker);
    let arguments = [Some(datum::varlena(worker)), Some(Datum::from(is_known))];
    let found = session(db).run(&DRAIN, &arguments).len() > 0;
    if found {
        xact::at_commit(db, [Change::Drain(Box::new(Name::new(worker)))]);
    }
    found
}
