//! Firing: makes waiting tasks ready when they are due.

use crate::extension::database::Database;
use crate::pg::datum::{self, BIGINT, TIMESTAMPTZ, UUID, UUIDS};
use crate::pg::spi::statement;
use crate::pg::time;
use crate::pg::uuid::Uuid;
use crate::storage::rows::{self, BoardKey, LIVE, LOCK_UNLOCKED, id_at, ids, ids_of, session};
use crate::xact::{self, Change, Offer};
use board::{Event, Wall};
use std::collections::HashSet;

statement!(DUE, "maintenance/due", [TIMESTAMPTZ, UUID, TIMESTAMPTZ, BIGINT]);
statement!(FIRE, "maintenance/fire", [UUIDS, TIMESTAMPTZ, TIMESTAMPTZ]);

/// A position in the order in which tasks fall due.
pub type DueKey = (Wall, Uuid);

/// The tasks that are due from position `from` to time `until`, at most `most`; and when the next
/// one after `until` falls due.
pub fn read(db: &Database, from: DueKey, until: Wall, most: usize) -> (Vec<DueKey>, Option<Wall>) {
    let from = (from.0, from.1.datum());
    rows::read_due(db, &DUE, from, until, most, |rows, row| id_at(rows, row, 0))
}

/// Makes due tasks ready. Never waits for a row lock: returns the tasks whose rows are locked.
pub fn fire(db: &Database, wanted: &[Uuid], until: Wall) -> Vec<Uuid> {
    let session = session(db);
    let free = ids_of(&session, &LOCK_UNLOCKED, wanted.iter().copied());
    let rows = session.run(
        &FIRE,
        &[
            ids(free.iter().copied()),
            Some(datum::timestamptz(until)),
            Some(datum::timestamptz(time::now().wall)),
        ],
    );
    for row in 0..rows.len() {
        let offer = Offer {
            aged_since: rows.get(row, 7).map(datum::wall),
            behind: datum::number(rows.get(row, 8)) != 0,
            ..BoardKey::at(&rows, row, 1, id_at(&rows, row, 0)).offer()
        };
        xact::count(db, &offer.queue, |counts| {
            counts.became_ready(1);
            counts.events.note(Event::Fired, 1);
        });
        xact::at_commit(db, [Change::Offer(offer)]);
    }
    if free.len() == wanted.len() {
        return Vec::new();
    }
    let free: HashSet<Uuid> = free.into_iter().collect();
    ids_of(&session, &LIVE, wanted.iter().copied().filter(|id| !free.contains(id)))
}
