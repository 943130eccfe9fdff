//! Seizing: a ready task is held for the transaction that is about to end it or to make it wait, so
//! that no worker gets it meanwhile (I3).

use crate::error::{self, Result};
use crate::shmem::database::Database;
use crate::shmem::segment;
use crate::shmem::xact::{self, Change};
use crate::storage::rows::BoardKey;
use board::Refusal;
use pgrx::pg_sys;

/// Takes a ready task off the board until the transaction ends; at its commit it is gone from
/// there. False when somebody owns it, or is about to. The caller has locked its row.
pub fn withdraw(db: &Database, place: &BoardKey) -> Result<bool> {
    // SAFETY: reads this process's id.
    let me = unsafe { pg_sys::MyProcPid };
    loop {
        xact::reserve(1);
        let (held, mine) = db.on_board(|board, entry| {
            let mine = board.peek(entry, place.rank.id).is_some_and(|slot| slot.is_ended_by(me));
            (board.withdraw(entry, place.lane(), place.rank, place.timeout, me), mine)
        });
        match held.ok_or_else(error::board_full)? {
            Ok(ticket) => {
                xact::at_commit(db, [Change::Finish(ticket)]);
                return Ok(true);
            }
            // This transaction has made it ready again since it took it off the board.
            Err(Refusal::Ending) if mine => {
                xact::at_commit(db, [Change::Gone(place.rank.id)]);
                return Ok(true);
            }
            Err(Refusal::Busy) => segment::wait(),
            Err(_) => return Ok(false),
        }
    }
}
