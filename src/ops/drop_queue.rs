//! Dropping a queue: its tasks, its settings, its totals, and what was granted on it.

use crate::error::Result;
use crate::extension::database::Database;
use crate::ops::matching::act::{Action, Matching};
use crate::ops::matching::filter::Filter;
use crate::ops::queues::{configure, max_tries};
use crate::pg::datum::{self, TEXT};
use crate::pg::relcache;
use crate::pg::spi::statement;
use crate::storage::privileges::{Privileges, privilege_table};
use crate::storage::rows::session;
use crate::xact::{self, Change};
use board::Name;
use pgrx::pg_sys::{self, Oid};

statement!(DROP, "queues/drop", [TEXT]);
statement!(DELETE_SETTLED, "queues/delete_settled", [TEXT]);
statement!(DELETE_UNLOCKED, "queues/delete_settled", [TEXT], |file: &str| {
    file.replace("for update", "for update skip locked")
});

/// Drops a queue, as a role asks. False: there is no such queue.
pub fn drop_queue(db: &Database, asking: Oid, queue: &[u8]) -> Result<bool> {
    let exists = configure::exists(db, queue);
    let filter = Filter { queue: Some(queue.to_vec()), ..Filter::default() };
    let needed = &[Privileges::CANCEL];
    let name = Some(datum::varlena(queue));
    let delete = |settled| datum::number(session(db).run(settled, &[name]).first());
    // First the settled tasks: a resubmission locks them, and then waits for a live task with its
    // key.
    let settled = delete(&DELETE_SETTLED);
    let live = Matching { db, filter, role: asking, needed, most: None }.act(Action::Drop)?;
    // Those that settled before they could be locked, but for what a resubmission makes a task of
    // again: it may wait for one of the live ones.
    let late = delete(&DELETE_UNLOCKED);
    // A transaction that changes settings afterwards does so behind what the board does at the
    // commit.
    for table in [db.table(c"queue"), privilege_table(db)] {
        // SAFETY: a lock on a table of the extension, kept until the transaction ends. Reading goes
        // on.
        unsafe { pg_sys::LockRelationOid(table, pg_sys::ShareRowExclusiveLock as i32) };
    }
    let forgot = datum::number(session(db).run(&DROP, &[name]).first()) != 0;
    xact::reserve(1);
    xact::at_commit(db, [Change::DropQueue(Box::new(Name::new(queue)))]);
    relcache::announce_change(privilege_table(db));
    max_tries::announce_change(db);
    Ok(exists || forgot || live > 0 || settled + late > 0)
}
