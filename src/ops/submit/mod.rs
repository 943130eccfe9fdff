//! Submitting: inserts one row per task; the commit offers ready tasks on the board (I2).

use crate::error::{self, Result};
use crate::extension::database::Database;
use crate::ops::dependencies::add::{Predecessors, add_edges};
use crate::ops::dependencies::graph;
use crate::ops::submit::draft::{Draft, Entry, Submitted};
use crate::ops::submit::keys::Replaced;
use crate::ops::submit::numbers::by_queue;
use crate::pg::spi::Session;
use crate::pg::time;
use crate::pg::uuid::Uuid;
use crate::storage::rows::{distinct, session};
use crate::xact;
use board::Micros;
use std::collections::HashSet;

pub mod back_pressure;
pub mod created;
pub mod delay;
pub mod draft;
pub mod insert;
pub mod kept;
pub mod keys;
pub mod messages;
pub mod numbers;
pub mod order;

/// Submits one task; returns its id, or that of the live task with its key (`on_conflict =>
/// 'ignore'`), and whether it is the former.
pub fn submit(db: &Database, draft: &Draft) -> Result<(Uuid, bool)> {
    let submitted = submit_tasks(db, std::slice::from_ref(draft)).pop();
    let (id, submitted) = submitted.unwrap_or_else(|| unreachable!("one answer for one draft"));
    submitted.map(|is_new| (id, is_new))
}

/// Submits many tasks at once. For each: its id, and its outcome.
pub fn submit_tasks(db: &Database, drafts: &[Draft]) -> Vec<(Uuid, Submitted)> {
    let now = time::now().wall;
    // A microsecond apart, so that the order of the array is the order of age.
    let (first, may_order) = created::take(db, now, drafts.len());
    let session = session(db);
    let mut entries: Vec<Entry> =
        (0..).zip(drafts).map(|(at, draft)| Entry::new(draft, now, first + Micros(at))).collect();
    order_ids(&mut entries);
    let mut answers: Vec<Submitted> = entries.iter().map(|_| Ok(true)).collect();
    let mut ids: Vec<Uuid> = entries.iter().map(|entry| entry.id).collect();
    refuse_second_ids(&ids, &mut answers);
    refuse_cycles(&entries, &mut answers);
    let predecessors = attach(&session, &mut entries, &answers);
    if may_order {
        order::look_up(db, &session, &mut entries);
    }
    // Those that cannot be duplicates: what is refused is not inserted before.
    let is_new = |entry: &&Entry| entry.draft.id.is_none() && entry.draft.key.is_none();
    let valid = entries.iter().zip(&answers).filter(|(_, answer)| answer.is_ok());
    let new = valid.map(|(entry, _)| entry).filter(is_new);
    let announced = back_pressure::announce(db, new, &Replaced::new());
    error::unwrap_or_raise(announced);
    let replaced = match insert::write(db, &session, &mut entries) {
        true => Replaced::new(),
        false => keys::insert_all(db, &session, &entries, &mut ids, &mut answers),
    };
    let is_inserted = |at: &usize| matches!(answers[*at], Ok(true));
    let inserted: Vec<&Entry> =
        (0..entries.len()).filter(is_inserted).map(|at| &entries[at]).collect();
    let others = inserted.iter().copied().filter(|entry| !is_new(entry));
    error::unwrap_or_raise(back_pressure::announce(db, others, &replaced));
    let free = inserted.iter().filter(|entry| entry.after.is_empty());
    xact::at_commit(db, free.map(|entry| entry.change()));
    for (queue, numbers) in by_queue(inserted.iter().copied()) {
        numbers::count(db, queue, numbers);
    }
    if let Some(mut predecessors) = predecessors {
        if !replaced.is_empty() {
            // A replaced task may be among the predecessors.
            predecessors = Predecessors::lock(&session, wanted(&entries));
        }
        let edges = inserted.iter().flat_map(|it| it.after.iter().map(|after| (*after, it.id)));
        let new: HashSet<Uuid> = inserted.iter().map(|entry| entry.id).collect();
        add_edges(db, &session, edges.collect(), &predecessors, &new);
    }
    ids.into_iter().zip(answers).collect()
}

/// Inserts tasks that wait for no others, and whose ids and times no other task has.
pub fn insert_new(db: &Database, mut entries: Vec<Entry>) {
    let session = session(db);
    error::unwrap_or_raise(back_pressure::announce(db, entries.iter(), &Replaced::new()));
    if !insert::write(db, &session, &mut entries) {
        insert::insert(db, &session, &entries.iter().collect::<Vec<_>>());
    }
    xact::at_commit(db, entries.iter().map(Entry::change));
    for (queue, numbers) in by_queue(entries.iter()) {
        numbers::count(db, queue, numbers);
    }
}

/// Makes the generated ids ascend with the times of submission: tasks are found and settled in the
/// order of their ids, and lie one after the other then.
fn order_ids(entries: &mut [Entry]) {
    let is_generated = |entry: &&mut Entry| entry.draft.id.is_none();
    let mut ids: Vec<Uuid> =
        entries.iter_mut().filter(is_generated).map(|entry| entry.id).collect();
    ids.sort_unstable();
    let generated = entries.iter_mut().filter(is_generated);
    generated.zip(ids).for_each(|(entry, id)| entry.id = id);
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

/// Refuses tasks of the batch that are part of a cycle, or depend on one.
fn refuse_cycles(entries: &[Entry], answers: &mut [Submitted]) {
    if entries.iter().all(|entry| entry.draft.after.is_empty()) {
        return;
    }
    let edges = || entries.iter().flat_map(|it| it.draft.after.iter().map(|after| (*after, it.id)));
    let stuck = graph::in_cycles(edges());
    let mut refused = None;
    for (entry, answer) in entries.iter().zip(answers) {
        if answer.is_ok() && stuck.contains(&entry.id) {
            // Only the first of them can be raised.
            let cycle = || error::cycle(&graph::find_cycle(edges(), &stuck, entry.id));
            *answer = Err(refused.get_or_insert_with(cycle).clone());
        }
    }
}

/// Finds the predecessors that count, in the table and within the batch, and locks those in the
/// table so that they cannot settle before this transaction ends.
fn attach(session: &Session, entries: &mut [Entry], answers: &[Submitted]) -> Option<Predecessors> {
    if entries.iter().all(|entry| entry.draft.after.is_empty()) {
        return None;
    }
    let predecessors = Predecessors::lock(session, wanted(entries));
    let named: HashSet<Uuid> = wanted(entries).collect();
    let coming: HashSet<Uuid> = (entries.iter().zip(answers))
        .filter(|(entry, answer)| answer.is_ok() && !predecessors.is_known(entry.id))
        .map(|(entry, _)| entry.id)
        .collect();
    let holds = |id: &Uuid| {
        predecessors.is_live(*id) || predecessors.has_failed(*id) || coming.contains(id)
    };
    for entry in entries {
        entry.after = distinct(entry.draft.after.iter().copied().filter(holds));
        entry.has_dependents = named.contains(&entry.id);
    }
    Some(predecessors)
}

/// The predecessors of some tasks.
fn wanted(entries: &[Entry]) -> impl Iterator<Item = Uuid> {
    entries.iter().flat_map(|entry| entry.draft.after.iter().copied())
}
