//! The duty of retention: a partition a day, made ahead and dropped when it is past; rows deleted
//! where whole partitions would be too coarse.

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
    /// Where the walk through each partition goes on.
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
            // One in a turn; the others at once.
            self.next = now + if dropped == Some(true) { Micros::ZERO } else { PARTITIONS_AGAIN };
            return dropped == Some(true);
        }
        self.at.retain(|oid, _| days.iter().any(|day| day.oid == *oid));
        let cut = days.iter().filter(|day| past.cuts(day) && !past.covers(day));
        cut.fold(false, |more, day| more | self.walk(db, past, day, now + TURN))
    }

    /// Deletes rows of a partition from where it stopped, until some blocks have nothing that is past,
    /// or the turn is over: true then. However many rows there are, a tick looks at few.
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
