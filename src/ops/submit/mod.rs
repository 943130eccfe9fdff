//! Submitting: inserts one row per task; the commit offers ready tasks on the board (I2).

use crate::error::{self, Result};
use crate::extension::database::Database;
use crate::ops::dependencies::add::{Predecessors, add_edges};
use crate::ops::dependencies::graph;
use crate::ops::submit::draft::{Draft, NewTask, Submitted};
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
    let mut tasks: Vec<NewTask> =
        (0..).zip(drafts).map(|(at, draft)| NewTask::new(draft, now, first + Micros(at))).collect();
    order_ids(&mut tasks);
    let mut answers: Vec<Submitted> = tasks.iter().map(|_| Ok(true)).collect();
    let mut ids: Vec<Uuid> = tasks.iter().map(|task| task.id).collect();
    refuse_second_ids(&ids, &mut answers);
    refuse_cycles(&tasks, &mut answers);
    let predecessors = attach(&session, &mut tasks, &answers);
    if may_order {
        order::look_up(db, &session, &mut tasks);
    }
    // `max_ready` is checked before the insertion, where no task can turn out a duplicate.
    let is_new = |task: &&NewTask| task.draft.id.is_none() && task.draft.key.is_none();
    let valid = tasks.iter().zip(&answers).filter(|(_, answer)| answer.is_ok());
    let new = valid.map(|(task, _)| task).filter(is_new);
    let announced = back_pressure::announce(db, new, &Replaced::new());
    error::unwrap_or_raise(announced);
    let replaced = match insert::write(db, &session, &mut tasks) {
        true => Replaced::new(),
        false => keys::insert_all(db, &session, &tasks, &mut ids, &mut answers),
    };
    let is_inserted = |at: &usize| matches!(answers[*at], Ok(true));
    let inserted: Vec<&NewTask> =
        (0..tasks.len()).filter(is_inserted).map(|at| &tasks[at]).collect();
    let others = inserted.iter().copied().filter(|task| !is_new(task));
    error::unwrap_or_raise(back_pressure::announce(db, others, &replaced));
    let free = inserted.iter().filter(|task| task.after.is_empty());
    xact::at_commit(db, free.map(|task| task.change()));
    for (queue, numbers) in by_queue(inserted.iter().copied()) {
        numbers::count(db, queue, numbers);
    }
    if let Some(mut predecessors) = predecessors {
        if !replaced.is_empty() {
            // A replaced task may be among the predecessors.
            predecessors = Predecessors::lock(&session, wanted(&tasks));
        }
        let edges = inserted.iter().flat_map(|it| it.after.iter().map(|after| (*after, it.id)));
        let new: HashSet<Uuid> = inserted.iter().map(|task| task.id).collect();
        add_edges(db, &session, edges.collect(), &predecessors, &new);
    }
    ids.into_iter().zip(answers).collect()
}

/// Inserts tasks that wait for no others, and whose ids and times no other task has.
pub fn insert_new(db: &Database, mut tasks: Vec<NewTask>) {
    let session = session(db);
    error::unwrap_or_raise(back_pressure::announce(db, tasks.iter(), &Replaced::new()));
    if !insert::write(db, &session, &mut tasks) {
        insert::insert(db, &session, &tasks.iter().collect::<Vec<_>>());
    }
    xact::at_commit(db, tasks.iter().map(NewTask::change));
    for (queue, numbers) in by_queue(tasks.iter()) {
        numbers::count(db, queue, numbers);
    }
}

/// Makes the generated ids ascend with the times of submission: tasks are found and settled in the
/// order of their ids, and lie one after the other then.
fn order_ids(tasks: &mut [NewTask]) {
    let is_generated = |task: &&mut NewTask| task.draft.id.is_none();
    let mut ids: Vec<Uuid> = tasks.iter_mut().filter(is_generated).map(|task| task.id).collect();
    ids.sort_unstable();
    let generated = tasks.iter_mut().filter(is_generated);
    generated.zip(ids).for_each(|(task, id)| task.id = id);
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
fn refuse_cycles(tasks: &[NewTask], answers: &mut [Submitted]) {
    if tasks.iter().all(|task| task.draft.after.is_empty()) {
        return;
    }
    let edges = || tasks.iter().flat_map(|it| it.draft.after.iter().map(|after| (*after, it.id)));
    let stuck = graph::in_cycles(edges());
    let mut refused = None;
    for (task, answer) in tasks.iter().zip(answers) {
        if answer.is_ok() && stuck.contains(&task.id) {
            // Only the first of them can be raised.
            let cycle = || error::cycle(&graph::find_cycle(edges(), &stuck, task.id));
            *answer = Err(refused.get_or_insert_with(cycle).clone());
        }
    }
}

/// Finds the predecessors that count, in the table and within the batch, and locks those in the
/// table so that they cannot settle before this transaction ends.
fn attach(session: &Session, tasks: &mut [NewTask], answers: &[Submitted]) -> Option<Predecessors> {
    if tasks.iter().all(|task| task.draft.after.is_empty()) {
        return None;
    }
    let predecessors = Predecessors::lock(session, wanted(tasks));
    let named: HashSet<Uuid> = wanted(tasks).collect();
    let coming: HashSet<Uuid> = (tasks.iter().zip(answers))
        .filter(|(task, answer)| answer.is_ok() && !predecessors.is_known(task.id))
        .map(|(task, _)| task.id)
        .collect();
    let holds = |id: &Uuid| {
        predecessors.is_live(*id) || predecessors.has_failed(*id) || coming.contains(id)
    };
    for task in tasks {
        task.after = distinct(task.draft.after.iter().copied().filter(holds));
        task.has_dependents = named.contains(&task.id);
    }
    Some(predecessors)
}

/// The predecessors of some tasks.
fn wanted(tasks: &[NewTask]) -> impl Iterator<Item = Uuid> {
    tasks.iter().flat_map(|task| task.draft.after.iter().copied())
}
