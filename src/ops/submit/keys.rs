//! Keys: at most one live task per queue and key, and one that keeps its key for some time.
//! Submitting a duplicate is refused, ignored, or replaces the live task.

use crate::error;
use crate::extension::database::Database;
use crate::ops::finish::cancel;
use crate::ops::submit::draft::{KeyName, NewTask, OnConflict, Submitted};
use crate::ops::submit::insert::{insert, insert_alone};
use crate::ops::submit::kept;
use crate::ops::submit::numbers::Numbers;
use crate::pg::datum::{self, BOOL, TEXTS};
use crate::pg::spi::{Session, statement};
use crate::pg::uuid::Uuid;
use crate::storage::rows::{LIVE, id_at, ids_of, session, settled};
use pgrx::pg_sys::Datum;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

statement!(KEY_HOLDERS, "submit/key_holders", [TEXTS, TEXTS, BOOL]);

/// How many tasks of which queue were replaced.
pub type Replaced = HashMap<Rc<[u8]>, Numbers>;

/// Inserts the new tasks that are not refused yet, and sets the answer of each. An ignored
/// duplicate gets the id of the live task. Returns how many live tasks of which queue were
/// replaced.
pub fn insert_all(
    db: &Database,
    session: &Session,
    tasks: &[NewTask],
    ids: &mut [Uuid],
    answers: &mut [Submitted],
) -> Replaced {
    let mut first = HashMap::new();
    let (mut todo, mut later) = (Vec::new(), Vec::new());
    for (at, task) in tasks.iter().enumerate().filter(|(at, _)| answers[*at].is_ok()) {
        match task.key() {
            Some(name) if first.contains_key(&name) => later.push((at, first[&name])),
            Some(name) => {
                first.insert(name, at);
                todo.push(at);
            }
            None => todo.push(at),
        }
    }
    // Keys are taken in order, so that two batches with the same keys do not deadlock.
    todo.sort_by_key(|at| tasks[*at].key());
    let mut replaced = Replaced::new();
    // A key can be taken or released between two statements: then the loop tries again.
    while !todo.is_empty() {
        pgrx::check_for_interrupts!();
        replace(db, session, tasks, &mut todo, answers, &mut replaced);
        let chosen: Vec<&NewTask> = todo.iter().map(|at| &tasks[*at]).collect();
        let inserted = insert(db, session, &chosen);
        todo.retain(|at| !inserted.contains(&tasks[*at].id));
        refuse_taken(db, session, tasks, &mut todo, ids, answers);
    }
    for (at, first) in later {
        match tasks[at].draft.on_conflict {
            OnConflict::Ignore if answers[first].is_ok() => {
                (ids[at], answers[at]) = (ids[first], Ok(false));
            }
            _ => {
                let (queue, key) = tasks[at].key().unwrap_or_default();
                answers[at] = Err(error::repeated_key(queue, key));
            }
        }
    }
    replaced
}

/// Cancels the live tasks whose keys are to be replaced, unless they are owned. Adds what was
/// cancelled to `replaced`.
fn replace(
    db: &Database,
    session: &Session,
    tasks: &[NewTask],
    todo: &mut Vec<usize>,
    answers: &mut [Submitted],
    replaced: &mut Replaced,
) {
    let replacing: Vec<usize> = (todo.iter().copied())
        .filter(|at| tasks[*at].draft.on_conflict == OnConflict::Replace)
        .filter(|at| tasks[*at].draft.key.is_some())
        .collect();
    if replacing.is_empty() {
        return;
    }
    let taken = taken_ids(session, tasks, &replacing);
    let holders = holders(session, tasks, &replacing);
    let of = |at: &usize| holders.get(at).copied().filter(|_| !taken.contains(&tasks[*at].id));
    let wanted: Vec<Uuid> = replacing.iter().filter_map(of).collect();
    let (kept, cancelled) = cancel::cancel_free(db, session, &wanted);
    let ended: Vec<Uuid> = cancelled.iter().map(|it| it.id).collect();
    let chosen: Vec<&NewTask> = replacing.iter().map(|at| &tasks[*at]).collect();
    kept::free(db, session, &chosen, &ended);
    todo.retain(|at| match of(at) {
        Some(holder) if kept.contains(&holder) => {
            let shown = tasks[*at].draft.shows_holder.then_some(holder);
            answers[*at] = Err(error::not_replaceable(shown));
            false
        }
        _ => true,
    });
    for it in cancelled {
        let numbers = replaced.entry(it.queue).or_default();
        *(if it.was_ready { &mut numbers.ready } else { &mut numbers.waiting }) += 1;
    }
}

/// Sets the answers of new tasks that were not inserted because their id or key is taken; the
/// others stay in `todo`.
fn refuse_taken(
    db: &Database,
    session: &Session,
    tasks: &[NewTask],
    todo: &mut Vec<usize>,
    ids: &mut [Uuid],
    answers: &mut [Submitted],
) {
    if todo.is_empty() {
        return;
    }
    let taken = taken_ids(session, tasks, todo);
    let mut holders = holders(session, tasks, todo);
    let chosen: Vec<&NewTask> = todo.iter().map(|at| &tasks[*at]).collect();
    let settled: HashMap<usize, Uuid> = (kept::kept_by(db, session, &chosen).into_iter())
        .map(|(position, id)| (todo[position], id))
        .filter(|(at, _)| !holders.contains_key(at))
        .collect();
    holders.extend(&settled);
    todo.retain(|at| {
        let task = &tasks[*at];
        let shown = |holder: &Uuid| task.draft.shows_holder.then_some(*holder);
        answers[*at] = match (holders.get(at), task.draft.on_conflict) {
            _ if taken.contains(&task.id) => Err(error::duplicate_id(task.id)),
            (Some(holder), OnConflict::Ignore) => {
                ids[*at] = *holder;
                Ok(false)
            }
            (Some(holder), OnConflict::Error) => {
                let (queue, key) = task.key().unwrap_or_default();
                Err(error::duplicate_key(queue, key, shown(holder), !settled.contains_key(at)))
            }
            (Some(holder), OnConflict::Replace) if settled.contains_key(at) => {
                Err(error::keeps_its_key(shown(holder)))
            }
            (Some(_), OnConflict::Replace) => return true,
            // The other task has ended meanwhile, or an unknown index refuses the row.
            (None, _) => return !insert_alone(db, session, task),
        };
        false
    });
}

/// The ids, of those that the caller gave, that a live or settled task has.
fn taken_ids(session: &Session, tasks: &[NewTask], some: &[usize]) -> HashSet<Uuid> {
    let given = some.iter().map(|at| &tasks[*at]).filter(|task| task.draft.id.is_some());
    let given: Vec<Uuid> = given.map(|task| task.id).collect();
    if given.is_empty() {
        return HashSet::new();
    }
    let live = ids_of(session, &LIVE, given.iter().copied());
    live.into_iter().chain(settled(session, given.into_iter()).into_iter().map(|it| it.0)).collect()
}

/// The live tasks that have the keys of some new tasks, by the positions of these.
fn holders(session: &Session, tasks: &[NewTask], some: &[usize]) -> HashMap<usize, Uuid> {
    let keyed: Vec<(usize, KeyName)> =
        some.iter().filter_map(|at| tasks[*at].key().map(|key| (*at, key))).collect();
    if keyed.is_empty() {
        return HashMap::new();
    }
    let names = keyed.iter().map(|(_, name)| *name);
    let found = find_holders(session, names, false);
    found.into_iter().map(|(position, id)| (keyed[position].0, id)).collect()
}

fn find_holders<'n>(
    session: &Session,
    names: impl Iterator<Item = KeyName<'n>> + Clone,
    with_runs: bool,
) -> Vec<(usize, Uuid)> {
    let column = |part: fn(KeyName<'n>) -> &'n [u8]| {
        Some(datum::array(TEXTS, names.clone().map(|name| Some(datum::varlena(part(name))))))
    };
    let with_runs = Some(Datum::from(with_runs));
    let rows =
        session.run(&KEY_HOLDERS, &[column(|name| name.0), column(|name| name.1), with_runs]);
    let position = |row| datum::number(rows.get(row, 0)) as usize - 1;
    (0..rows.len()).map(|row| (position(row), id_at(&rows, row, 1))).collect()
}

/// The live task of a queue that has this key; of a run of an SQL command and another task, the
/// run.
pub fn task_id(db: &Database, queue: &[u8], key: &[u8]) -> Option<Uuid> {
    find_holders(&session(db), std::iter::once((queue, key)), true).pop().map(|(_, id)| id)
}
