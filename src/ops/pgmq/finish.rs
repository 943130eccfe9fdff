//! Deleting and archiving messages by their numbers, without the tokens of their leases.

use crate::error::{self, Result};
use crate::ops::dependencies::count_down::settle_dependents;
use crate::ops::finish::begin::{Busy, begin_each};
use crate::ops::locking::lock::Locked;
use crate::pg::datum::{self, TEXT};
use crate::pg::process;
use crate::pg::spi::statement;
use crate::pg::uuid::Uuid;
use crate::shmem::database::Database;
use crate::shmem::segment::with_board;
use crate::shmem::xact::{self, Change};
use crate::storage::ending::Ending;
use crate::storage::rows::{ROWS_PER_TX, distinct, ids_in, session};
use crate::storage::settle::settle;
use board::{Board, COMPLETED, FreedPlace, Lease, Refusal, Ticket};

statement!(IDS, "pgmq/ids", [TEXT]);

/// Ends messages of a queue: they are archived, or deleted. Returns those that were there.
pub fn end(db: &Database, queue: &[u8], wanted: &[Uuid], archive: bool) -> Result<Vec<Uuid>> {
    // Every transaction locks rows in the order of their ids.
    let wanted = distinct(wanted.iter().copied());
    let mut endings = begin_ends(db, &wanted, Change::Finish);
    let session = session(db);
    if endings.len() < wanted.len() {
        // Some were not read, or only in a transaction that is open.
        let locked = Locked::lock(db, &session, &wanted);
        let mut others: Vec<Ending> = Vec::new();
        for (at, id) in locked.ids.iter().enumerate() {
            if endings.binary_search_by_key(id, |it| it.id).is_err() {
                let lease = with_board(|board| board.lease_of(db.find(board)?, id.0));
                others.push(Ending { lease: lease.map(|it| it.1), ..Ending::of(*id) });
                xact::at_commit(db, [locked.removal(at)]);
            }
        }
        endings.extend(others);
        endings.sort_unstable_by_key(|it| it.id);
    }
    if endings.is_empty() {
        return Ok(Vec::new());
    }
    endings.iter_mut().for_each(|it| it.is_discarded = !archive);
    let ended = settle(db, &session, |_| COMPLETED, &endings);
    if let Some(other) = ended.iter().find(|it| *it.queue != *queue) {
        return Err(error::message_of_other_queue(other.id));
    }
    settle_dependents(db, &session, &ended);
    Ok(ended.into_iter().map(|it| it.id).collect())
}

/// Begins to end the leases that some messages have; the commit makes the change to each.
pub fn begin_ends(
    db: &Database,
    wanted: &[Uuid],
    change: fn(Ticket, Option<FreedPlace>) -> Change,
) -> Vec<Ending> {
    let me = process::id();
    let mut begun = Vec::with_capacity(wanted.len());
    let begin = |board: &mut Board, entry, id: Uuid| match board.begin_end_of_any(entry, id.0, me) {
        Some(Ok((ticket, lease))) => {
            Ok((Some(change(ticket, board.freed_place(&lease))), Some(lease)))
        }
        Some(Err(Refusal::Busy)) => Err(Busy),
        _ => Ok((None, None)),
    };
    begin_each(db, wanted, begin, |id, lease: Option<Lease>| {
        begun.extend(lease.map(|lease| Ending { lease: Some(lease), ..Ending::of(id) }));
    });
    begun.sort_unstable_by_key(|it| it.id);
    begun
}

/// Deletes all messages of a queue. Returns how many.
pub fn purge(db: &Database, queue: &[u8]) -> Result<i64> {
    let wanted: Vec<Uuid> =
        ids_in(&session(db).run(&IDS, &[Some(datum::varlena(queue))])).collect();
    let mut count = 0;
    for some in wanted.chunks(ROWS_PER_TX) {
        count += end(db, queue, some, false)?.len() as i64;
        pgrx::check_for_interrupts!();
    }
    Ok(count)
}
