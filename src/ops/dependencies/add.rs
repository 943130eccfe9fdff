//! Depending: a task waits for others, from its submission on or later.

use crate::error::{self, Result};
use crate::extension::database::Database;
use crate::ops::dependencies::count_down::{SettledCounts, count_down_dependents, counted_edges};
use crate::ops::dependencies::graph::{downstream, find_cycle, in_cycles};
use crate::ops::locking::lock::Locked;
use crate::pg::datum::{self, INTEGERS, TEXTS, TIMESTAMPTZ, UUIDS};
use crate::pg::spi::{Session, statement};
use crate::pg::time;
use crate::pg::uuid::Uuid;
use crate::storage::edges::{columns, edges_in};
use crate::storage::rows::{LIVE, distinct, id_at, ids, ids_of, session, settled, text_of_array};
use crate::xact::{self, Change};
use board::COMPLETED;
use pgrx::pg_sys::{self, Datum};
use std::collections::{HashMap, HashSet};

statement!(LOCK_PREDECESSORS, "dependencies/lock_predecessors", [UUIDS]);
statement!(MARK_HAS_DEPENDENTS, "dependencies/mark_has_dependents", [UUIDS]);
statement!(INSERT_EDGES, "dependencies/insert_edges", [UUIDS, UUIDS]);
statement!(ADD_PENDING, "dependencies/add_pending", [TIMESTAMPTZ, UUIDS, INTEGERS, TEXTS]);

/// How predecessors stand. What is in neither map counts as settled.
#[derive(Default)]
pub struct Predecessors {
    live: HashSet<Uuid>,
    /// Whether it failed.
    settled: HashMap<Uuid, bool>,
}

impl Predecessors {
    /// Keeps predecessors from settling until the transaction ends, and tells how they stand.
    pub fn lock(session: &Session, wanted: impl Iterator<Item = Uuid>) -> Predecessors {
        let wanted = distinct(wanted);
        let mut predecessors = Predecessors::default();
        if wanted.is_empty() {
            return predecessors;
        }
        let rows = session.run(&LOCK_PREDECESSORS, &[ids(wanted.iter().copied())]);
        predecessors.live = (0..rows.len()).map(|row| id_at(&rows, row, 0)).collect();
        let unmarked: Vec<Uuid> = (0..rows.len())
            .filter(|row| datum::number(rows.get(*row, 1)) == 0)
            .map(|row| id_at(&rows, row, 0))
            .collect();
        if !unmarked.is_empty() {
            session.run(&MARK_HAS_DEPENDENTS, &[ids(unmarked.into_iter())]);
        }
        // Looked for after the live ones are locked, so that one that settled meanwhile is seen
        // here.
        let others = wanted.iter().copied().filter(|id| !predecessors.live.contains(id));
        if others.clone().next().is_some() {
            let settled = settled(session, others).into_iter();
            predecessors.settled = settled.map(|(id, status)| (id, status != COMPLETED)).collect();
        }
        predecessors
    }

    pub fn is_live(&self, id: Uuid) -> bool {
        self.live.contains(&id)
    }

    pub fn is_known(&self, id: Uuid) -> bool {
        self.is_live(id) || self.settled.contains_key(&id)
    }

    pub fn has_failed(&self, id: Uuid) -> bool {
        self.settled.get(&id).copied().unwrap_or(false)
    }
}

/// Links tasks to their predecessors, of which each counts all as pending. Those that have failed,
/// or are neither live nor among the `new` ones any more, are counted down again.
pub fn add_edges(
    db: &Database,
    session: &Session,
    edges: Vec<(Uuid, Uuid)>,
    predecessors: &Predecessors,
    new: &HashSet<Uuid>,
) {
    let is_waited_for = |after: &Uuid| predecessors.is_live(*after) || new.contains(after);
    let (mut live, others): (Vec<_>, Vec<_>) =
        edges.into_iter().partition(|(after, _)| is_waited_for(after));
    // An id that this batch was to insert, and another transaction inserted meanwhile.
    let foreign = others.iter().map(|(after, _)| *after).filter(|id| !predecessors.is_known(*id));
    let meanwhile = Predecessors::lock(session, foreign);
    let mut counts = SettledCounts::default();
    for (after, task) in others {
        if meanwhile.is_live(after) {
            live.push((after, task));
        } else {
            let failed = predecessors.has_failed(after) || meanwhile.has_failed(after);
            counts.note(after, task, failed);
        }
    }
    insert_edges(session, live);
    count_down_dependents(db, session, counts);
}

/// Inserts edges; returns those that are new.
fn insert_edges(session: &Session, mut edges: Vec<(Uuid, Uuid)>) -> Vec<(Uuid, Uuid)> {
    if edges.is_empty() {
        return edges;
    }
    edges.sort_unstable();
    let rows = session.run(&INSERT_EDGES, &columns(&edges));
    edges_in(&rows).collect()
}

/// Makes live tasks wait for more predecessors (predecessor, task); returns how many edges are new.
/// `authorize`: whether that may be done to a task of a queue.
pub fn add(
    db: &Database,
    edges: &[(Uuid, Uuid)],
    authorize: impl Fn(Uuid, &[u8]) -> Result<()>,
) -> Result<usize> {
    let edges = distinct(edges.iter().copied());
    if let Some((id, _)) = edges.iter().find(|(after, task)| after == task) {
        return Err(error::cycle(&[*id]));
    }
    let session = session(db);
    let predecessors = distinct(edges.iter().map(|(after, _)| *after));
    let live = distinct(ids_of(&session, &LIVE, predecessors.iter().copied()).into_iter());
    if !live.is_empty() {
        // One at a time looks for cycles: two halves of one may come from two sessions. Without a
        // live predecessor there is no edge, and no cycle.
        // SAFETY: a lock on an object of this database, released at the transaction's end.
        unsafe {
            let mode = pg_sys::ExclusiveLock as i32;
            pg_sys::LockDatabaseObject(pg_sys::ExtensionRelationId, db.extension, 1, mode);
        }
    }
    // A task that gets the id of an absent predecessor from now on comes after this call.
    let wanted = distinct(edges.iter().map(|(_, task)| *task).chain(live.iter().copied()));
    let locked = Locked::lock(db, &session, &wanted);
    locked.authorize(authorize)?;
    let is_live = |id: &Uuid| locked.ids.binary_search(id).is_ok();
    let all = distinct(predecessors.iter().copied().chain(wanted.iter().copied()));
    let others = all.iter().copied().filter(|id| !is_live(id));
    let settled: HashMap<Uuid, String> = settled(&session, others).into_iter().collect();
    let tasks = distinct(edges.iter().map(|(_, task)| *task));
    for task in &tasks {
        let Ok(at) = locked.ids.binary_search(task) else {
            return Err(settled.get(task).map_or_else(
                || error::no_such_task(*task),
                |status| error::wrong_status(*task, status),
            ));
        };
        if !locked.withdraw(db, at)? {
            return Err(error::wrong_status(*task, "running"));
        }
    }
    let is_waited_for = |id: &Uuid| live.binary_search(id).is_ok() && is_live(id);
    let waited_for: Vec<Uuid> = predecessors.into_iter().filter(is_waited_for).collect();
    session.run(&MARK_HAS_DEPENDENTS, &[ids(waited_for.into_iter())]);
    let live = edges.iter().copied().filter(|(after, _)| is_waited_for(after)).collect();
    let new = insert_edges(&session, live);
    refuse_cycles(&session, &new)?;
    let has_failed = |id: &Uuid| settled.get(id).is_some_and(|status| status != COMPLETED);
    let failed: Vec<(Uuid, Uuid)> =
        edges.iter().copied().filter(|(after, _)| has_failed(after)).collect();
    let counted = counted_edges(&session, failed.iter().map(|(_, task)| *task));
    let failed = failed.into_iter().filter(|edge| !counted.contains(edge));
    let mut counts = SettledCounts::default();
    failed.clone().for_each(|(after, task)| counts.note(after, task, true));
    add_pending(&session, new.iter().copied().chain(failed));
    // Withdrawn, but without a new predecessor: it is offered again, since the commit removes its
    // slot.
    let waiting: HashSet<Uuid> = new.iter().map(|(_, task)| *task).chain(counts.tasks()).collect();
    for at in waiting.iter().filter_map(|task| locked.ids.binary_search(task).ok()) {
        if locked.is_ready(at) {
            xact::count(db, &locked.queue(at), |counts| counts.became_ready(-1));
        }
    }
    let ready = tasks.iter().filter(|task| !waiting.contains(task));
    let positions = ready.filter_map(|task| locked.ids.binary_search(task).ok());
    xact::at_commit(db, positions.filter_map(|at| locked.offer(at)).map(Change::Offer));
    count_down_dependents(db, &session, counts);
    Ok(new.len())
}

/// Makes tasks count predecessors as pending.
fn add_pending(session: &Session, edges: impl Iterator<Item = (Uuid, Uuid)>) {
    let edges = distinct(edges.map(|(after, task)| (task, after)));
    if edges.is_empty() {
        return;
    }
    let by_task = || edges.chunk_by(|one, other| one.0 == other.0);
    let counts = by_task().map(|edges| Some(Datum::from(edges.len() as i32)));
    let after = by_task().map(|edges| {
        let after: Vec<Uuid> = edges.iter().map(|(_, after)| *after).collect();
        Some(text_of_array(&after))
    });
    session.run(
        &ADD_PENDING,
        &[
            Some(datum::timestamptz(time::now().wall)),
            ids(by_task().map(|edges| edges[0].0)),
            Some(datum::array(INTEGERS, counts)),
            Some(datum::array(TEXTS, after)),
        ],
    );
}

/// Refuses new edges that close a cycle: it would go through what waits for their tasks.
fn refuse_cycles(session: &Session, new: &[(Uuid, Uuid)]) -> Result<()> {
    let tasks = new.iter().map(|(_, task)| *task);
    let edges = downstream(session, tasks);
    let stuck = in_cycles(edges.iter().copied());
    match new.iter().find(|(after, task)| stuck.contains(after) && stuck.contains(task)) {
        Some((_, task)) => Err(error::cycle(&find_cycle(edges.into_iter(), &stuck, *task))),
        None => Ok(()),
    }
}
