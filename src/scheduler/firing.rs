//! Firing: makes due tasks ready, in the order in which they fall due, one batch at a time.

use crate::error;
use crate::ops::maintenance::QUARANTINE;
use crate::ops::maintenance::fire::{self, DueKey};
use crate::pg::time;
use crate::pg::uuid::Uuid;
use crate::scheduler::duties::in_extension_transaction;
use crate::scheduler::process::Commit;
use crate::shmem::database::Database;
use crate::shmem::segment::with_board;
use crate::shmem::xact;
use crate::storage::rows::ROWS_PER_TX;
use crate::{due, guc};
use board::{Monotonic, Timestamp, Wall};
use pgrx::prelude::*;
use std::collections::HashMap;

/// Full scans take at most 1/20 of the time: while another session holds an old snapshot, such a
/// scan passes over the index entries of all tasks that fired since.
const FULL_SCAN_SHARE: i64 = 20;

const FIRST: Uuid = Uuid(0);

/// What the scheduler remembers between two batches.
pub struct Firing {
    /// Where the next batch begins when the last one was full.
    cursor: Option<DueKey>,
    /// The size of the next batch.
    most: usize,
    /// Tasks that were locked, or could not be fired, with the time of the next try.
    quarantined: HashMap<Uuid, Monotonic>,
    next_retry: Monotonic,
    /// When to scan all due tasks again: a backstop.
    next_full_scan: Monotonic,
}

/// One batch, as it begins.
struct Batch {
    now: Timestamp,
    /// Tasks fire that are due by then.
    until: Wall,
    /// Where to read due tasks from; `None`: only retries are due.
    from: Option<DueKey>,
    is_full_scan: bool,
    /// Quarantined tasks to try again.
    retried: Vec<Uuid>,
}

/// What a batch has found and fired.
struct Fired {
    /// The due tasks that were read.
    due: Vec<DueKey>,
    /// When the next task falls due; `None`: no other task waits for its time.
    next: Option<Wall>,
    /// Tasks whose rows are locked.
    locked: Vec<Uuid>,
}

impl Firing {
    pub fn new() -> Firing {
        Firing {
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
        // What a crash undoes fires again.
        let fired = in_extension_transaction(db, "fire due tasks", Commit::Ahead, || {
            self.fire_batch(db, &batch, &mut tasks)
        });
        let (next, more) = match fired {
            Some(fired) => self.note_fired(&batch, &tasks, fired),
            None => self.note_failed(&batch, &tasks),
        };
        let next = next.min(self.next_retry_due(&batch));
        with_board(|board| board.note_due(entry, next));
        more
    }

    /// Takes the next due time off the board. Transactions that commit from now on note theirs
    /// again; the snapshot of the batch comes later.
    fn begin(&mut self, entry: u32) -> Batch {
        let now = time::now();
        let until = due::horizon(now.wall);
        let is_full_scan = now.monotonic >= self.next_full_scan;
        let goes_on = is_full_scan || self.cursor.is_some();
        let noted = with_board(|board| {
            let entry = board.entry_mut(entry);
            entry.wall_offset = Timestamp { wall: until, ..now }.wall_offset();
            (goes_on || entry.next_due <= until)
                .then(|| std::mem::replace(&mut entry.next_due, Wall::NEVER))
        });
        let from = noted.map(|at| match self.cursor.take() {
            _ if is_full_scan => (Wall::MIN, FIRST),
            Some(cursor) => cursor.min((at, FIRST)),
            None => (at, FIRST),
        });
        Batch { now, until, from, is_full_scan, retried: self.retries_due(now.monotonic) }
    }

    /// Reads the due tasks of a batch and fires them. `tasks` is what was tried, also after an
    /// error.
    fn fire_batch(&self, db: &Database, batch: &Batch, tasks: &mut Vec<Uuid>) -> Fired {
        let (due, next) = batch
            .from
            .map_or((Vec::new(), None), |from| fire::read(db, from, batch.until, self.most));
        let may_try =
            |id: &Uuid| self.quarantined.get(id).is_none_or(|at| *at <= batch.now.monotonic);
        tasks.extend(due.iter().map(|(_, id)| *id).filter(may_try));
        tasks.extend(batch.retried.iter().take(self.most.saturating_sub(tasks.len())));
        tasks.sort_unstable();
        tasks.dedup();
        let locked = fire::fire(db, tasks, batch.until);
        Fired { due, next, locked }
    }

    /// After a batch: when the next task falls due, and whether there may be more now.
    fn note_fired(&mut self, batch: &Batch, tasks: &[Uuid], fired: Fired) -> (Wall, bool) {
        let Fired { due, next, locked } = fired;
        let now = batch.now.monotonic;
        let more = tasks.len() >= self.most;
        self.cursor = due.last().filter(|_| due.len() >= self.most).map(after);
        tasks.iter().for_each(|id| _ = self.quarantined.remove(id));
        self.quarantine(&locked, now + xact::ROW_RETRY_DELAY);
        self.most = ROWS_PER_TX.min(self.most * 2);
        if batch.is_full_scan {
            let took = time::monotonic() - now;
            self.next_full_scan = now + guc::sweep_interval().max(took * FULL_SCAN_SHARE);
        }
        (next.unwrap_or(Wall::NEVER), more || self.cursor.is_some())
    }

    /// After a batch that failed: the next one is half as large, until it is the task that fails.
    fn note_failed(&mut self, batch: &Batch, tasks: &[Uuid]) -> (Wall, bool) {
        self.cursor = batch.from;
        self.most = (tasks.len() / 2).max(1);
        if let [id] = tasks {
            error::quarantined("fire", *id, QUARANTINE).report(PgLogLevel::WARNING);
            self.quarantine(tasks, batch.now.monotonic + QUARANTINE);
        }
        (batch.until + xact::ROW_RETRY_DELAY, tasks.len() > 1)
    }

    /// When the next quarantined task is to be tried again, as a due time.
    fn next_retry_due(&mut self, batch: &Batch) -> Wall {
        if !batch.retried.is_empty() {
            self.next_retry = self.quarantined.values().copied().min().unwrap_or(Monotonic::NEVER);
        }
        match self.next_retry {
            Monotonic::NEVER => Wall::NEVER,
            at => batch.until + (at - batch.now.monotonic),
        }
    }

    /// Quarantined tasks whose next try is due.
    fn retries_due(&self, now: Monotonic) -> Vec<Uuid> {
        if now < self.next_retry {
            return Vec::new();
        }
        let retried = self.quarantined.iter().filter(|(_, at)| **at <= now).map(|(id, _)| *id);
        retried.take(self.most).collect()
    }

    fn quarantine(&mut self, tasks: &[Uuid], until: Monotonic) {
        self.quarantined.extend(tasks.iter().map(|id| (*id, until)));
        if !tasks.is_empty() {
            self.next_retry = self.next_retry.min(until);
        }
    }
}

/// The position right after this one.
fn after(key: &DueKey) -> DueKey {
    (key.0, Uuid(key.1.0.saturating_add(1)))
}
