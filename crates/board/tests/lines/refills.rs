//! What a process that refills does: it reads the table, and tells the board.

use std::collections::BTreeMap;

use board::{GroupHash, GroupRead, LineTask, Micros, NeedsGroups, NeedsRefill, Order, Rank};

use super::steps::ACTIONS;
use super::world::{Refill, Row, Stage, World};
use crate::memory::small::NONE;

const REFILLER: i32 = 5;

impl World<'_> {
    fn read(&self, wanted: &NeedsRefill, limit: usize) -> (Vec<Row>, Rank) {
        let is_line = wanted.order == Order::Line;
        let is_meant = |row: &&Row| {
            let of_group = (row.group > 0).then_some(row.group) == wanted.group;
            let of_lane = is_line || ACTIONS[row.action] == wanted.action.as_bytes();
            let in_line = row.stage == Stage::Ready || is_line && row.stage == Stage::Held;
            of_group && of_lane && in_line
        };
        let place = |row: &Row| {
            if is_line { row.rank.in_line() } else { row.rank }
        };
        let mut rows: Vec<Row> = self.rows.values().filter(is_meant).copied().collect();
        rows.retain(|row| place(row) >= wanted.cursor);
        rows.sort_by_key(place);
        rows.truncate(limit);
        let cursor = match rows.last() {
            Some(last) if rows.len() == limit => place(last).next(),
            _ => Rank::END,
        };
        (rows, cursor)
    }

    pub fn begin_refill(&mut self, wanted: NeedsRefill, limit: usize) {
        assert!(self.board.begin_refill(&wanted, REFILLER));
        let (rows, cursor) = self.read(&wanted, limit);
        self.refill = Some(Refill { wanted, rows, cursor, since: self.changes });
    }

    pub fn end_refill(&mut self) {
        let Some(Refill { wanted, rows, cursor, since }) = self.refill.take() else { return };
        self.tally.refills += 1;
        self.tally.stale_refills += u64::from(since != self.changes);
        if wanted.order == Order::Line {
            let tasks: Vec<LineTask> = (rows.iter())
                .map(|row| LineTask {
                    rank: row.rank,
                    timeout: NONE,
                    action: ACTIONS[row.action],
                    waits: row.stage == Stage::Held,
                })
                .collect();
            self.board.refill_line(0, wanted.lane, REFILLER, &tasks);
        } else {
            let tasks: Vec<(Rank, Micros)> = rows.iter().map(|row| (row.rank, NONE)).collect();
            self.board.refill(0, wanted.lane, REFILLER, &tasks);
        }
        self.board.end_refill(wanted.lane, REFILLER, cursor);
    }

    /// While the order changes there are two lanes of a group, and others may have none.
    pub fn read_groups(&mut self, wanted: &NeedsGroups) {
        let most = self.board.begin_groups(wanted, REFILLER).expect("the only reader");
        let mut groups: BTreeMap<GroupHash, Vec<(Rank, Micros)>> = BTreeMap::new();
        for row in self.rows.values().filter(|row| row.stage == Stage::Ready) {
            if ACTIONS[row.action] == wanted.action.as_bytes() && row.group >= wanted.from.max(1) {
                groups.entry(row.group).or_default().push((row.rank, NONE));
            }
        }
        let is_whole = groups.len() <= most;
        let until = groups.keys().take(most).next_back().filter(|_| !is_whole);
        let until = until.copied().unwrap_or(GroupHash::MAX);
        let mut from = (!is_whole).then(|| until + 1);
        for (group, tasks) in groups.range_mut(..=until) {
            tasks.sort();
            let read = [GroupRead { group: *group, tasks, cursor: Rank::END }];
            if self.board.add_groups(0, wanted.lane, REFILLER, &read, until) == 0 {
                from = Some(*group);
                break;
            }
        }
        self.board.end_groups(wanted.lane, REFILLER, from);
        self.tally.groups_read += 1;
    }
}
