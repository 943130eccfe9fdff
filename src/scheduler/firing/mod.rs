//! Firing: rows that wait for a time of the wall clock fire in the order in which they fall due,
//! one batch at a time. The board knows the earliest such time.

pub mod due_tasks;
pub mod schedules;

use crate::extension::database::Database;
use crate::guc;
use crate::ops::maintenance::QUARANTINE;
use crate::pg::time;
use crate::scheduler::process::{Commit, in_extension_transaction};
use crate::shmem::segment::with_board;
use crate::storage::rows::ROWS_PER_TX;
use board::{DatabaseEntry, Monotonic, Timestamp, Wall};
use std::collections::HashMap;
use std::hash::Hash;

/// Full scans take at most 1/20 of the time: while another session holds an old snapshot, such a
/// scan passes over the index entries of all tasks that fired since.
const FULL_SCAN_SHARE: i64 = 20;

/// A table whose rows fall due.
pub trait Due {
    /// What a row is known by. Of rows due at one time, the least comes first.
    type Id: Copy + Ord + Hash;
    /// Before every id.
    const FIRST: Self::Id;
    /// What firing is called in the log.
    const WHAT: &str;
    /// How durable the commit is.
    const COMMIT: Commit;

    /// Begins a batch; rows fire that are due by the time that it returns.
    fn begin(&mut self, entry: &mut DatabaseEntry, now: Timestamp) -> Wall;
    /// The earliest due time, as the board knows it.
    fn next(entry: &mut DatabaseEntry) -> &mut Wall;
    /// The least id behind another one.
    fn following(id: Self::Id) -> Self::Id;
    /// The rows that are due from a position on and by a time, at most so many; and when the next
    /// row is due after that time.
    fn read(
        db: &Database,
        from: (Wall, Self::Id),
        until: Wall,
        most: usize,
    ) -> (Vec<(Wall, Self::Id)>, Option<Wall>);
    /// Fires rows, waiting for none; returns those that other transactions have locked.
    fn fire(&mut self, db: &Database, ids: &[Self::Id], until: Wall) -> Vec<Self::Id>;
    /// Warns of a row that cannot be fired.
    fn warn(id: Self::Id);
}

/// A position in the due order.
type DueKey<D> = (Wall, <D as Due>::Id);

/// What the scheduler remembers between two batches.
pub struct Firing<D: Due> {
    /// What fires.
    pub table: D,
    /// Where the next batch begins when the last one was full.
    cursor: Option<DueKey<D>>,
    /// The size of the next batch.
    most: usize,
    /// Tasks that were locked, or could not be fired, with the time of the next try.
    quarantined: HashMap<D::Id, Monotonic>,
    next_retry: Monotonic,
    /// When to scan all due tasks again: a backstop.
    next_full_scan: Monotonic,
}

/// One batch, as it begins.
struct Batch<D: Due> {
    now: Timestamp,
    /// Tasks fire that are due by then.
    until: Wall,
    /// Where to read due tasks from; `None`: only retries are due.
    from: Option<DueKey<D>>,
    is_full_scan: bool,
    /// Quarantined tasks to try again.
    retried: Vec<D::Id>,
}

/// What a batch has found and fired.
struct Fired<D: Due> {
    /// The due tasks that were read.
    due: Vec<DueKey<D>>,
    /// When the next task falls due; `None`: no other task waits for its time.
    next: Option<Wall>,
    /// Tasks whose rows are locked.
    locked: Vec<D::Id>,
}

impl<D: Due> Firing<D> {
    pub fn new(table: D) -> Firing<D> {
        Firing {
            table,
            cursor: None,
            most: ROWS_PER_TX,
            quarantined: HashMap::new(),
            next_retry: Monotonic::NEVER,
            next_full_scan: Monotonic::MIN,
        }
    }

    /// Makes the next batch a full scan.
    pub fn rescan(&mut self) {
        self.next_full_scan = Monotonic::MIN;
    }

    /// Fires one batch of due tasks. True when there may be more.
    pub fn fire(&mut self, db: &Database, entry: u32) -> bool {
        let batch = self.begin(entry);
        if batch.from.is_none() && batch.retried.is_empty() {
            return false;
        }
        let mut tasks = Vec::new();
        let fired = in_extension_transaction(db, D::WHAT, D::COMMIT, || {
            self.fire_batch(db, &batch, &mut tasks)
        });
        let (next, more) = match fired {
            Some(fired) => self.note_fired(&batch, &tasks, fired),
            None => self.note_failed(&batch, &tasks),
        };
        let next = next.min(self.next_retry_due(&batch));
        with_board(|board| {
            let noted = D::next(board.entry_mut(entry));
            *noted = next.min(*noted);
        });
        more
    }

    /// Takes the next due time off the board. Transactions that commit from now on note theirs
    /// again; the snapshot of the batch comes later.
    fn begin(&mut self, entry: u32) -> Batch<D> {
        let now = time::now();
        let is_full_scan = now.monotonic >= self.next_full_scan;
        let goes_on = is_full_scan || self.cursor.is_some();
        let (until, noted) = with_board(|board| {
            let entry = board.entry_mut(entry);
            let until = self.table.begin(entry, now);
            let next = D::next(entry);
            let reads = goes_on || *next <= until;
            (until, reads.then(|| std::mem::replace(next, Wall::NEVER)))
        });
        let from = noted.map(|at| match self.cursor.take() {
            _ if is_full_scan => (Wall::MIN, D::FIRST),
            Some(cursor) => cursor.min((at, D::FIRST)),
            None => (at, D::FIRST),
        });
        Batch { now, until, from, is_full_scan, retried: self.retries_due(now.monotonic) }
    }

    /// Reads the due tasks of a batch and fires them. `tasks` is what was tried, also after an
    /// error.
    fn fire_batch(&mut self, db: &Database, batch: &Batch<D>, tasks: &mut Vec<D::Id>) -> Fired<D> {
        let (due, next) =
            batch.from.map_or((Vec::new(), None), |from| D::read(db, from, batch.until, self.most));
        let may_try =
            |id: &D::Id| self.quarantined.get(id).is_none_or(|at| *at <= batch.now.monotonic);
        tasks.extend(due.iter().map(|(_, id)| *id).filter(may_try));
        tasks.extend(batch.retried.iter().take(self.most.saturating_sub(tasks.len())));
        tasks.sort_unstable();
        tasks.dedup();
        let locked = self.table.fire(db, tasks, batch.until);
        Fired { due, next, locked }
    }

    /// After a batch: when the next task falls due, and whether there may be more now.
    fn note_fired(&mut self, batch: &Batch<D>, tasks: &[D::Id], fired: Fired<D>) -> (Wall, bool) {
        let Fired { due, next, locked } = fired;
        let now = batch.now.monotonic;
        let more = tasks.len() >= self.most;
        self.cursor =
            due.last().filter(|_| due.len() >= self.most).map(|(at, id)| (*at, D::following(*id)));
        tasks.iter().for_each(|id| _ = self.quarantined.remove(id));
        self.quarantine(&locked, now + board::ROW_RETRY_DELAY);
        self.most = ROWS_PER_TX.min(self.most * 2);
        if batch.is_full_scan {
            let took = time::monotonic() - now;
            self.next_full_scan = now + guc::sweep_interval().max(took * FULL_SCAN_SHARE);
        }
        (next.unwrap_or(Wall::NEVER), more || self.cursor.is_some())
    }

    /// After a batch that failed: the next one is half as large, until it is the task that fails.
    fn note_failed(&mut self, batch: &Batch<D>, tasks: &[D::Id]) -> (Wall, bool) {
        self.cursor = batch.from;
        self.most = (tasks.len() / 2).max(1);
        if let [id] = tasks {
            D::warn(*id);
            self.quarantine(tasks, batch.now.monotonic + QUARANTINE);
        }
        (batch.until + board::ROW_RETRY_DELAY, tasks.len() > 1)
    }

    /// When the next quarantined task is to be tried again, as a due time.
    fn next_retry_due(&mut self, batch: &Batch<D>) -> Wall {
        if !batch.retried.is_empty() {
            self.next_retry = self.quarantined.values().copied().min().unwrap_or(Monotonic::NEVER);
        }
        match self.next_retry {
            Monotonic::NEVER => Wall::NEVER,
            at => batch.until + (at - batch.now.monotonic),
        }
    }

    /// Quarantined tasks whose next try is due.
    fn retries_due(&self, now: Monotonic) -> Vec<D::Id> {
        if now < self.next_retry {
            return Vec::new();
        }
        let retried = self.quarantined.iter().filter(|(_, at)| **at <= now).map(|(id, _)| *id);
        retried.take(self.most).collect()
    }

    fn quarantine(&mut self, tasks: &[D::Id], until: Monotonic) {
        self.quarantined.extend(tasks.iter().map(|id| (*id, until)));
        if !tasks.is_empty() {
            self.next_retry = self.next_retry.min(until);
        }
    }
}
