//! Leases that outlive a crash: the scheduler writes them to `scylla.lease`, and they are restored
//! when the board is built (I1).
//!
//! A lease's row holds its task's `updated` of that time. Every transaction that ends the lease
//! writes the task's row, which makes the lease's row void without a write to it.

use crate::extension::database::Database;
use crate::guc;
use crate::pg::datum::{self, BIGINTS, BOOLS, BYTEAS, FLOATS, TEXTS, TIMESTAMPTZS, UUIDS};
use crate::pg::spi::{Rows, statement};
use crate::pg::time;
use crate::pg::uuid::Uuid;
use crate::shmem::segment::{self, in_steps, scan_pinned, with_board};
use crate::shmem::sql_record::{self, SqlRecord};
use crate::storage::rows::{BoardKey, batches, id_at, ids, session};
use board::{Lease, Micros, PersistedLease, Slot, Ticket, TokenHash, Wall};
use pgrx::pg_sys::Datum;

statement!(PERSIST, "lease/persist", [UUIDS, BYTEAS, TEXTS, TIMESTAMPTZS, BIGINTS, FLOATS, BOOLS]);
statement!(FORGET, "lease/forget", [UUIDS]);
statement!(CLEAR_LEASES, "lease/clear", []);
statement!(RESTORE, "lease/restore", []);

/// The leases that this transaction has written.
pub type Written = Vec<(Ticket, Uuid)>;

/// Finds the leases that are old enough and not written yet, in batches.
pub fn find_unpersisted(entry: u32) -> impl Iterator<Item = Vec<(Ticket, Lease)>> {
    let now = time::now().wall;
    let age = guc::persist_leases_after();
    // After the wall clock was set back, a lease seems to begin in the future: it is written at
    // once.
    let is_old = move |slot: &Slot| slot.since_at > now || slot.since_at + age <= now;
    let found = scan_pinned(entry, move |board, slot, at| {
        let is_meant = slot.has_lease() && !slot.is_persisted() && is_old(slot);
        is_meant.then(|| (slot.ticket(at), board.lease(slot)))
    });
    batches(found)
}

/// Writes leases to the table. The caller tells the board after the commit, by `note_persisted`.
pub fn persist(db: &Database, leases: &[(Ticket, Lease)]) -> Written {
    let session = session(db);
    let column = |kind, value: fn(&Lease) -> Datum| {
        Some(datum::array(kind, leases.iter().map(|(_, lease)| Some(value(lease)))))
    };
    session.run(
        &PERSIST,
        &[
            ids(leases.iter().map(|(_, lease)| Uuid(lease.id))),
            column(BYTEAS, |lease| datum::varlena(&lease.token_hash)),
            column(TEXTS, |lease| datum::varlena(lease.worker.as_bytes())),
            column(TIMESTAMPTZS, |lease| datum::timestamptz(lease.since_at)),
            column(BIGINTS, |lease| Datum::from(lease.length.0)),
            column(FLOATS, |lease| datum::float(lease.progress)),
            column(BOOLS, |lease| Datum::from(lease.in_history())),
        ],
    );
    // A lease that ended before the statement's snapshot got the stamp of its task's new row. Such
    // a lease has left the board: its row is deleted again.
    let (kept, over): (Vec<_>, Vec<_>) = leases
        .iter()
        .map(|(ticket, lease)| (*ticket, Uuid(lease.id)))
        .partition(|(ticket, _)| with_board(|board| board.is_leased(*ticket)));
    if !over.is_empty() {
        session.run(&FORGET, &[ids(over.into_iter().map(|(_, id)| id))]);
    }
    kept
}

/// Marks leases as written on the board; those that have ended meanwhile are to be cleared.
pub fn note_persisted(entry: u32, written: &Written) {
    in_steps(written, |board, (ticket, _)| {
        if !board.note_persisted(*ticket) {
            board.entry_mut(entry).ended_persisted += 1;
        }
    });
}

/// Deletes the rows of leases that have ended.
pub fn clear_leases(db: &Database) {
    session(db).run(&CLEAR_LEASES, &[]);
}

/// Restores the leases that were valid when the server went down, each for one full length. The
/// lease of an SQL command ends at once, unless a process has the command. Returns how many were
/// restored, and how many found no free slot.
pub fn restore(db: &Database, entry: u32) -> (usize, usize) {
    let session = session(db);
    let rows = session.run(&RESTORE, &[]);
    let now = time::now();
    let lost = (0..rows.len())
        .filter(|row| {
            let key = BoardKey::at(&rows, *row, 7, id_at(&rows, *row, 0));
            let worker = datum::text(rows.get(*row, 2));
            let mut lease = PersistedLease { worker: &worker, ..persisted_lease(&rows, *row) };
            let is_assigned = |record: &SqlRecord| record.has_command_of(db.key(), key.rank.id);
            if key.queue == sql_record::QUEUE && !segment::sql_records().iter().any(is_assigned) {
                lease.length = Micros::ZERO;
            }
            !with_board(|board| {
                let at = board.ensure_slot(entry, key.lane(), key.rank, key.timeout);
                at.inspect(|at| board.restore(*at, &lease, now)).is_some()
            })
        })
        .count();
    (rows.len() - lost, lost)
}

/// A lease from its row, without the worker's name.
fn persisted_lease<'a>(rows: &Rows, row: usize) -> PersistedLease<'a> {
    let bits = |column| datum::number(rows.get(row, column));
    // SAFETY: the column is a bytea.
    let stored = rows.get(row, 1).map_or(Vec::new(), |it| unsafe { datum::bytes(it) });
    let mut token_hash = TokenHash::default();
    token_hash.iter_mut().zip(stored).for_each(|(to, from)| *to = from);
    PersistedLease {
        token_hash,
        worker: &[],
        since_at: Wall(bits(3)),
        length: Micros(bits(4)),
        progress: f64::from_bits(bits(5) as u64),
        in_history: bits(6) != 0,
    }
}
