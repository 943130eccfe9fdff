//! Submitting: one row is inserted; the board learns of it at the commit (I2).

use crate::error::{self, Result};
use crate::moves::depend::{self, Standing};
use crate::moves::{fire, ids, ids_in, key, rank, session, settled, text_of_array};
use crate::pg::datum::{
    self, BIGINT, BIGINTS, BOOL, BOOLS, INTEGER, INTEGERS, INTERVAL, INTERVALS, JSONB, JSONBS,
    Kind, TEXT, TEXTS, TIMESTAMPTZ, TIMESTAMPTZS, UUID, UUIDS,
};
use crate::pg::spi::{Session, statement};
use crate::pg::time;
use crate::pg::uuid::Uuid;
use crate::shmem::database::Home;
use crate::shmem::xact::{self, Change, Offer};
use pgrx::pg_sys::Datum;
use std::collections::{BTreeSet, HashSet};
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
statement!(SUBMIT, "submit/insert", COLUMNS);
statement!(
    SUBMIT_NEW,
    "submit/insert_new",
    [UUID, TEXT, TEXT, BIGINT, JSONB, INTEGER, INTERVAL, BOOL, TIMESTAMPTZ]
);
statement!(DISCARD, "submit/discard", [UUIDS]);

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
pub(super) struct Entry<'d> {
    pub(super) id: Uuid,
    created: i64,
    pub(super) draft: &'d Draft,
    /// When the clock is to make it ready.
    due: Option<i64>,
    /// What it waits for, or is taken along by: live, or failed already.
    after: Vec<Uuid>,
    /// Others of the same batch wait for it.
    followed: bool,
}

/// What became of a draft: whether a task was inserted (else the one that bears its key stands for
/// it), or why not.
pub type Submitted = Result<bool>;

/// Submits one task; returns its id, or that of the live task that stands for it.
pub fn submit(home: &Home, draft: &Draft) -> Result<Uuid> {
    if draft.is_plain() {
        let entry = Entry::new(draft, time::now().wall);
        session(home).run(&SUBMIT_NEW, &entry.values()[..SUBMIT_NEW.kinds.len()]);
        xact::promise(home, [Change::Offer(entry.offer())]);
        return Ok(entry.id);
    }
    let submitted = submit_tasks(home, std::slice::from_ref(draft)).pop();
    let (id, submitted) = submitted.unwrap_or_else(|| unreachable!("one answer for one draft"));
    submitted.map(|_| id)
}

/// Submits many tasks at once. For each: its id, and what became of it.
pub fn submit_tasks(home: &Home, drafts: &[Draft]) -> Vec<(Uuid, Submitted)> {
    let session = session(home);
    let now = time::now().wall;
    // A microsecond apart, so that the order of the array is the order of age.
    let mut entries: Vec<Entry> =
        (now..).zip(drafts).map(|(created, draft)| Entry::new(draft, created)).collect();
    let mut answers: Vec<Submitted> = entries.iter().map(|_| Ok(true)).collect();
    let mut ids: Vec<Uuid> = entries.iter().map(|entry| entry.id).collect();
    refuse_second_ids(&ids, &mut answers);
    refuse_circles(&entries, &mut answers);
    let standing = attach(&session, &mut entries, &answers);
    let replaced = key::insert_all(home, &session, &entries, &mut ids, &mut answers);
    let is_inserted = |at: &usize| matches!(answers[*at], Ok(true));
    let inserted: Vec<&Entry> =
        (0..entries.len()).filter(is_inserted).map(|at| &entries[at]).collect();
    let free = inserted.iter().filter(|entry| entry.after.is_empty());
    xact::promise(home, free.map(|entry| entry.change()));
    if let Some(mut standing) = standing {
        if replaced {
            // What ended thereby may be among those to wait for.
            standing = Standing::hold(&session, wanted(&entries));
        }
        let links = inserted.iter().flat_map(|it| it.after.iter().map(|after| (*after, it.id)));
        let new: HashSet<Uuid> = inserted.iter().map(|entry| entry.id).collect();
        depend::link(home, &session, links.collect(), &standing, &new);
    }
    ids.into_iter().zip(answers).collect()
}

/// Within one array the first of two equal ids wins.
fn refuse_second_ids(ids: &[Uuid], answers: &mut [Submitted]) {
    let mut seen = HashSet::with_capacity(ids.len());
    for (id, answer) in ids.iter().zip(answers) {
        if !seen.insert(*id) {
            *answer = Err(error::duplicate_id(*id));
        }
    }
}

/// Refuses tasks that wait for one another in a circle, and those that wait for such.
fn refuse_circles(entries: &[Entry], answers: &mut [Submitted]) {
    if entries.iter().all(|entry| entry.draft.after.is_empty()) {
        return;
    }
    let links = entries.iter().flat_map(|it| it.draft.after.iter().map(|after| (*after, it.id)));
    let stuck = depend::in_circles(links);
    for (entry, answer) in entries.iter().zip(answers) {
        if answer.is_ok() && stuck.contains(&entry.id) {
            *answer = Err(error::circle(entry.id));
        }
    }
}

/// Finds out what tasks have to wait for, in the table and among themselves; keeps it from settling.
fn attach(session: &Session, entries: &mut [Entry], answers: &[Submitted]) -> Option<Standing> {
    if entries.iter().all(|entry| entry.draft.after.is_empty()) {
        return None;
    }
    let standing = Standing::hold(session, wanted(entries));
    let named: HashSet<Uuid> = wanted(entries).collect();
    let coming: HashSet<Uuid> = (entries.iter().zip(answers))
        .filter(|(entry, answer)| answer.is_ok() && !standing.is_known(entry.id))
        .map(|(entry, _)| entry.id)
        .collect();
    let holds =
        |id: &Uuid| standing.is_live(*id) || standing.has_failed(*id) || coming.contains(id);
    for entry in entries {
        let distinct: BTreeSet<Uuid> = entry.draft.after.iter().copied().filter(holds).collect();
        entry.after = distinct.into_iter().collect();
        entry.followed = named.contains(&entry.id);
    }
    Some(standing)
}

/// The predecessors of some tasks.
fn wanted(entries: &[Entry]) -> impl Iterator<Item = Uuid> {
    entries.iter().flat_map(|entry| entry.draft.after.iter().copied())
}

/// Inserts tasks; returns the ids of those whose id and key were free, among the live and the settled.
pub(super) fn insert(session: &Session, entries: &[&Entry]) -> HashSet<Uuid> {
    let rows: Vec<[Option<Datum>; COLUMNS.len()]> =
        entries.iter().map(|entry| entry.values()).collect();
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

impl<'d> Entry<'d> {
    fn new(draft: &'d Draft, created: i64) -> Entry<'d> {
        let id = draft.id.unwrap_or_else(|| Uuid::timed(time::unix_millis(created)));
        Entry {
            id,
            created,
            draft,
            due: draft.run_at.filter(|at| fire::is_ahead(*at, created)),
            after: Vec::new(),
            followed: false,
        }
    }

    /// The name that no other live task may bear.
    pub(super) fn key(&self) -> Option<key::Name<'d>> {
        self.draft.key.as_deref().map(|key| (&*self.draft.queue, key))
    }

    /// The values of the statements' parameters, in order.
    fn values(&self) -> [Option<Datum>; COLUMNS.len()] {
        let draft = self.draft;
        [
            Some(self.id.datum()),
            Some(datum::varlena(&draft.queue)),
            Some(datum::varlena(&draft.action)),
            Some(Datum::from(i64::from(draft.priority))),
            Some(draft.spec),
            draft.max_tries.map(Datum::from),
            draft.timeout.map(|(interval, _)| interval),
            Some(Datum::from(draft.post_result)),
            Some(Datum::from(self.created)),
            draft.key.as_deref().map(datum::varlena),
            draft.run_at.map(Datum::from),
            self.due.filter(|_| self.after.is_empty()).map(Datum::from),
            draft.retry_interval,
            draft.retry_jitter,
            (!draft.after.is_empty()).then(|| text_of_array(&draft.after)),
            draft.run_on_failure.then_some(Datum::from(true)),
            (!self.after.is_empty()).then(|| Datum::from(self.after.len() as i32)),
            self.followed.then_some(Datum::from(true)),
        ]
    }

    /// What the board learns of it at the commit, if it waits for no other.
    fn change(&self) -> Change {
        match self.due {
            Some(at) => Change::Due(at),
            None => Change::Offer(self.offer()),
        }
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
