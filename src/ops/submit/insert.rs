//! Submitting: one row is inserted; the board learns of it at the commit (I2).

use crate::ops::submit::draft::Entry;
use crate::pg::datum::{
    self, BIGINT, BIGINTS, BOOL, BOOLS, INTEGER, INTEGERS, INTERVAL, INTERVALS, JSONB, JSONBS,
    Kind, TEXT, TEXTS, TIMESTAMPTZ, TIMESTAMPTZS, UUID, UUIDS,
};
use crate::pg::spi::{Session, statement};
use crate::pg::uuid::Uuid;
use crate::storage::rows::{ids, ids_in, settled, text_of_array};
use pgrx::pg_sys::Datum;
use std::collections::HashSet;

/// The types of submit.sql's arrays.
const COLUMNS: [Kind; 18] = [
    UUIDS,
    TEXTS,
    TEXTS,
    BIGINTS,
    JSONBS,
    INTEGERS,
    INTERVALS,
    BOOLS,
    TIMESTAMPTZS,
    TEXTS,
    TIMESTAMPTZS,
    TIMESTAMPTZS,
    INTERVALS,
    INTERVALS,
    TEXTS,
    BOOLS,
    INTEGERS,
    BOOLS,
];
statement!(SUBMIT, "submit/insert", COLUMNS);
statement!(
    SUBMIT_NEW,
    "submit/insert_new",
    [UUID, TEXT, TEXT, BIGINT, JSONB, INTEGER, INTERVAL, BOOL, TIMESTAMPTZ]
);
statement!(DISCARD, "submit/discard", [UUIDS]);

/// Inserts tasks; returns the ids of those whose id and key were free, among the live and the settled.
pub fn insert(session: &Session, entries: &[&Entry]) -> HashSet<Uuid> {
    let rows: Vec<[Option<Datum>; COLUMNS.len()]> =
        entries.iter().map(|entry| values(entry)).collect();
    let column = |(at, kind): (usize, &Kind)| {
        let is_used = rows.iter().any(|row| row[at].is_some());
        is_used.then(|| datum::array(*kind, rows.iter().map(|row| row[at])))
    };
    let columns: Vec<Option<Datum>> = COLUMNS.iter().enumerate().map(column).collect();
    let mut inserted: HashSet<Uuid> = ids_in(&session.run(&SUBMIT, &columns)).collect();
    // Only an id that the caller gave can be a settled task's. Looked for after the insertion, so
    // that one that is settled meanwhile is seen in one place or the other.
    let given = entries.iter().filter(|entry| entry.draft.id.is_some()).map(|entry| entry.id);
    if given.clone().next().is_some() {
        let taken = settled(session, given);
        let taken: Vec<Uuid> =
            taken.into_iter().map(|(id, _)| id).filter(|id| inserted.remove(id)).collect();
        if !taken.is_empty() {
            session.run(&DISCARD, &[ids(taken.into_iter())]);
        }
    }
    inserted
}

/// Inserts one task that is ready at once, and whose id and key nobody else can have.
pub fn insert_new(session: &Session, entry: &Entry) {
    session.run(&SUBMIT_NEW, &values(entry)[..SUBMIT_NEW.kinds.len()]);
}

/// The values of the statements' parameters, in order.
fn values(entry: &Entry) -> [Option<Datum>; COLUMNS.len()] {
    let draft = entry.draft;
    [
        Some(entry.id.datum()),
        Some(datum::varlena(&draft.queue)),
        Some(datum::varlena(&draft.action)),
        Some(Datum::from(i64::from(draft.priority))),
        Some(draft.spec),
        draft.max_tries.map(Datum::from),
        draft.timeout.map(|(interval, _)| interval),
        Some(Datum::from(draft.post_result)),
        Some(datum::timestamptz(entry.created)),
        draft.key.as_deref().map(datum::varlena),
        draft.run_at.map(datum::timestamptz),
        entry.due.filter(|_| entry.after.is_empty()).map(datum::timestamptz),
        draft.retry_interval,
        draft.retry_jitter,
        (!draft.after.is_empty()).then(|| text_of_array(&draft.after)),
        draft.run_on_failure.then_some(Datum::from(true)),
        (!entry.after.is_empty()).then(|| Datum::from(entry.after.len() as i32)),
        entry.has_dependents.then_some(Datum::from(true)),
    ]
}
