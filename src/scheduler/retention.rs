//! The duty of retention: a partition a day, made ahead and dropped when it is past; rows deleted
//! where whole partitions would be too coarse.

use crate::guc;
use crate::ops::maintenance::retention::{self, Day, Past};
use crate::pg::time;
use crate::scheduler::duties::in_extension_transaction;
use crate::shmem::database::Database;
use std::collections::HashMap;

/// How often partitions are made and dropped, in microseconds; and how soon again when that could
/// not be done.
const PARTITIONS_EVERY: i64 = 600_000_000;
const PARTITIONS_AGAIN: i64 = 10_000_000;
/// How long rows are deleted before other duties have their turn, in microseconds.
const TURN: i64 = 10_000;

#[derive(Default)]
pub struct Retention {
    /// When partitions are looked after again.
    next: i64,
    kept: i64,
    /// Where the walk through each partition goes on.
    at: HashMap<u32, i64>,
}

impl Retention {
    /// Makes and drops partitions, and deletes rows. True when there is more to do at once.
    pub fn supervise(&mut self, db: &Database) -> bool {
        let (now, retention) = (time::monotonic(), guc::retention());
        if std::mem::replace(&mut self.kept, retention) != retention {
            self.next = 0;
        }
        let (past, due) = (Past::of(retention), now >= self.next);
        if due {
            let made = in_extension_transaction(db, "make partitions", || {
                retention::make_partitions(db, past)
            });
            self.next = now + if made == Some(true) { PARTITIONS_EVERY } else { PARTITIONS_AGAIN };
        }
        let Some(days) =
            in_extension_transaction(db, "find its partitions", || retention::days(db))
        else {
            return false;
        };
        if due && let Some(day) = days.iter().find(|day| past.covers(day)) {
            let dropped =
                in_extension_transaction(db, "drop a partition", || retention::drop_day(db, day));
            // One in a turn; the others at once.
            self.next = now + if dropped == Some(true) { 0 } else { PARTITIONS_AGAIN };
            return dropped == Some(true);
        }
        self.at.retain(|oid, _| days.iter().any(|day| day.oid == *oid));
        let cut = days.iter().filter(|day| past.cuts(day) && !past.covers(day));
        cut.fold(false, |more, day| more | self.walk(db, past, day, now + TURN))
    }

    /// Deletes rows of a partition from where it stopped, until some blocks have nothing that is past,
    /// or the turn is over: true then. However many rows there are, a tick looks at few.
    fn walk(&mut self, db: &Database, past: Past, day: &Day, until: i64) -> bool {
        let at = self.at.entry(day.oid).or_default();
        while time::monotonic() < until {
            let from = if *at < day.blocks { *at } else { 0 };
            let what = "delete what is past";
            let Some(deleted) =
                in_extension_transaction(db, what, || retention::delete_past(db, past, day, from))
            else {
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
