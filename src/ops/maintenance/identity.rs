//! Which database this is: one that was copied or restored knows it from the rows that came with it,
//! and starts closed (I12).

use crate::error;
use crate::ops::maintenance::refill;
use crate::pg::datum::{self, BOOL};
use crate::pg::spi::statement;
use crate::shmem::database::Database;
use crate::shmem::segment::with_board;
use crate::shmem::xact::{self, Change};
use crate::storage::rows::{session, table};
use pgrx::PgLogLevel;
use pgrx::pg_sys::{self, Datum};

statement!(INCARNATION, "maintenance/identity", []);
statement!(OPEN, "maintenance/open", [BOOL]);
statement!(USE, "maintenance/note_use", []);

/// Tells the board whether the database is open, and the log when it is not any more; its answer.
/// `None`: somebody is changing it, so that what can be seen may be over already.
pub fn check_identity(db: &Database, entry: u32) -> Option<bool> {
    let incarnation = table(c"incarnation");
    // SAFETY: a lock of this transaction, held until its end: whoever changes the table tells the
    // board before he lets go of his.
    if !unsafe { pg_sys::ConditionalLockRelationOid(incarnation, pg_sys::ShareLock as i32) } {
        return None;
    }
    let session = session(db);
    let rows = session.run(&INCARNATION, &[]);
    let [open, used] = [0, 1].map(|column| datum::number(rows.get(0, column)) != 0);
    let was_shut = with_board(|board| {
        let entry = board.entry_mut(entry);
        if used {
            entry.note_use();
        }
        entry.set_paused(!open)
    });
    if !open && !was_shut {
        error::closed(&db.database_name()).report(PgLogLevel::LOG);
    }
    Some(open)
}

/// Opens or closes the database from the commit on.
pub fn open(db: &Database, enabled: bool) {
    // The lanes of what was restored are known as soon as they may be served.
    let entry = db.on_board(|_, entry| entry);
    // SAFETY: a lock of this transaction: one such call at a time.
    unsafe { pg_sys::LockRelationOid(table(c"incarnation"), pg_sys::ShareRowExclusiveLock as i32) };
    session(db).run(&OPEN, &[Some(Datum::from(enabled))]);
    if enabled {
        refill::survey(db, entry);
    }
    xact::at_commit(db, [Change::Open(enabled)]);
}

/// Notes that this database makes partitions of its own, not those of another that it restores.
pub fn note_use(db: &Database) {
    session(db).run(&USE, &[]);
}
