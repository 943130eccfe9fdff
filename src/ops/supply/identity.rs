//! Whether this database is a copy: the rows of a copied or restored database name its origin, and
//! it starts closed (I12).

use crate::error;
use crate::extension::database::Database;
use crate::ops::supply::survey;
use crate::pg::datum::{self, BOOL};
use crate::pg::spi::statement;
use crate::shmem::segment::with_board;
use crate::storage::rows::session;
use crate::xact::{self, Change};
use board::BuildState;
use pgrx::PgLogLevel;
use pgrx::pg_sys::{self, Datum};

statement!(INCARNATION, "identity/read", []);
statement!(OPEN, "identity/open", [BOOL]);
statement!(CRITICAL_ONLY, "identity/critical_only", [BOOL]);

/// Whether the database is open. Notes it on the board, and in the log when it has been closed.
/// `None`: another transaction is changing it at this moment.
pub fn check_identity(db: &Database, entry: u32) -> Option<bool> {
    let incarnation = db.table(c"incarnation");
    // SAFETY: a lock of this transaction, held until its end: a transaction that changes the table
    // tells the board before it releases its own lock.
    if !unsafe { pg_sys::ConditionalLockRelationOid(incarnation, pg_sys::ShareLock as i32) } {
        return None;
    }
    let session = session(db);
    let rows = session.run(&INCARNATION, &[]);
    let [open, used, critical_only] =
        [0, 1, 2].map(|column| datum::number(rows.get(0, column)) != 0);
    let was_paused = with_board(|board| {
        let entry = board.entry_mut(entry);
        if used {
            entry.note_use();
        }
        if entry.build_state == BuildState::Unbuilt {
            entry.starts = open && !entry.is_new;
        }
        entry.critical_only = critical_only;
        entry.set_paused(!open)
    });
    if !open && !was_paused {
        error::closed(&db.database_name()).report(PgLogLevel::LOG);
    }
    Some(open)
}

/// Closes the database from the commit on, if this transaction has made it a copy.
pub fn note(db: &Database) {
    let session = session(db);
    let rows = session.run(&INCARNATION, &[]);
    if datum::number(rows.get(0, 0)) == 0 {
        xact::at_commit(db, [Change::Open(false)]);
    }
}

/// Opens or closes the database from the commit on.
pub fn open(db: &Database, enabled: bool) {
    // What a restored database has is read before its tasks are handed out.
    let entry = db.on_board(|_, entry| entry);
    if enabled {
        survey::survey(db, entry);
    }
    lock_incarnation(db);
    session(db).run(&OPEN, &[Some(Datum::from(enabled))]);
    xact::at_commit(db, [Change::Open(enabled)]);
}

/// Makes only critical queues hand out tasks from the commit on, or all queues again.
pub fn critical_only(db: &Database, enabled: bool) {
    lock_incarnation(db);
    session(db).run(&CRITICAL_ONLY, &[Some(Datum::from(enabled))]);
    xact::at_commit(db, [Change::CriticalOnly(enabled)]);
}

/// Keeps other transactions from changing what the database is, until this one ends.
fn lock_incarnation(db: &Database) {
    // SAFETY: a lock of this transaction.
    unsafe {
        pg_sys::LockRelationOid(db.table(c"incarnation"), pg_sys::ShareRowExclusiveLock as i32)
    };
}
