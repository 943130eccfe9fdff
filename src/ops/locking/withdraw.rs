//! Withdrawing: takes a ready task off the board for a transaction that ends it or makes it wait,
//! so that no worker gets it meanwhile (I3).

use crate::error::{self, Result};
use crate::extension::database::Database;
use crate::pg::process;
use crate::shmem::segment;
use crate::storage::rows::BoardKey;
use crate::xact::{self, Change};
use board::Refusal;

/// Withdraws a ready task until the transaction ends; the commit removes its slot. False when a
/// worker owns the task, or another transaction is about to. The caller has locked the row.
pub fn withdraw(db: &Database, key: &BoardKey) -> Result<bool> {
    let me = process::id();
    loop {
        xact::reserve(1);
        let (withdrawn, mine) = db.on_board(|board, entry| {
            let mine = board.slot_of(entry, key.rank.id).is_some_and(|slot| slot.is_ended_by(me));
            (board.withdraw(entry, key.lane(), key.rank, key.timeout, me), mine)
        });
        match withdrawn.ok_or_else(|| error::board_full(&db.database_name()))? {
            Ok(ticket) => {
                xact::at_commit(db, [Change::Finish(ticket, None)]);
                return Ok(true);
            }
            // This transaction has made it ready again since it took it off the board.
            Err(Refusal::Ending) if mine => {
                xact::at_commit(db, [Change::Gone(key.rank.id)]);
                return Ok(true);
            }
            Err(Refusal::Busy) => segment::wait(),
            Err(_) => return Ok(false),
        }
    }
}
