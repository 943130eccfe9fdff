//! Submitting: one row is inserted; the board learns of it at the commit (I2).

use crate::complaint::{self, Answer};
use crate::desk::{self, Change, Home, Offer};
use crate::moment;
use crate::moves::{ids, rank, session, settled};
use crate::payload::{
    self, BIGINT, BIGINTS, BOOL, BOOLS, INTEGER, INTEGERS, INTERVAL, INTERVALS, JSONB, JSONBS,
    Kind, TEXT, TEXTS, TIMESTAMPTZ, TIMESTAMPTZS, UUID, UUIDS, Uuid,
};
use crate::statement::{Session, statement};
use pgrx::pg_sys::Datum;
use std::collections::HashSet;
use std::rc::Rc;

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
statement!(SUBMIT, "submit", COLUMNS);
statement!(
    SUBMIT_NEW,
    "submit_new",
    [UUID, TEXT, TEXT, BIGINT, JSONB, INTEGER, INTERVAL, BOOL, TIMESTAMPTZ]
);
statement!(DISCARD, "discard", [UUIDS]);

/// What to do about a key that a live task bears already.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnConflict {
    #[default]
    Error,
    /// The live task stands for the new one.
    Ignore,
    /// The live task is cancelled, unless it is running.
    Replace,
}

/// A task to submit, its values checked.
pub struct Draft {
    /// `None`: to be made up.
    pub id: Option<Uuid>,
    pub queue: Rc<[u8]>,
    pub action: Rc<[u8]>,
    pub priority: u32,
    pub spec: Datum,
    pub key: Option<Vec<u8>>,
    pub on_conflict: OnConflict,
    /// A timestamptz.
    pub run_at: Option<i64>,
    pub after: Vec<Uuid>,
    pub run_on_failure: bool,
    pub max_tries: Option<i32>,
    /// Intervals; `None`: zero.
    pub retry_interval: Option<Datum>,
    pub retry_jitter: Option<Datum>,
    /// An interval, with its length in microseconds.
    pub timeout: Option<(Datum, i64)>,
    pub post_result: bool,
}

impl Draft {
    /// What a task of this queue is when nothing else is said of it.
    pub fn new(queue: Rc<[u8]>, action: Rc<[u8]>, spec: Datum) -> Draft {
        Draft {
            id: None,
            queue,
            action,
            priority: 0,
            spec,
            key: None,
            on_conflict: OnConflict::default(),
            run_at: None,
            after: Vec::new(),
            run_on_failure: false,
            max_tries: None,
            retry_interval: None,
            retry_jitter: None,
            timeout: None,
            post_result: false,
        }
    }

    /// Whether the task is ready at once, is no key's, and bears no name that may be taken.
    fn is_plain(&self) -> bool {
        self.id.is_none()
            && self.key.is_none()
            && self.run_at.is_none()
            && self.after.is_empty()
            && self.retry_interval.is_none()
            && self.retry_jitter.is_none()
    }
}

/// A draft with what it gets at its insertion.
struct Entry<'d> {
    id: Uuid,
    created: i64,
    draft: &'d Draft,
    /// When the clock is to make it ready.
    due: Option<i64>,
    /// How many predecessors it waits for.
    pending: Option<i32>,
    /// Others of the same batch wait for it.
    followed: bool,
}

/// Submits one task; returns its id.
pub fn submit(home: &Home, draft: &Draft) -> Answer<Uuid> {
    let session = session(home);
    let now = moment::now().wall;
    let entry = Entry::new(draft, now);
    if draft.is_plain() {
        session.run(&SUBMIT_NEW, &entry.values()[..SUBMIT_NEW.kinds.len()]);
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
    let entries: Vec<Entry> =
        (now..).zip(drafts).map(|(created, draft)| Entry::new(draft, created)).collect();
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
    let rows: Vec<[Option<Datum>; COLUMNS.len()]> =
        entries.iter().map(|entry| entry.values()).collect();
    let column = |(at, kind): (usize, &Kind)| {
        let is_used = rows.iter().any(|row| row[at].is_some());
        is_used.then(|| payload::array(*kind, rows.iter().map(|row| row[at])))
    };
    let columns: Vec<Option<Datum>> = COLUMNS.iter().enumerate().map(column).collect();
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

impl<'d> Entry<'d> {
    fn new(draft: &'d Draft, created: i64) -> Entry<'d> {
        let id = draft.id.unwrap_or_else(|| Uuid::timed(moment::unix_millis(created)));
        Entry { id, created, draft, due: None, pending: None, followed: false }
    }

    /// The values of the statements' parameters, in order.
    fn values(&self) -> [Option<Datum>; COLUMNS.len()] {
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
            draft.key.as_deref().map(payload::varlena),
            draft.run_at.map(Datum::from),
            self.due.map(Datum::from),
            draft.retry_interval,
            draft.retry_jitter,
            (!draft.after.is_empty()).then(|| text_of_array(&draft.after)),
            draft.run_on_failure.then_some(Datum::from(true)),
            self.pending.map(Datum::from),
            self.followed.then_some(Datum::from(true)),
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

/// An array of ids as PostgreSQL writes one, since arrays of arrays must not be ragged.
fn text_of_array(ids: &[Uuid]) -> Datum {
    let ids: Vec<String> = ids.iter().map(Uuid::to_string).collect();
    payload::varlena(format!("{{{}}}", ids.join(",")).as_bytes())
}
