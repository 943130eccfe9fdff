//! Granting and revoking privileges on queues.

use crate::extension::database::Database;
use crate::pg::datum::{self, OID, TEXT, TEXTS};
use crate::pg::relcache;
use crate::pg::spi::statement;
use crate::storage::privileges::{Privileges, privilege_table, words_of};
use crate::storage::rows::session;
use pgrx::pg_sys::{self, Datum, Oid};

statement!(TAKE, "privileges/take", [TEXT, OID]);
statement!(GIVE, "privileges/give", [TEXT, OID, TEXTS]);

/// Changes what a role is granted on a queue. All sessions hear of it at the commit.
pub fn change(
    db: &Database,
    queue: &[u8],
    role: Oid,
    change: impl FnOnce(Privileges) -> Privileges,
) {
    let table = privilege_table(db);
    // SAFETY: a lock on a table of the extension, kept until the transaction ends: one transaction
    // at a time changes grants. Reading them goes on.
    unsafe { pg_sys::LockRelationOid(table, pg_sys::ShareRowExclusiveLock as i32) };
    let session = session(db);
    let key = [Some(datum::varlena(queue)), Some(Datum::from(role))];
    let rows = session.run(&TAKE, &key);
    let before = (0..rows.len()).map(|row| words_of(rows.get(row, 0)));
    let after = change(before.fold(Privileges::NONE, Privileges::with));
    if after != Privileges::NONE {
        let words = after.words().map(|word| Some(datum::varlena(word.as_bytes())));
        session.run(&GIVE, &[key[0], key[1], Some(datum::array(TEXTS, words))]);
    }
    relcache::announce_change(table);
}
