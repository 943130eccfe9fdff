//! The duty of retention: makes partitions ahead, has those of days that are over indexed, drops
//! those past retention, and deletes single rows when the retention is shorter than a day.

use crate::extension::database::Database;
use crate::guc;
use crate::ops::maintenance::retention::{self, Day, Past};
use crate::ops::maintenance::worker_indexes;
use crate::ops::submit::kept;
use crate::pg::time;
use crate::scheduler::helper;
use crate::scheduler::process::{Commit, in_extension_transaction};
use board::{Micros, Monotonic};
use std::collections::HashMap;

/// How often partitions are made and dropped; and how soon again when that could not be done.
const PARTITIONS_EVERY: Micros = Micros::from_secs(600);
const PARTITIONS_AGAIN: Micros = Micros::from_secs(10);
/// How often a partition is gone through again from which nothing was left to delete: a transaction
/// that settled tasks may have committed late.
const AGAIN: Micros = Micros::from_days(1);
/// How long rows are deleted before other duties have their turn.
const TURN: Micros = Micros::from_millis(10);

#[derive(Default)]
pub struct Retention {
    /// When partitions are looked after again.
    next: Monotonic,
    kept: (Micros, Vec<(Vec<u8>, Micros)>),
    /// By partition.
    walks: HashMap<u32, Walk>,
}

/// A walk through the blocks of a partition.
#[derive(Default)]
struct Walk {
    /// The block to go on from.
    at: i64,
    /// What the walk deletes, if that is fixed.
    fixed: Option<u64>,
    /// Until then a walk that came to the end need not begin again.
    rests_until: Monotonic,
}

impl Retention {
    /// Makes and drops partitions, and deletes rows. True when there is more to do at once.
    pub fn supervise(&mut self, db: &Database) -> bool {
        let now = time::monotonic();
        let what = "read how long tasks are kept";
        let Some(rules) =
            in_extension_transaction(db, what, Commit::Ahead, || retention::rules(db))
        else {
            return false;
        };
        let kept = (guc::retention(), rules);
        if self.kept != kept {
            self.next = now;
            self.kept = kept;
        }
        let past = &Past::of(self.kept.0, self.kept.1.clone());
        let due = now >= self.next;
        if due {
            let made = in_extension_transaction(db, "create partitions", Commit::Ahead, || {
                retention::make_partitions(db, past)
            });
            self.next = now + if made == Some(true) { PARTITIONS_EVERY } else { PARTITIONS_AGAIN };
        }
        let what = "free keys whose time is over";
        let more_keys = in_extension_transaction(db, what, Commit::Ahead, || kept::free_past(db));
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
        if due {
            let what = "list partitions without an index by worker";
            let missing =
                in_extension_transaction(db, what, Commit::Ahead, || worker_indexes::missing(db));
            if missing.is_some_and(|missing| !missing.is_empty()) {
                helper::start(db);
            }
        }
        self.walks.retain(|oid, _| days.iter().any(|day| day.oid == *oid));
        let cut = days.iter().filter(|day| past.cuts(day) && !past.covers(day));
        let until = time::monotonic() + TURN;
        cut.fold(more_keys == Some(true), |more, day| {
            let walk = self.walks.entry(day.oid).or_default();
            more | walk.go_on(db, past, day, until)
        })
    }
}

impl Walk {
    /// Deletes rows of a partition from where it stopped, until some blocks have nothing that is
    /// past, or the turn is over: true then. A turn is short, however many rows there are.
    fn go_on(&mut self, db: &Database, past: &Past, day: &Day, until: Monotonic) -> bool {
        let fixed = past.fixed(day);
        if fixed != self.fixed {
            *self = Walk { fixed, ..Walk::default() };
        }
        if time::monotonic() < self.rests_until {
            return false;
        }
        while time::monotonic() < until {
            let from = if self.at < day.blocks { self.at } else { 0 };
            let what = "delete past tasks";
            let Some(deleted) = in_extension_transaction(db, what, Commit::Ahead, || {
                retention::delete_past(db, past, day, from)
            }) else {
                return false;
            };
            self.at = deleted.next;
            if self.fixed.is_some() && self.at >= day.blocks {
                self.rests_until = time::monotonic() + AGAIN;
                return false;
            }
            if deleted.rows == 0 {
                return false;
            }
        }
        true
    }
}
