//! Submitting: one row is inserted; the board learns of it at the commit (I2).

use crate::complaint::{self, Answer};
use crate::desk::{self, Change, Home, Offer};
use crate::moment;
use crate::moves::{ids, rank, session, settled};
use crate::payload::{
    self, BIGINT, BIGINTS, BOOL, BOOLS, INTEGER, INTEGERS, INTERVAL, INTERVALS, JSONB, JSONBS,
    TEXT, TEXTS, TIMESTAMPTZ, TIMESTAMPTZS, UUID, UUIDS, Uuid,
};
use crate::statement::{Session, statement};
use pgrx::pg_sys::Datum;
use std::collections::HashSet;
use std::rc::Rc;

statement!(
    SUBMIT,
    "submit",
    [UUIDS, TEXTS, TEXTS, BIGINTS, JSONBS, INTEGERS, INTERVALS, BOOLS, TIMESTAMPTZS]
);
statement!(
    SUBMIT_NEW,
    "submit_new",
    [UUID, TEXT, TEXT, BIGINT, JSONB, INTEGER, INTERVAL, BOOL, TIMESTAMPTZ]
);
statement!(DISCARD, "discard", [UUIDS]);

/// A task to submit, its values checked.
pub struct Draft {
    /// `None`: to be made up.
    pub id: Option<Uuid>,
    pub queue: Rc<[u8]>,
    pub action: Rc<[u8]>,
    pub priority: u32,
    pub spec: Datum,
    pub max_tries: Option<i32>,
    /// An interval, with its length in microseconds.
    pub timeout: Option<(Datum, i64)>,
    pub post_result: bool,
}

/// A draft with what it gets at its insertion.
struct Entry<'d> {
    id: Uuid,
    created: i64,
    draft: &'d Draft,
}

/// Submits one task; returns its id.
pub fn submit(home: &Home, draft: &Draft) -> Answer<Uuid> {
    let session = session(home);
    let now = moment::now().wall;
    let entry = Entry {
        id: draft.id.unwrap_or_else(|| Uuid::timed(moment::unix_millis(now))),
        created: now,
        draft,
    };
    if draft.id.is_none() {
        session.run(&SUBMIT_NEW, &entry.values());
    } else if insert(&session, &[&entry]).is_empty() {
        return Err(complaint::duplicate_id(entry.id));
    }
    desk::promise(home, [Change::Offer(entry.offer())]);
    Ok(entry.id)
}

/// Submits many tasks by one statement. For each: its id, and whether it was inserted; if not, its
/// id is taken.
pub fn submit_tasks(home: &Home, drafts: &[Draft]) -> Vec<(Uuid, bool)> {
    let session = session(home);
    let now = moment::now().wall;
    // A microsecond apart, so that the order of the array is the order of age.
    let entries: Vec<Entry> = (now..)
        .zip(drafts)
        .map(|(created, draft)| Entry {
            id: draft.id.unwrap_or_else(|| Uuid::timed(moment::unix_millis(created))),
            created,
            draft,
        })
        .collect();
    let mut seen = HashSet::with_capacity(entries.len());
    let firsts: Vec<&Entry> = entries.iter().filter(|entry| seen.insert(entry.id)).collect();
    let inserted = insert(&session, &firsts);
    let mut first = HashSet::with_capacity(inserted.len());
    let answers = entries
        .iter()
        .map(|entry| (entry.id, inserted.contains(&entry.id) && first.insert(entry.id)))
        .collect();
    let offers = firsts.into_iter().filter(|entry| inserted.contains(&entry.id));
    desk::promise(home, offers.map(|entry| Change::Offer(entry.offer())));
    answers
}

/// Inserts tasks; returns the ids of those whose id was free, among the live and the settled.
fn insert(session: &Session, entries: &[&Entry]) -> HashSet<Uuid> {
    let rows: Vec<[Option<Datum>; 9]> = entries.iter().map(|entry| entry.values()).collect();
    let columns: Vec<Option<Datum>> = (SUBMIT.kinds.iter().enumerate())
        .map(|(column, kind)| Some(payload::array(*kind, rows.iter().map(|row| row[column]))))
        .collect();
    let result = session.run(&SUBMIT, &columns);
    let mut inserted: HashSet<Uuid> =
        (0..result.len()).map(|row| super::id_at(&result, row, 0)).collect();
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

impl Entry<'_> {
    /// The values of the statements' parameters, in order.
    fn values(&self) -> [Option<Datum>; 9] {
        let draft = self.draft;
        [
            Some(self.id.datum()),
            Some(payload::varlena(&draft.queue)),
            Some(payload::varlena(&draft.action)),
            Some(Datum::from(i64::from(draft.priority))),
            Some(draft.spec),
            draft.max_tries.map(Datum::from),
            draft.timeout.map(|(interval, _)| interval),
            Some(Datum::from(draft.post_result)),
            Some(Datum::from(self.created)),
        ]
    }

    fn offer(&self) -> Offer {
        Offer {
            queue: self.draft.queue.clone(),
            action: self.draft.action.clone(),
            rank: rank(self.id, self.created, self.draft.priority.into()),
            timeout: self.draft.timeout.map_or(0, |(_, length)| length),
        }
    }
}
