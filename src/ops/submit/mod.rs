//! Submitting: one row is inserted; the board learns of it at the commit (I2).

use crate::error::{self, Result};
use crate::ops::dependencies::add::{Standing, link};
use crate::ops::dependencies::graph;
use crate::ops::submit::draft::{Draft, Entry, Submitted};
use crate::pg::spi::Session;
use crate::pg::time;
use crate::pg::uuid::Uuid;
use crate::shmem::database::Home;
use crate::shmem::xact::{self, Change};
use crate::storage::rows::session;
use std::collections::BTreeSet;
use std::collections::HashSet;

pub mod delay;
pub mod draft;
pub mod insert;
pub mod keys;
pub mod messages;

/// Submits one task; returns its id, or that of the live task that stands for it.
pub fn submit(home: &Home, draft: &Draft) -> Result<Uuid> {
    if draft.is_plain() {
        let entry = Entry::new(draft, time::now().wall);
        insert::insert_new(&session(home), &entry);
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
    let replaced = keys::insert_all(home, &session, &entries, &mut ids, &mut answers);
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
        link(home, &session, links.collect(), &standing, &new);
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
    let stuck = graph::in_circles(links);
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
