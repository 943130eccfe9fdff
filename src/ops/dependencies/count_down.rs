//! Counting down: a task that settles is one predecessor less for each of its dependents. When the
//! task failed, its dependents are aborted, unless they run on failure.
//!
//! A transaction that settles a task never waits for a lock on a dependent. Dependents whose rows
//! are locked are recorded in `scylla.countdown`; the scheduler retries them when the lock is
//! released.

use crate::extension::database::Database;
use crate::pg::datum::{self, BIGINT, INTEGERS, TIMESTAMPTZ, TIMESTAMPTZS, UUIDS};
use crate::pg::spi::{Rows, Session, statement};
use crate::pg::uuid::Uuid;
use crate::pg::{jsonb, time};
use crate::storage::edges::{DeletedEdge, delete_edges, delete_edges_after, edges_of};
use crate::storage::ending::{Ended, Ending};
use crate::storage::lookup::TaskLookup;
use crate::storage::rows::{BoardKey, id_at, ids, session};
use crate::storage::settle::settle;
use crate::xact::{self, Change, Offer};
use board::{ABORTED, COMPLETED, Wall};
use pgrx::pg_sys::{self, Datum};
use std::collections::{HashMap, HashSet};

statement!(
    COUNT_DOWN,
    "dependencies/count_down",
    [TIMESTAMPTZ, UUIDS, INTEGERS, INTEGERS, TIMESTAMPTZS]
);
statement!(LOCK_DEPENDENTS, "dependencies/lock_dependents", [UUIDS]);
statement!(
    DEFER_COUNTDOWN,
    "dependencies/defer_countdown",
    [UUIDS, INTEGERS, INTEGERS, UUIDS, TIMESTAMPTZS]
);
statement!(TAKE_DEFERRED, "dependencies/take_deferred", [BIGINT]);
statement!(TAKE_DEFERRED_FOR, "dependencies/take_deferred_for", [UUIDS]);

/// How many predecessors of one task have settled.
#[derive(Clone, Copy, Default)]
pub struct SettledCount {
    settled: i32,
    failed: i32,
    /// One of the failed predecessors.
    cause: Option<Uuid>,
    /// When the task was submitted: another task may have got its id since. `None`: none may.
    created: Option<Wall>,
}

impl SettledCount {
    fn of(after: Uuid, failed: bool, created: Option<Wall>) -> SettledCount {
        let cause = failed.then_some(after);
        SettledCount { settled: 1, failed: failed.into(), cause, created }
    }

    fn add(&mut self, other: SettledCount) {
        self.settled += other.settled;
        self.failed += other.failed;
        self.cause = self.cause.or(other.cause);
        self.created = self.created.or(other.created);
    }
}

/// The counts of several tasks, by the task that waits.
#[derive(Default)]
pub struct SettledCounts(HashMap<Uuid, SettledCount>);

impl SettledCounts {
    /// Notes that the predecessor `after` of `task` has settled. This transaction has inserted or
    /// locked the task's row.
    pub fn note(&mut self, after: Uuid, task: Uuid, failed: bool) {
        self.add(task, SettledCount::of(after, failed, None));
    }

    /// Notes that the predecessor of an edge has settled, or is deleted.
    pub fn note_edge(&mut self, edge: &DeletedEdge, failed: bool) {
        self.add(edge.task, SettledCount::of(edge.after, failed, Some(edge.created)));
    }

    pub fn tasks(&self) -> impl Iterator<Item = Uuid> {
        self.0.keys().copied()
    }

    fn add(&mut self, task: Uuid, count: SettledCount) {
        self.0.entry(task).or_default().add(count);
    }

    /// One number per task as an array, in the order of `tasks`.
    fn column(&self, value: fn(&SettledCount) -> i32) -> Option<Datum> {
        let values = self.0.values().map(|count| Some(Datum::from(value(count))));
        Some(datum::array(INTEGERS, values))
    }

    /// When each task was submitted, in the order of `tasks`.
    fn created(&self) -> Option<Datum> {
        let values = self.0.values().map(|count| count.created.map(datum::timestamptz));
        Some(datum::array(TIMESTAMPTZS, values))
    }
}

/// Counts down the dependents of tasks that have just settled. At the commit, processes that wait
/// for these tasks are woken.
pub fn settle_dependents(db: &Database, session: &Session, ended: &[Ended]) {
    tell(db, ended);
    count_down_dependents(db, session, counts_of(session, ended));
}

/// Counts predecessors down; the dependents of an aborted dependent are counted down in turn.
/// Returns how many tasks are deferred to the scheduler.
pub fn count_down_dependents(db: &Database, session: &Session, mut counts: SettledCounts) -> usize {
    let mut left = 0;
    while !counts.0.is_empty() {
        pgrx::check_for_interrupts!();
        let (aborted, locked) = abort_dependents(db, session, &mut counts);
        left += locked + count_down(db, session, counts);
        tell(db, &aborted);
        counts = counts_of(session, &aborted);
        // Other transactions that find these rows locked defer their countdown until this one ends.
        xact::at_commit(db, [Change::RowsReleased]);
    }
    left
}

/// Registers the wake-up of processes that wait for the end of these tasks.
fn tell(db: &Database, ended: &[Ended]) {
    let told = ended.iter().filter(|it| it.post_result && it.is_settled());
    xact::at_commit(db, told.map(|it| Change::Settled(it.id.0)));
}

/// Deletes the edges of tasks that have settled; returns what that means to their dependents.
fn counts_of(session: &Session, ended: &[Ended]) -> SettledCounts {
    let mut counts = SettledCounts::default();
    let mut with_dependents: Vec<(Uuid, bool)> = (ended.iter())
        .filter(|ended| ended.has_dependents && ended.is_settled())
        .map(|ended| (ended.id, ended.status != COMPLETED))
        .collect();
    if with_dependents.is_empty() {
        return counts;
    }
    with_dependents.sort_unstable();
    for edge in delete_edges_after(session, with_dependents.iter().map(|(id, _)| *id)) {
        counts.note_edge(&edge, with_dependents.binary_search(&(edge.after, true)).is_ok());
    }
    counts
}

/// Aborts the tasks in `counts` of which a predecessor failed, unless they run on failure, and
/// takes them out of `counts`. Tasks whose rows are locked are deferred. Returns the aborted tasks,
/// and how many are deferred.
fn abort_dependents(
    db: &Database,
    session: &Session,
    counts: &mut SettledCounts,
) -> (Vec<Ended>, usize) {
    let mut failing: Vec<Uuid> =
        counts.0.iter().filter(|(_, count)| count.failed > 0).map(|(task, _)| *task).collect();
    if failing.is_empty() {
        return (Vec::new(), 0);
    }
    failing.sort_unstable();
    let rows = session.run(&LOCK_DEPENDENTS, &[ids(failing.iter().copied())]);
    let (mut endings, mut edges) = (Vec::new(), Vec::new());
    let mut runs = HashSet::new();
    for row in 0..rows.len() {
        let task = id_at(&rows, row, 0);
        let meant = counts.0.get(&task).and_then(|count| count.created);
        if meant.is_some() && meant != rows.get(row, 3).map(datum::wall) {
            counts.0.remove(&task);
        } else if datum::number(rows.get(row, 1)) != 0 {
            runs.insert(task);
        } else if let Some(cause) = counts.0.remove(&task).and_then(|count| count.cause) {
            edges.extend(edges_of(task, rows.get(row, 2)));
            endings.push(aborted(task, cause));
        }
    }
    // The rows of the others are locked.
    let locked = (failing.into_iter())
        .filter(|task| !runs.contains(task))
        .filter_map(|task| counts.0.remove(&task).map(|count| (task, count)));
    let locked = defer_countdown(db, session, SettledCounts(locked.collect()));
    if endings.is_empty() {
        return (Vec::new(), locked);
    }
    delete_edges(session, &edges);
    (settle(db, session, |_| ABORTED, &endings), locked)
}

/// The ending of a task whose predecessor `cause` failed.
fn aborted(task: Uuid, cause: Uuid) -> Ending {
    let error = format!(
        r#"{{"code": "dependency_aborted", "args": {{"task": "{cause}"}}, "description": "a task that it waits for was aborted or cancelled"}}"#
    );
    Ending { error: Some(jsonb::parse(&error)), ..Ending::of(task) }
}

/// All edges of the tasks among `tasks` that run on failure: their failed predecessors are counted
/// already. This transaction has locked the rows.
pub fn counted_edges(
    session: &Session,
    tasks: impl Iterator<Item = Uuid> + Clone,
) -> HashSet<(Uuid, Uuid)> {
    if tasks.clone().next().is_none() {
        return HashSet::new();
    }
    let rows = session.run(&LOCK_DEPENDENTS, &[ids(tasks)]);
    (0..rows.len())
        .filter(|row| datum::number(rows.get(*row, 1)) != 0)
        .flat_map(|row| edges_of(id_at(&rows, row, 0), rows.get(row, 2)))
        .collect()
}

fn count_down(db: &Database, session: &Session, mut counts: SettledCounts) -> usize {
    let locked = locked(db, &mut counts);
    if counts.0.is_empty() {
        return defer_countdown(db, session, locked);
    }
    let rows = session.run(
        &COUNT_DOWN,
        &[
            Some(datum::timestamptz(time::now().wall)),
            ids(counts.0.keys().copied()),
            counts.column(|count| count.settled),
            counts.column(|count| count.failed),
            counts.created(),
        ],
    );
    for row in 0..rows.len() {
        let task = id_at(&rows, row, 0);
        counts.0.remove(&task);
        if datum::number(rows.get(row, 1)) != 0 {
            let behind = datum::number(rows.get(row, 9)) != 0;
            let offer = Offer { behind, ..BoardKey::at(&rows, row, 3, task).offer() };
            xact::count(db, &offer.queue, |counts| counts.became_ready(1));
            xact::at_commit(db, [Change::Offer(offer)]);
        } else if let Some(due) = rows.get(row, 2) {
            xact::at_commit(db, [Change::Due(datum::wall(due))]);
        }
    }
    counts.0.extend(locked.0);
    defer_countdown(db, session, counts)
}

/// Up to so many dependents are looked up one by one before a statement tries to lock them.
const FEW: usize = 8;

/// Takes the tasks whose rows are locked out of `counts`, if they are few: a statement would cost
/// more.
fn locked(db: &Database, counts: &mut SettledCounts) -> SettledCounts {
    let mut locked = SettledCounts::default();
    if (1..=FEW).contains(&counts.0.len())
        && let Some(mut lookup) = TaskLookup::open(db, pg_sys::AccessShareLock)
    {
        locked.0 =
            counts.0.extract_if(|task, _| lookup.find(*task) && lookup.is_locked()).collect();
        lookup.close();
    }
    locked
}

/// Records countdowns for the scheduler: the tasks' rows are locked, or no longer there. Returns
/// how many.
fn defer_countdown(db: &Database, session: &Session, counts: SettledCounts) -> usize {
    if counts.0.is_empty() {
        return 0;
    }
    let causes = counts.0.values().map(|count| count.cause.map(Uuid::datum));
    session.run(
        &DEFER_COUNTDOWN,
        &[
            ids(counts.0.keys().copied()),
            counts.column(|count| count.settled),
            counts.column(|count| count.failed),
            Some(datum::array(UUIDS, causes)),
            counts.created(),
        ],
    );
    xact::at_commit(db, [Change::CountdownDeferred]);
    counts.0.len()
}

/// Runs at most `most` deferred countdowns. Returns how many there were, and whether the row of any
/// task was free or gone.
pub fn run_deferred(db: &Database, most: usize) -> (usize, bool) {
    let session = session(db);
    let rows = session.run(&TAKE_DEFERRED, &[Some(Datum::from(most))]);
    let counts = counts_in(&rows);
    let is_any_gone = (0..rows.len()).any(|row| rows.get(row, 0).is_none());
    let tasks = counts.0.len();
    (rows.len(), count_down_dependents(db, &session, counts) < tasks || is_any_gone)
}

/// Runs the deferred countdowns of tasks that this transaction has locked; false when there were
/// none.
pub fn run_deferred_for(db: &Database, session: &Session, locked: &[Uuid]) -> bool {
    let rows = session.run(&TAKE_DEFERRED_FOR, &[ids(locked.iter().copied())]);
    let mut counts = counts_in(&rows);
    counts.0.retain(|_, count| count.settled > 0);
    count_down_dependents(db, session, counts);
    rows.len() > 0
}

fn counts_in(rows: &Rows) -> SettledCounts {
    let mut counts = SettledCounts::default();
    for row in (0..rows.len()).filter(|row| rows.get(*row, 0).is_some()) {
        let [settled, failed] = [1, 2].map(|column| datum::number(rows.get(row, column)) as i32);
        let cause = rows.get(row, 3).map(|_| id_at(rows, row, 3));
        let created = rows.get(row, 4).map(datum::wall);
        counts.add(id_at(rows, row, 0), SettledCount { settled, failed, cause, created });
    }
    counts
}
