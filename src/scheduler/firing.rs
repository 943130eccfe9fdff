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

pub struct Firing {
    /// Where the next batch begins when the last one was full.
    cursor: Option<DueKey>,
    /// The size of the next batch.
    most: usize,
    /// Tasks that were locked, or could not be fired, with the time of the next try.
    quarantined: HashMap<Uuid, Monotonic>,
    next_retry: Monotonic,
    /// When to scan all due tasks again: a backstop.
    next_look: Monotonic,
}

impl Firing {
    pub fn new() -> Firing {
        Firing {
            cursor: None,
            most: ROWS_PER_TX,
            quarantined: HashMap::new(),
            next_retry: Monotonic::NEVER,
            next_look: Monotonic::MIN,
        }
    }

    /// Makes the next batch a full scan.
    pub fn rescan(&mut self) {
        self.next_look = Monotonic::MIN;
    }

    /// Fires one batch of due tasks. True when there may be more.
    pub fn fire(&mut self, db: &Database, entry: u32) -> bool {
        let now = time::now();
        let until = due::horizon(now.wall);
        let looks = now.monotonic >= self.next_look;
        let reads = looks || self.cursor.is_some();
        // Transactions that commit from now on note their due times again; the snapshot comes
        // later.
        let noted = with_board(|board| {
            let entry = board.entry_mut(entry);
            entry.wall_offset = Timestamp { wall: until, ..now }.wall_offset();
            (reads || entry.next_due <= until)
                .then(|| std::mem::replace(&mut entry.next_due, Wall::NEVER))
        });
        let from = noted.map(|at| match self.cursor.take() {
            _ if looks => (Wall::MIN, FIRST),
            Some(cursor) => cursor.min((at, FIRST)),
            None => (at, FIRST),
        });
        let retried = self.retried(now.monotonic);
        if from.is_none() && retried.is_empty() {
            return false;
        }
        let mut batch = Vec::new();
        // What a crash undoes fires again.
        let done = in_extension_transaction(db, "fire due tasks", Commit::Ahead, || {
            let (due, next) =
                from.map_or((Vec::new(), None), |from| fire::read(db, from, until, self.most));
            batch.extend(due.iter().map(|(_, id)| *id).filter(|id| self.may_try(id, &now)));
            batch.extend(retried.iter().take(self.most.saturating_sub(batch.len())));
            batch.sort_unstable();
            batch.dedup();
            (due, next, fire::fire(db, &batch, until))
        });
        let full = batch.len() >= self.most;
        let (mut next, more) = match done {
            Some((due, next, held)) => {
                self.cursor = due.last().filter(|_| due.len() >= self.most).map(after);
                batch.iter().for_each(|id| _ = self.quarantined.remove(id));
                self.quarantined(&held, now.monotonic + xact::ROW_RETRY_DELAY);
                self.most = ROWS_PER_TX.min(self.most * 2);
                if looks {
                    let took = time::monotonic() - now.monotonic;
                    let pause = guc::sweep_interval().max(took * FULL_SCAN_SHARE);
                    self.next_look = now.monotonic + pause;
                }
                (next.unwrap_or(Wall::NEVER), full || self.cursor.is_some())
            }
            None => {
                self.cursor = from;
                self.most = (batch.len() / 2).max(1);
                // Halving the batch finds the task that fails.
                if let [id] = batch.as_slice() {
                    error::quarantined("fire", *id, QUARANTINE).report(PgLogLevel::WARNING);
                    self.quarantined(&batch, now.monotonic + QUARANTINE);
                }
                (until + xact::ROW_RETRY_DELAY, batch.len() > 1)
            }
        };
        if !retried.is_empty() {
            self.next_retry = self.quarantined.values().copied().min().unwrap_or(Monotonic::NEVER);
        }
        if self.next_retry != Monotonic::NEVER {
            next = next.min(until + (self.next_retry - now.monotonic));
        }
        with_board(|board| board.note_due(entry, next));
        more
    }

    /// Quarantined tasks whose next try is due.
    fn retried(&self, now: Monotonic) -> Vec<Uuid> {
        if now < self.next_retry {
            return Vec::new();
        }
        let retried = self.quarantined.iter().filter(|(_, at)| **at <= now).map(|(id, _)| *id);
        retried.take(self.most).collect()
    }

    fn may_try(&self, id: &Uuid, now: &Timestamp) -> bool {
        self.quarantined.get(id).is_none_or(|at| *at <= now.monotonic)
    }

    fn quarantined(&mut self, ids: &[Uuid], until: Monotonic) {
        self.quarantined.extend(ids.iter().map(|id| (*id, until)));
        if !ids.is_empty() {
            self.next_retry = self.next_retry.min(until);
        }
    }
}

/// The position right after this one.
fn after(mark: &DueKey) -> DueKey {
    (mark.0, Uuid(mark.1.0.saturating_add(1)))
}
