//! The duty of retention: makes partitions ahead, drops those past retention, and deletes single
//! rows when the retention is shorter than a day.

use crate::guc;
use crate::ops::maintenance::retention::{self, Day, Past};
use crate::pg::time;
use crate::scheduler::duties::in_extension_transaction;
use crate::scheduler::process::Commit;
use crate::shmem::database::Database;
use board::{Micros, Monotonic};
use std::collections::HashMap;

/// How often partitions are made and dropped; and how soon again when that could not be done.
const PARTITIONS_EVERY: Micros = Micros::from_secs(600);
const PARTITIONS_AGAIN: Micros = Micros::from_secs(10);
/// How long rows are deleted before other duties have their turn.
const TURN: Micros = Micros::from_millis(10);

#[derive(Default)]
pub struct Retention {
    /// When partitions are looked after again.
    next: Monotonic,
    kept: Micros,
    /// By partition: the block where deleting goes on.
    at: HashMap<u32, i64>,
}

impl Retention {
    /// Makes and drops partitions, and deletes rows. True when there is more to do at once.
    pub fn supervise(&mut self, db: &Database) -> bool {
        let (now, retention) = (time::monotonic(), guc::retention());
        if std::mem::replace(&mut self.kept, retention) != retention {
            self.next = now;
        }
        let (past, due) = (Past::of(retention), now >= self.next);
        if due {
            let made = in_extension_transaction(db, "create partitions", Commit::Ahead, || {
                retention::make_partitions(db, past)
            });
            self.next = now + if made == Some(true) { PARTITIONS_EVERY } else { PARTITIONS_AGAIN };
        }
        let Some(days) =
            in_extension_transaction(db, "list partitions", Commit::Ahead, || retention::days(db))
        else {
            return false;
        };
        if due && let Some(day) = days.iter().find(|day| past.covers(day)) {
            let dropped = in_extension_transaction(db, "drop a partition", Commit::Ahead, || {
                retention::drop_day(db, day)
            });
            // One partition per turn; the next turn comes at once.
            self.next = now + if dropped == Some(true) { Micros::ZERO } else { PARTITIONS_AGAIN };
            return dropped == Some(true);
        }
        self.at.retain(|oid, _| days.iter().any(|day| day.oid == *oid));
        let cut = days.iter().filter(|day| past.cuts(day) && !past.covers(day));
        cut.fold(false, |more, day| more | self.walk(db, past, day, now + TURN))
    }

    /// Deletes rows of a partition from the block where it stopped. False when some blocks had no
    /// row past retention, true when the time of this turn is over. A turn is short, however many
    /// rows there are.
    fn walk(&mut self, db: &Database, past: Past, day: &Day, until: Monotonic) -> bool {
        let at = self.at.entry(day.oid).or_default();
        while time::monotonic() < until {
            let from = if *at < day.blocks { *at } else { 0 };
            let what = "delete past tasks";
            let Some(deleted) = in_extension_transaction(db, what, Commit::Ahead, || {
                retention::delete_past(db, past, day, from)
            }) else {
                return false;
            };
            *at = deleted.next;
            if deleted.rows == 0 {
                return false;
            }
        }
        true
    }
}
