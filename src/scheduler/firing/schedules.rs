//! Schedules: their runs fire when they are due, missed ones in batches between those, and how runs
//! ended is counted.

use crate::error;
use crate::extension::database::Database;
use crate::ops::maintenance::QUARANTINE;
use crate::ops::schedules::catch_up::{self, MissedKey};
use crate::ops::schedules::{counts, fire};
use crate::pg::time;
use crate::scheduler::firing::{Due, Firing};
use crate::scheduler::process::{Commit, in_extension_transaction};
use crate::shmem::segment::with_board;
use crate::storage::rows::ROWS_PER_TX;
use board::{DatabaseEntry, Micros, Monotonic, Timestamp, Wall};
use pgrx::PgLogLevel;

/// How often settled runs are counted at most: the view adds what is not counted yet.
const COUNT_INTERVAL: Micros = Micros::from_secs(1);

struct DueSchedules {
    /// Runs before this time were missed.
    missed_before: Wall,
    /// There are missed runs to catch up with.
    has_missed: bool,
}

impl Due for DueSchedules {
    type Id = i64;
    const FIRST: i64 = 0;
    const WHAT: &str = "fire schedules";
    /// A worker that got a run before a crash never sees another of the same time.
    const COMMIT: Commit = Commit::Durable;

    fn begin(&mut self, entry: &mut DatabaseEntry, now: Timestamp) -> Wall {
        entry.runs_offset = now.wall_offset();
        self.missed_before = fire::missed_before(now.wall, entry.runs_since(now.wall));
        now.wall
    }

    fn next(entry: &mut DatabaseEntry) -> &mut Wall {
        &mut entry.next_run
    }

    fn following(id: i64) -> i64 {
        id + 1
    }

    fn read(
        db: &Database,
        from: (Wall, i64),
        until: Wall,
        most: usize,
    ) -> (Vec<(Wall, i64)>, Option<Wall>) {
        fire::read(db, from, until, most)
    }

    fn fire(&mut self, db: &Database, ids: &[i64], until: Wall) -> Vec<i64> {
        let fired = fire::fire(db, ids, until, self.missed_before);
        self.has_missed |= fired.missed;
        fired.locked
    }

    fn warn(id: i64) {
        error::schedule_quarantined(id, QUARANTINE).report(PgLogLevel::WARNING);
    }
}

pub struct Schedules {
    firing: Firing<DueSchedules>,
    /// A start for which schedules are to run.
    start: Option<Wall>,
    /// The last missed runs of the round that were looked at.
    missed: MissedKey,
    next_count: Monotonic,
}

impl Schedules {
    pub fn new() -> Schedules {
        // An earlier scheduler may have left missed runs.
        let table = DueSchedules { missed_before: Wall::MIN, has_missed: true };
        let (firing, missed) = (Firing::new(table), catch_up::FIRST);
        Schedules { firing, start: None, missed, next_count: Monotonic::MIN }
    }

    /// Looks at the whole tables with the next batch.
    pub fn rescan(&mut self) {
        self.firing.rescan();
        self.firing.table.has_missed = true;
    }

    /// Fires a batch of the runs that are due, then one of those that were missed. True when there
    /// may be more.
    pub fn fire(&mut self, db: &Database, entry: u32) -> bool {
        let now = time::now().wall;
        let starts = with_board(|board| {
            let entry = board.entry_mut(entry);
            std::mem::take(&mut entry.starts).then(|| entry.runs_since(now))
        });
        self.start = starts.or(self.start);
        if let Some(at) = self.start {
            let what = "fire the schedules of a start";
            let left = in_extension_transaction(db, what, Commit::Ahead, || fire::start(db, at));
            self.start = self.start.filter(|_| left != Some(0));
        }
        self.firing.fire(db, entry) | self.catch_up(db)
    }

    fn catch_up(&mut self, db: &Database) -> bool {
        if !self.firing.table.has_missed {
            return false;
        }
        let after = self.missed;
        let done =
            in_extension_transaction(db, "catch up with missed runs", Commit::Durable, || {
                catch_up::catch_up(db, after)
            });
        // What cannot be fired is passed over until the next round.
        self.missed = done.and_then(|(_, last)| last).unwrap_or(catch_up::FIRST);
        match done {
            // All were looked at: some are locked, or none are left.
            Some((_, None)) => {
                self.firing.table.has_missed = after != catch_up::FIRST;
                false
            }
            Some((runs, Some(_))) => runs > 0,
            None => false,
        }
    }

    /// Counts the runs that have settled.
    pub fn count(&mut self, db: &Database, entry: u32) {
        let now = time::monotonic();
        if now < self.next_count
            || !with_board(|board| std::mem::take(&mut board.entry_mut(entry).runs_settled))
        {
            return;
        }
        self.next_count = now + COUNT_INTERVAL;
        loop {
            let counted = in_extension_transaction(db, "count settled runs", Commit::Ahead, || {
                counts::count(db)
            });
            match counted {
                Some(0) => return,
                Some(schedules) if schedules >= ROWS_PER_TX => {}
                // Others may be locked.
                _ => break,
            }
        }
        with_board(|board| board.entry_mut(entry).runs_settled = true);
    }
}
