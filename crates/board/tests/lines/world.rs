//! The table, and what a board beside it does.

use std::collections::{BTreeMap, BTreeSet};

use board::{
    Board, Bucket, BuildState, Configured, GroupHash, Id, LaneName, NeedsRefill, Next, Offered,
    QueueSettings, Rank, Ticket, Wall,
};

use super::steps::{ACTIONS, GROUPS, Step};
use crate::memory::small::*;

pub fn lane_of(action: usize, group: GroupHash) -> LaneName<'static> {
    LaneName { queue: b"work", action: ACTIONS[action], group: (group > 0).then_some(group) }
}

/// How far a task has come in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Its transaction has not committed.
    Unseen,
    /// It waits, and was never ready.
    New,
    Ready,
    /// It waits, and keeps its place.
    Held,
}

/// What is done with a task on the board.
#[derive(Clone, Copy, Debug)]
pub enum Hold {
    Leased,
    /// Reserved by a transaction in flight.
    Reserved(Ticket),
    /// A transaction in flight ends its lease, or withdrew it.
    Ending(Ticket),
    /// Expired, and that is not durable yet.
    Withheld(Ticket),
}

#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub group: GroupHash,
    pub action: usize,
    pub rank: Rank,
    pub stage: Stage,
    pub hold: Option<Hold>,
    /// It has committed, and its offer has not reached the board.
    pub late: bool,
}

/// How often each case occurred.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub owned: u64,
    pub strays: u64,
    pub blocked: u64,
    pub by_age: u64,
    pub refills: u64,
    pub stale_refills: u64,
    pub evicted: u64,
    pub spilled: u64,
    pub in_own_place: u64,
    pub late: u64,
    pub sorted: u64,
    pub groups_read: u64,
}

/// A refill under way: what it read, under a snapshot of then.
pub struct Refill {
    pub wanted: NeedsRefill,
    pub rows: Vec<Row>,
    pub cursor: Rank,
    pub since: u64,
}

pub struct World<'b> {
    pub board: Board<'b>,
    pub rows: BTreeMap<Id, Row>,
    pub refill: Option<Refill>,
    pub most: u32,
    pub version: u64,
    pub clock: i64,
    pub changes: u64,
    pub tally: Tally,
}

pub fn nth<T>(pick: usize, of: Vec<T>) -> Option<T> {
    let len = of.len();
    (len > 0).then(|| of.into_iter().nth(pick % len)).flatten()
}

impl World<'_> {
    fn ids(&self, is_meant: impl Fn(&Row) -> bool) -> Vec<Id> {
        self.rows.iter().filter(|(_, row)| is_meant(row)).map(|(id, _)| *id).collect()
    }

    fn keeps_order(&self) -> bool {
        self.most == 1
    }

    fn offer(&mut self, id: Id) {
        let Some(row) = self.rows.get_mut(&id) else { return };
        row.late = false;
        // It carries the row as it was when its transaction committed.
        let row = *row;
        let offered = self.board.offer(0, lane_of(row.action, row.group), row.rank, NONE);
        self.tally.late += u64::from(offered == Offered::LeftToTable);
    }

    fn row(&mut self, id: Id) -> &mut Row {
        self.changes += 1;
        self.rows.get_mut(&id).expect("a row")
    }

    /// The tasks of a group's line that the board may know of, in order.
    fn line(&self, group: GroupHash) -> Vec<Row> {
        let in_line = |row: &&Row| {
            row.group == group && matches!(row.stage, Stage::Ready | Stage::Held) && !row.late
        };
        let mut line: Vec<Row> = self.rows.values().filter(in_line).copied().collect();
        line.sort_by_key(|row| (row.rank.created, row.rank.id));
        line
    }

    /// The task of a group that may run now.
    fn next_of(&self, group: GroupHash) -> Option<Row> {
        let line = self.line(group);
        let held = |row: &Row| row.hold.is_some();
        if self.rows.values().any(|row| row.group == group && held(row)) {
            return None;
        }
        line.first().copied().filter(|row| row.stage == Stage::Ready)
    }

    fn survey(&mut self) {
        let spilled = self.board.entry(0).lanes_spilled;
        let rows = self.rows.values().filter(|row| {
            row.stage == Stage::Ready || self.keeps_order() && row.stage == Stage::Held
        });
        let lanes: BTreeSet<_> = rows.map(|row| (row.action, row.group)).collect();
        for (action, group) in lanes {
            self.board.survey(0, lane_of(action, group));
        }
        if self.board.entry(0).lanes_spilled == spilled {
            self.board.entry_mut(0).lanes_spilled = 0;
        }
    }

    /// The slot of the next task, as a worker finds it that refills and surveys.
    fn find(&mut self, actions: Option<&[&[u8]]>) -> Option<u32> {
        for _ in 0..200 {
            match self.board.next_task(0, b"work", actions) {
                Next::Task(at) => return Some(at),
                Next::NeedsRefill(_) if self.refill.is_some() => self.end_refill(),
                Next::NeedsRefill(wanted) => {
                    self.begin_refill(wanted, 2);
                    self.end_refill();
                    if self.board.is_leased_out() {
                        return None;
                    }
                }
                Next::NeedsGroups(wanted) => self.read_groups(&wanted),
                Next::Refilling => self.end_refill(),
                Next::Spilled(_) => {
                    self.tally.spilled += 1;
                    self.survey();
                    if matches!(self.board.next_task(0, b"work", actions), Next::Spilled(_)) {
                        return None;
                    }
                }
                Next::Empty => {
                    self.check_empty(actions);
                    return None;
                }
            }
            self.board.audit();
        }
        panic!("a search without end: {:#?}", self.board.audit());
    }

    /// Nothing that may run is passed over.
    fn check_empty(&mut self, actions: Option<&[&[u8]]>) {
        if !self.keeps_order() {
            return;
        }
        let is_asked = |row: &Row| actions.is_none_or(|it| it.contains(&ACTIONS[row.action]));
        for group in 0..GROUPS {
            let next = self.next_of(group);
            // A task whose offer has not come yet may be known, and stand before the others.
            let late = self.rows.values().any(|row| row.group == group && row.late);
            assert!(late || !next.is_some_and(|row| is_asked(&row)), "passed over: {next:?}");
            self.tally.blocked += u64::from(next.is_some());
        }
    }

    /// Reserves a task if it is ready in the table; a stray leaves the board.
    fn reserve(&mut self, at: u32, in_own_place: Option<Id>) -> Option<Id> {
        let id = self.board.slot_at(at, 0).expect("a task").id;
        let taken = self.board.reserve(at, &claim(NOW.monotonic.0, None), token_hash(1));
        let Some(row) = self.rows.get(&id).copied().filter(|row| row.stage == Stage::Ready) else {
            self.tally.strays += 1;
            self.board.drop_stray(taken.ticket, false);
            return None;
        };
        if self.keeps_order() {
            // One that the offer of another overtakes is next still.
            let before = |other: &&Row| {
                (other.rank.created, other.rank.id) < (row.rank.created, row.rank.id)
                    && Some(other.rank.id) != in_own_place
            };
            let line = self.line(row.group);
            let passed = line.iter().find(before);
            assert!(passed.is_none(), "{row:?} runs before {passed:?}");
            let others = self.rows.values().filter(|it| it.group == row.group);
            let holders = others.filter(|it| it.hold.is_some() && Some(it.rank.id) != in_own_place);
            assert_eq!(holders.count(), 0, "{row:?} runs beside another");
            let lower = line.iter().any(|it| it.rank.priority > row.rank.priority);
            self.tally.by_age += u64::from(lower);
        }
        self.tally.owned += 1;
        self.row(id).hold = Some(Hold::Reserved(taken.ticket));
        Some(id)
    }

    fn own(&mut self, actions: u8) -> Option<Id> {
        let asked: Vec<&[u8]> =
            (0..3).filter(|it| actions >> it & 1 == 1).map(|it| ACTIONS[it]).collect();
        let asked = (!asked.is_empty()).then_some(&asked[..]);
        for _ in 0..50 {
            let at = self.find(asked)?;
            let id = self.board.slot_at(at, 0).expect("a task").id;
            if self.keeps_order() {
                self.check_priority(id, asked);
            }
            if let Some(id) = self.reserve(at, None) {
                return Some(id);
            }
        }
        panic!("strays without end");
    }

    /// A group competes with the priority of its next task.
    fn check_priority(&self, id: Id, actions: Option<&[&[u8]]>) {
        let Some(row) = self.rows.get(&id) else { return };
        // A slot whose task is gone has its group compete with that task's priority until it is found.
        let slots = (0..self.board.slots_end()).filter_map(|at| self.board.slot_at(at, 0));
        let has_stray = slots.into_iter().any(|slot| !self.rows.contains_key(&slot.id));
        if has_stray || self.board.entry(0).lanes_spilled > 0 || row.stage != Stage::Ready {
            return;
        }
        for group in (0..GROUPS).filter(|group| *group != row.group) {
            if let Some(next) = self.next_of(group)
                && actions.is_none_or(|it| it.contains(&ACTIONS[next.action]))
                && !self.rows.values().any(|it| it.group == group && it.late)
            {
                assert!(next.rank.priority <= row.rank.priority, "{next:?} before {row:?}");
            }
        }
    }

    fn reserved(&self) -> Vec<Id> {
        self.ids(|row| matches!(row.hold, Some(Hold::Reserved(_))))
    }

    fn commit_claim(&mut self, id: Id) {
        if let Some(Hold::Reserved(ticket)) = self.rows[&id].hold {
            self.board.commit_claim(ticket);
            self.row(id).hold = Some(Hold::Leased);
        }
    }

    fn begin_end(&mut self, pick: usize, settles: bool) -> Option<(Id, Option<board::FreedPlace>)> {
        let id = nth(pick, self.ids(|row| matches!(row.hold, Some(Hold::Leased))))?;
        let (ticket, lease) = self.board.begin_end(0, id, &token_hash(1), 7).expect("a lease");
        let place = self.board.freed_place(&lease, settles);
        self.row(id).hold = Some(Hold::Ending(ticket));
        Some((id, place))
    }

    /// The transaction that ends a lease commits: what the board is told, in this order.
    fn commit_end(&mut self, id: Id, how: u8) {
        let Some(Hold::Ending(ticket)) = self.rows[&id].hold else { return };
        match how {
            0 => {
                self.rows.remove(&id);
                self.changes += 1;
                self.board.commit_end(ticket);
            }
            1 => {
                self.row(id).hold = None;
                self.board.requeue(ticket, false);
            }
            _ => {
                let row = self.row(id);
                (row.hold, row.stage) = (None, Stage::Held);
                self.board.requeue(ticket, false);
                // A worker may take it now, before the board learns that it waits.
                if id.is_multiple_of(3) {
                    _ = self.own(0);
                }
                self.board.remove_task(0, id);
            }
        }
    }

    fn withdraw(&mut self, pick: usize, how: u8, rolls_back: bool) {
        let free = self.ids(|row| {
            matches!(row.stage, Stage::Ready | Stage::Held) && row.hold.is_none() && !row.late
        });
        let Some(id) = nth(pick, free) else { return };
        let row = self.rows[&id];
        let lane = lane_of(row.action, row.group);
        let stage = [Stage::Held, Stage::New][usize::from(how.min(1))];
        if row.stage == Stage::Held {
            match how {
                2 => _ = self.rows.remove(&id),
                _ => self.row(id).stage = stage,
            }
            self.changes += 1;
            return self.board.leave_line(0, lane, row.rank);
        }
        let Some(Ok(ticket)) = self.board.withdraw(0, lane, row.rank, NONE, 7) else { return };
        self.row(id).hold = Some(Hold::Ending(ticket));
        self.board.audit();
        _ = self.own(0);
        if rolls_back {
            self.row(id).hold = None;
            return self.board.undo_end(ticket, NOW.monotonic);
        }
        match how {
            2 => _ = self.rows.remove(&id),
            _ => (self.row(id).hold, self.row(id).stage) = (None, stage),
        }
        self.changes += 1;
        self.board.commit_end(ticket);
    }

    pub fn limit(&mut self, most: u32) {
        (self.most, self.version) = (most, self.version + 1);
        let settings = QueueSettings {
            version: self.version,
            max_running_per_group: most,
            ..QueueSettings::NONE
        };
        let configured = self.board.configure(0, b"work", &settings, NOW.monotonic, Bucket::Full);
        if configured == Configured::SortAgain {
            self.tally.sorted += 1;
            let mut from = Some(0);
            while let Some(at) = from {
                from = self.board.sort_again(0, at, 3);
                self.board.audit();
            }
            self.survey();
        }
        let mut from = Some(0);
        while let Some(at) = from {
            from = self.board.release_lanes(0, Some(b"work"), at, 3);
        }
    }

    fn crash(&mut self) {
        self.board.clear();
        self.refill = None;
        assert_eq!(self.board.register(1, 1), Some(0));
        self.rows.retain(|_, row| row.stage != Stage::Unseen);
        for row in self.rows.values_mut() {
            (row.hold, row.late) = (None, false);
        }
        let settings = QueueSettings {
            version: self.version,
            max_running_per_group: self.most,
            ..QueueSettings::NONE
        };
        self.board.configure(0, b"work", &settings, NOW.monotonic, Bucket::Empty);
        self.survey();
        self.board.entry_mut(0).build_state = BuildState::Built;
    }

    pub fn apply(&mut self, step: &Step) {
        match *step {
            Step::Submit { group, action, priority, start } => {
                self.clock += 1;
                let id = (self.clock as u128).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 3;
                let rank = Rank { id, created: Wall(self.clock), priority };
                let stage = match start % 5 {
                    0 => Stage::Unseen,
                    1 => Stage::New,
                    _ => Stage::Ready,
                };
                let row = Row { group, action, rank, stage, hold: None, late: false };
                self.rows.insert(id, row);
                self.changes += 1;
                if stage == Stage::Ready {
                    self.offer(id);
                }
            }
            Step::Fire { pick, late } => {
                let waiting = self.ids(|row| row.stage != Stage::Ready);
                if let Some(id) = nth(pick, waiting) {
                    let row = self.row(id);
                    // A late one does not block before the board knows of it; one that keeps its
                    // place does.
                    (row.stage, row.late) = (Stage::Ready, late && row.stage != Stage::Held);
                    if !row.late {
                        self.offer(id);
                    }
                }
            }
            Step::CatchUp { pick } => {
                if let Some(id) = nth(pick, self.ids(|row| row.late)) {
                    self.offer(id);
                }
            }
            Step::Own { actions, rolls_back } => {
                if let Some(id) = self.own(actions) {
                    let Some(Hold::Reserved(ticket)) = self.rows[&id].hold else { panic!() };
                    match rolls_back {
                        0 => {
                            self.board.undo_claim(ticket);
                            self.row(id).hold = None;
                        }
                        1 => {}
                        _ => self.commit_claim(id),
                    }
                }
            }
            Step::OwnOne { pick } => {
                let free = self.ids(|row| row.stage == Stage::Ready && row.hold.is_none());
                if let Some(id) = nth(pick, free) {
                    let row = self.rows[&id];
                    let lane = lane_of(row.action, row.group);
                    if let Some(at) = self.board.ensure_slot(0, lane, row.rank, NONE)
                        && self.board.slot_blocked(at, &[]).is_none()
                        && let Some(id) = self.reserve(at, None)
                    {
                        self.commit_claim(id);
                    }
                }
            }
            Step::Commit { pick } => {
                if let Some(id) = nth(pick, self.reserved()) {
                    self.commit_claim(id);
                }
            }
            Step::Return { pick, how, rolls_back } => {
                if let Some((id, _)) = self.begin_end(pick, how == 0) {
                    self.board.audit();
                    _ = self.own(0);
                    if rolls_back {
                        let Some(Hold::Ending(ticket)) = self.rows[&id].hold else { panic!() };
                        self.board.undo_end(ticket, NOW.monotonic);
                        self.row(id).hold = Some(Hold::Leased);
                    } else {
                        self.commit_end(id, how);
                    }
                }
            }
            Step::Joined { pick, how } => self.join(pick, how),
            Step::Expire { withheld, commits } => self.expire(withheld, commits),
            Step::Publish { pick } => {
                let held = self.ids(|row| matches!(row.hold, Some(Hold::Withheld(_))));
                if let Some(id) = nth(pick, held)
                    && let Some(Hold::Withheld(ticket)) = self.rows[&id].hold
                {
                    self.row(id).hold = None;
                    self.board.publish(ticket);
                }
            }
            Step::Withdraw { pick, how, rolls_back } => self.withdraw(pick, how, rolls_back),
            Step::Cancel { pick } => {
                let free = self.ids(|row| {
                    row.stage != Stage::Unseen
                        && !matches!(row.hold, Some(Hold::Ending(_) | Hold::Reserved(_)))
                });
                if let Some(id) = nth(pick, free) {
                    let row = self.rows.remove(&id).expect("a row");
                    self.changes += 1;
                    let lane = lane_of(row.action, row.group);
                    match row.stage {
                        Stage::Held => self.board.leave_line(0, lane, row.rank),
                        _ => {
                            self.board.remove_task(0, id);
                            self.board.read_again(0, lane, row.rank);
                        }
                    }
                }
            }
            Step::BeginRefill { limit } => {
                if self.refill.is_none()
                    && let Next::NeedsRefill(wanted) = self.board.next_task(0, b"work", None)
                {
                    self.begin_refill(wanted, limit);
                }
            }
            Step::EndRefill => self.end_refill(),
            Step::Limit { most } => self.limit(most),
            Step::Survey => self.survey(),
            Step::Crash => self.crash(),
        }
        self.board.audit();
    }

    /// A transaction ends a lease and owns in its place.
    fn join(&mut self, pick: usize, how: u8) {
        let Some((id, place)) = self.begin_end(pick, how == 0) else { return };
        let queue = self.board.find_queue(0, b"work");
        let freed = place.map(|place| (place.group, 1));
        if let Next::Task(at) = self.board.next_in_freed(queue, None, freed.as_slice()) {
            assert!(how == 0 || !self.keeps_order(), "its group waits for it");
            if let Some(next) = self.reserve(at, Some(id)) {
                self.tally.in_own_place += 1;
                self.commit_end(id, how);
                return self.commit_claim(next);
            }
        }
        self.commit_end(id, how);
    }

    fn expire(&mut self, withheld: bool, commits: bool) {
        let Some(board::Expired::Lease(ticket, lease)) = take_expired(&mut self.board) else {
            let lapsed = self.reserved();
            // The reservation is queued again, and its transaction is open.
            for id in lapsed {
                if self.board.slot_of(0, id).is_none_or(|it| it.reserved_by().is_none()) {
                    let Some(Hold::Reserved(ticket)) = self.rows[&id].hold else { panic!() };
                    self.row(id).hold = None;
                    self.board.undo_claim(ticket);
                }
            }
            return;
        };
        let id = lease.id;
        if !self.rows.contains_key(&id) {
            return self.board.commit_end(ticket);
        }
        self.row(id).hold = Some(Hold::Ending(ticket));
        _ = self.own(0);
        if !commits {
            self.row(id).hold = Some(Hold::Leased);
            return self.board.undo_end(ticket, NOW.monotonic);
        }
        if withheld {
            self.row(id).hold = Some(Hold::Withheld(ticket));
            self.board.withhold(ticket);
        } else {
            self.row(id).hold = None;
            self.board.requeue(ticket, true);
        }
        _ = self.own(0);
    }

    /// Everything ends: each task runs once, in the order of its group.
    pub fn drain(&mut self) {
        self.end_refill();
        for id in self.reserved() {
            self.commit_claim(id);
        }
        for id in self.ids(|row| matches!(row.hold, Some(Hold::Withheld(_)))) {
            if let Some(Hold::Withheld(ticket)) = self.rows[&id].hold {
                self.row(id).hold = None;
                self.board.publish(ticket);
            }
        }
        while let Some((id, _)) = self.begin_end(0, true) {
            self.commit_end(id, 0);
        }
        for id in self.ids(|row| row.late) {
            self.offer(id);
        }
        for id in self.ids(|row| row.stage != Stage::Ready) {
            self.row(id).stage = Stage::Ready;
            self.offer(id);
        }
        self.limit(1);
        let mut last = BTreeMap::new();
        while let Some(id) = self.own(0) {
            let row = self.rows[&id];
            let before = last.insert(row.group, row.rank.created);
            assert!(before < Some(row.rank.created), "each group in its order");
            self.commit_claim(id);
            let (ended, _) = self.begin_end(0, true).expect("a lease");
            self.commit_end(ended, 0);
        }
        assert!(self.rows.is_empty(), "stranded: {:?}", self.rows);
        self.limit(0);
        let usage = self.board.usage();
        assert_eq!(usage.slots_used, 0, "an idle board is empty");
    }
}
