//! Building the board of a database from its tables, by its clock, or by a caller where none runs (I1).

use crate::error;
use crate::ops::maintenance::{identity, persist_leases, refill};
use crate::shmem::database::Home;
use crate::shmem::segment::{self, with_board};
use board::Door;
use pgrx::PgLogLevel;

/// How many places of the board are cleared under one hold of its lock.
const CLEARED_AT_ONCE: u32 = 256;

/// Builds the board: the leases that were written, then the lanes, each known to the table only until
/// somebody asks. Callers wait until it is open. False when somebody opens or closes the database now.
pub fn build(home: &Home, house: u32) -> bool {
    clear(house);
    if identity::look(home, house).is_none() {
        return false;
    }
    let lost = persist_leases::restore(home, house);
    if lost > 0 {
        error::leases_lost(lost).report(PgLogLevel::WARNING);
    }
    refill::survey(home, house);
    with_board(|board| {
        let house = board.house_mut(house);
        house.door = Door::Open;
        house.refresh = false;
        // What was put off before a restart, and what is due, is known to the tables only.
        house.put_off = true;
        house.next_due = i64::MIN;
    });
    segment::broadcast();
    true
}

/// Takes everything of a house off the board, and closes it.
pub fn clear(house: u32) {
    with_board(|board| board.house_mut(house).door = Door::Closed);
    let mut from = Some(0);
    while let Some(at) = from {
        from = with_board(|board| board.clear_house(house, at, CLEARED_AT_ONCE));
    }
}
