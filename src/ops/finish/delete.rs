//! Deleting tasks, live or settled, and with them the dependents that are left with no predecessor.

use crate::error::Result;
use crate::extension::database::Database;
use crate::ops::dependencies::count_down::{
    SettledCounts, count_down_dependents, run_deferred_for,
};
use crate::ops::dependencies::graph::downstream;
use crate::ops::locking::lock::Locked;
use crate::pg::datum::{self, UUIDS};
use crate::pg::spi::{Session, Statement, statement};
use crate::pg::uuid::Uuid;
use crate::storage::edges::delete_edges_after;
use crate::storage::rows::{distinct, ids, ids_in, session};
use crate::xact;
use std::collections::{HashMap, HashSet};

statement!(DELETE_LIVE, "finish/delete_live", [UUIDS]);
statement!(DELETE_FINISHED, "finish/delete_finished", [UUIDS]);
statement!(DELETE_UNLOCKED, "finish/delete_unlocked", [UUIDS]);

/// Deletes tasks; returns how many, dependents included. `authorize`: whether a task of a queue may
/// be deleted.
pub fn delete(
    db: &Database,
    wanted: &[Uuid],
    authorize: impl Fn(Uuid, &[u8]) -> Result<()>,
) -> Result<usize> {
    let wanted = distinct(wanted.iter().copied());
    // First the settled ones: so does a resubmission, which then waits for a live task with its
    // key.
    let settled = delete_settled(db, wanted.clone(), &authorize)?;
    let left = without(wanted, settled.clone());
    let live = delete_live(db, left.clone(), &authorize, |_, _, wanted| Ok(wanted))?;
    let late = delete_late(db, without(left, live.clone()), &authorize)?;
    Ok(settled.len() + live.len() + late.len())
}

fn without(mut ids: Vec<Uuid>, gone: Vec<Uuid>) -> Vec<Uuid> {
    let gone: HashSet<Uuid> = gone.into_iter().collect();
    ids.retain(|id| !gone.contains(id));
    ids
}

/// Deletes settled tasks, which `authorize` allows. Returns those that were there.
pub fn delete_settled(
    db: &Database,
    wanted: Vec<Uuid>,
    authorize: impl Fn(Uuid, &[u8]) -> Result<()>,
) -> Result<Vec<Uuid>> {
    delete_by(&DELETE_FINISHED, db, wanted, authorize)
}

/// Deletes those that settled before they could be locked. A task that another transaction
/// resubmits or deletes is left to it: that one may wait for a live task which this one has locked.
pub fn delete_late(
    db: &Database,
    wanted: Vec<Uuid>,
    authorize: impl Fn(Uuid, &[u8]) -> Result<()>,
) -> Result<Vec<Uuid>> {
    delete_by(&DELETE_UNLOCKED, db, wanted, authorize)
}

fn delete_by(
    statement: &Statement,
    db: &Database,
    wanted: Vec<Uuid>,
    authorize: impl Fn(Uuid, &[u8]) -> Result<()>,
) -> Result<Vec<Uuid>> {
    if wanted.is_empty() {
        return Ok(wanted);
    }
    let session = session(db);
    let rows = session.run(statement, &[ids(wanted.into_iter())]);
    let gone: Vec<Uuid> = ids_in(&rows).collect();
    for (row, id) in gone.iter().enumerate() {
        authorize(*id, &datum::text(rows.get(row, 1)))?;
    }
    Ok(gone)
}

/// Deletes live tasks, which are distinct, and their dependents that are left with nothing to wait
/// for. Returns all that went, in the order of their ids. `still`: which of them are to go, now
/// that their rows are locked.
pub fn delete_live(
    db: &Database,
    wanted: Vec<Uuid>,
    authorize: impl Fn(Uuid, &[u8]) -> Result<()>,
    still: impl Fn(&Session, &Locked, Vec<Uuid>) -> Result<Vec<Uuid>>,
) -> Result<Vec<Uuid>> {
    let session = session(db);
    // All tasks that may have to go are locked in the order of their ids, so that no edge can be
    // added.
    let mut reach = wanted.clone();
    let (locked, edges) = loop {
        let further = downstream(&session, wanted.iter().copied()).into_iter().map(|it| it.1);
        reach = distinct(reach.into_iter().chain(further));
        let locked = Locked::lock(db, &session, &reach);
        // A deferred countdown may leave a dependent with no predecessor: it runs first.
        if run_deferred_for(db, &session, &locked.ids) {
            continue;
        }
        let edges = downstream(&session, wanted.iter().copied());
        if edges.iter().all(|(_, task)| reach.binary_search(task).is_ok()) {
            break (locked, edges);
        }
    };
    let wanted = still(&session, &locked, wanted)?;
    let mut dependents: HashMap<Uuid, Vec<Uuid>> = HashMap::new();
    for (after, task) in edges {
        dependents.entry(after).or_default().push(task);
    }
    let mut left: HashMap<Uuid, usize> =
        locked.ids.iter().enumerate().map(|(at, id)| (*id, locked.pending(at))).collect();
    let mut wave: Vec<Uuid> = wanted.iter().copied().filter(|id| left.contains_key(id)).collect();
    let mut gone: HashSet<Uuid> = wave.iter().copied().collect();
    while let Some(id) = wave.pop() {
        for task in dependents.get(&id).into_iter().flatten() {
            if let Some(left) = left.get_mut(task) {
                *left = left.saturating_sub(1);
                if *left == 0 && gone.insert(*task) {
                    wave.push(*task);
                }
            }
        }
    }
    let mut counts = SettledCounts::default();
    let gone = distinct(gone.into_iter());
    if !gone.is_empty() {
        let positions = || gone.iter().filter_map(|id| locked.ids.binary_search(id).ok());
        for at in positions() {
            let queue = locked.queue(at);
            authorize(locked.ids[at], &queue)?;
            xact::count(db, &queue, |counts| counts.add_tasks(locked.is_ready(at), -1));
        }
        xact::at_commit(db, positions().map(|at| locked.removal(at)));
        locked.delete_edges(&session, &gone);
        for edge in delete_edges_after(&session, gone.iter().copied()) {
            counts.note_edge(&edge, false);
        }
        session.run(&DELETE_LIVE, &[ids(gone.iter().copied())]);
    }
    count_down_dependents(db, &session, counts);
    Ok(gone)
}
