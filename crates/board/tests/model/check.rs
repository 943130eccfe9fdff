//! The conditions that must hold after each call.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use board::{BuildState, LaneAudit, Monotonic, Next, Rank, Slot, State, Wall};

use super::world::{
    ACTIONS, Card, GROUPS, Key, LaneKey, MAX_DATABASES, QUEUES, Snapshot, World, action_name,
    group_of, queue_name,
};

/// What a call may do besides the changes that the cards have already.
#[derive(Clone, Debug, Default)]
pub struct Expect {
    /// Tasks just offered or read: they are on the board, or were left to the table.
    pub arrivals: Vec<Key>,
    /// Tasks that come wherever their lane's cursor is: read by a refill, or asked for by id.
    pub read: bool,
    /// A task asked for by id: it comes even in place of a better one.
    pub asked: bool,
    /// The lane that may have been made, perhaps in place of another.
    pub makes: Option<LaneKey>,
    /// A task that went back into its lane, or was left to the table if the lane had moved past it.
    pub back: Option<Key>,
    /// Tasks left to the table in any case.
    pub left: Vec<(LaneKey, Rank)>,
    /// Groups were read: lanes were made for them.
    pub groups: Option<(u32, u8, u8)>,
    /// A refill that ended with this cursor.
    pub ended: Option<(LaneKey, Rank)>,
}

impl Snapshot {
    fn cursor(&self, lane: LaneKey) -> Rank {
        self.lanes.get(&lane).map_or(Rank::END, |it| it.cursor)
    }

    fn queued(&self, lane: LaneKey) -> usize {
        self.lanes.get(&lane).map_or(0, |it| it.queued.len())
    }

    fn longest(&self) -> usize {
        self.lanes.values().map(|it| it.queued.len()).max().unwrap_or(0)
    }
}

/// Whether a lane can go: none of its slots is held, it is not being refilled, and no head.
fn is_idle(lane: &LaneAudit) -> bool {
    is_free(lane) && !lane.is_head
}

fn is_free(lane: &LaneAudit) -> bool {
    lane.slots as usize == lane.queued.len() && lane.refiller == 0
}

impl World<'_> {
    pub fn take_snapshot(&mut self) -> Snapshot {
        let lanes = self.board.audit().lanes.into_iter().map(|it| {
            let queue = (0..QUEUES).find(|queue| queue_name(*queue) == it.queue);
            let action = (0..ACTIONS).find(|action| action_name(*action) == it.action);
            let group = (0..GROUPS).find(|group| group_of(*group) == it.group);
            let (queue, action) = (queue.expect("a queue"), action.expect("an action"));
            ((it.entry, queue, action, group.expect("a group")), it)
        });
        let lanes: BTreeMap<LaneKey, LaneAudit> = lanes.collect();
        let has_pass = |entry| lanes.iter().any(|it| it.0.0 == entry && it.1.pass_begun.is_some());
        let spilled = std::array::from_fn(|entry| {
            self.board.entry(entry as u32).lanes_spilled > 0 || has_pass(entry as u32)
        });
        Snapshot { lanes, used: self.board.usage().slots_used, spilled }
    }

    /// Compares the board with the cards, and adopts the choices that the board was free to make.
    pub fn reconcile(&mut self, mut expect: Expect) {
        let before = std::mem::take(&mut self.last);
        let after = self.take_snapshot();
        let slots = self.slots();
        for key in slots.keys() {
            assert!(self.cards.contains_key(key), "a slot that should not be: {key:?}");
        }
        let absent: Vec<Key> =
            self.cards.keys().filter(|key| !slots.contains_key(key)).copied().collect();
        let mut evicted = Vec::new();
        for key in absent {
            let card = self.cards.remove(&key).expect("a card");
            let left = if expect.arrivals.contains(&key) {
                self.tally.left += 1;
                self.check_left(&expect, &before, &after, &card)
            } else if expect.back == Some(key) {
                assert!(card.rank >= before.cursor(card.lane), "a task before the cursor stays");
                true
            } else {
                evicted.push(card.clone());
                true
            };
            if left {
                expect.left.push((card.lane, card.rank));
            }
        }
        self.check_evicted(&expect, &before, &after, &evicted);
        for key in expect.arrivals.iter().chain(&expect.back) {
            if let Some(card) = self.cards.get(key) {
                assert!(
                    expect.read || card.rank < before.cursor(card.lane),
                    "a task behind the cursor is left to the table"
                );
            }
        }
        self.check_cursors(&expect, &before, &after);
        for (key, slot) in &slots {
            compare(key, slot, &self.cards[key]);
            let card = &self.cards[key];
            let worker = card.token_hash.map_or(&[][..], |_| &card.worker);
            assert_eq!(self.board.lease(slot).worker.as_bytes(), worker, "{key:?}");
        }
        self.check_workers();
        self.check_entries(&before, &after);
        self.check_nothing_stranded(&after);
        self.note_groups(&before, &after);
        self.last = after;
    }

    /// Where a task is in the order of its queue: by priority, by its group's turn, by rank. Where
    /// groups were left to the table, by priority: `passes` checks their turns.
    fn place(&self, lane: LaneKey, rank: Rank) -> (Reverse<u32>, u64, Rank) {
        if self.had_passes.contains(&(lane.0, lane.1)) {
            return (Reverse(rank.priority), 0, Rank::FIRST);
        }
        let turn = self.turns.get(&((lane.0, lane.1), lane.3)).copied().unwrap_or(0);
        (Reverse(rank.priority), turn, rank)
    }

    /// The group of a lane has its turn.
    pub fn note_turn(&mut self, lane: LaneKey) {
        let turn = self.serial();
        self.turns.insert(((lane.0, lane.1), lane.3), turn);
    }

    /// A group that is new comes last; one without lanes is forgotten, also while a lane is made.
    fn note_groups(&mut self, before: &Snapshot, after: &Snapshot) {
        let lanes: BTreeSet<_> = after.lanes.keys().map(|it| ((it.0, it.1), it.3)).collect();
        let queues: BTreeSet<_> = lanes.iter().map(|it| it.0).collect();
        let stayed = after.lanes.keys().filter(|it| before.lanes.contains_key(*it));
        let stayed: BTreeSet<_> = stayed.map(|it| ((it.0, it.1), it.3)).collect();
        self.turns.retain(|it, _| stayed.contains(it) || it.1 == 0 && queues.contains(&it.0));
        let has_pass = after.lanes.iter().filter(|it| it.1.pass_begun.is_some());
        self.had_passes.extend(has_pass.map(|(lane, _)| (lane.0, lane.1)));
        for group in lanes.into_iter().filter(|it| it.1 > 0) {
            if !self.turns.contains_key(&group) {
                let turn = self.serial();
                self.turns.insert(group, turn);
            }
        }
    }

    fn slots(&self) -> BTreeMap<Key, Slot> {
        let mut slots = BTreeMap::new();
        for entry in 0..MAX_DATABASES {
            for slot in (0..self.board.slots_end()).filter_map(|at| self.board.slot_at(at, entry)) {
                let twice = slots.insert((entry, slot.id), *slot);
                assert!(twice.is_none(), "a task has one slot (I3)");
            }
        }
        assert_eq!(slots.len() as u32, self.board.usage().slots_used);
        slots
    }

    /// Whether a group's lane is new, and its group may be one that only the table knew.
    fn is_unread(&self, before: &Snapshot, after: &Snapshot, lane: LaneKey) -> bool {
        let is_new = !before.lanes.contains_key(&lane) && lane.3 > 0;
        let has_pass = before.spilled[lane.0 as usize] || after.spilled[lane.0 as usize];
        is_new && has_pass && after.cursor(lane) == Rank::FIRST
    }

    /// Checks why a new task found no slot, and whether its lane knows.
    fn check_left(
        &self,
        expect: &Expect,
        before: &Snapshot,
        after: &Snapshot,
        card: &Card,
    ) -> bool {
        let full = self.board.usage();
        if !after.lanes.contains_key(&card.lane) {
            assert!(after.spilled[card.lane.0 as usize], "a task without a lane is spilled");
            let head = (card.lane.0, card.lane.1, card.lane.2, 0);
            if before.lanes.get(&head).is_some_and(|it| it.pass_begun.is_some()) {
                return false;
            }
            // A group's lane needs a head, too.
            let more = usize::from(card.lane.3 > 0);
            assert!(before.lanes.len() + more >= full.lanes as usize, "no room for a lane");
            let idle = before.lanes.values().filter(|it| is_idle(it)).count();
            // Of groups that were read, one that had its turn gives way to the next.
            assert!(idle <= more || expect.groups.is_some(), "no lane could go for it");
            return false;
        }
        if !expect.read && card.rank >= before.cursor(card.lane) {
            return true;
        }
        if self.is_unread(before, after, card.lane) {
            return true;
        }
        assert_eq!(full.slots_used, full.slots, "there was no room");
        if expect.arrivals.len() == 1 {
            assert_eq!(before.queued(card.lane), before.longest(), "its lane is the longest");
            let tail =
                self.queued().filter(|(_, it)| it.lane == card.lane).map(|it| it.1.rank).max();
            assert!(tail < Some(card.rank), "and has nothing worse");
        }
        true
    }

    /// Only the tail of the longest lane may be evicted, only for another task, and only from a
    /// full board.
    fn check_evicted(
        &mut self,
        expect: &Expect,
        before: &Snapshot,
        after: &Snapshot,
        evicted: &[Card],
    ) {
        let came = expect.arrivals.iter().filter(|key| self.cards.contains_key(key)).count();
        let (spilled, evicted): (Vec<&Card>, Vec<&Card>) = evicted.iter().partition(|card| {
            // A lane may be spilled and made again by one reading of groups.
            let may_be_new = expect.groups.is_some() && is_idle(&before.lanes[&card.lane]);
            may_be_new || !after.lanes.contains_key(&card.lane)
        });
        for card in spilled {
            assert_eq!(card.state, State::Queued, "a lease is never evicted");
            let lane = &before.lanes[&card.lane];
            // A head may go once the last of its lanes has gone.
            assert!(is_idle(lane) || is_free(lane) && lane.is_head, "an idle lane goes");
        }
        assert!(evicted.len() <= came, "evicted for no other: {evicted:?}");
        self.tally.evicted += evicted.len() as u64;
        for card in evicted {
            let usage = self.board.usage();
            assert_eq!(usage.slots_used, usage.slots, "evicted from a board with room");
            assert_eq!(card.state, State::Queued, "a lease is never evicted");
            let mut rest = self.queued().filter(|(key, it)| {
                it.lane == card.lane && !(expect.asked && expect.arrivals.contains(key))
            });
            assert!(rest.all(|(_, it)| it.rank < card.rank), "the tail goes");
            if expect.arrivals.len() == 1 {
                assert_eq!(before.queued(card.lane), before.longest(), "of the longest lane");
            } else {
                assert!(after.queued(card.lane) + 1 >= after.longest(), "of the longest lane");
            }
        }
    }

    fn check_cursors(&mut self, expect: &Expect, before: &Snapshot, after: &Snapshot) {
        for (lane, rank) in &expect.left {
            for refill in self.refills.iter_mut().filter(|it| it.lane == *lane) {
                refill.left = refill.left.min(*rank);
                self.tally.interrupted += 1;
            }
        }
        let lanes: BTreeSet<LaneKey> =
            before.lanes.keys().chain(after.lanes.keys()).chain(&expect.makes).copied().collect();
        // A lane of a group may be made with its head.
        let more = expect.makes.map_or(0, |lane| u32::from(lane.3 > 0));
        let mut spilled = 0;
        for lane in lanes {
            let left = expect.left.iter().filter(|it| it.0 == lane).map(|it| it.1).min();
            let mut cursor = before.cursor(lane).min(left.unwrap_or(Rank::END));
            if let Some((_, ended)) = expect.ended.filter(|it| it.0 == lane) {
                cursor = ended;
            }
            let refill = self.refills.iter().find(|it| it.lane == lane);
            if let Some(it) = after.lanes.get(&lane) {
                let is_new = !before.lanes.contains_key(&lane) && lane.3 > 0;
                let was_read = expect.groups.is_some() && (is_new || it.cursor <= cursor);
                let unread = was_read || self.is_unread(before, after, lane);
                assert!(unread || it.cursor == cursor, "the cursor of {lane:?}: {it:?} {cursor:?}");
                assert_eq!(it.refiller, refill.map_or(0, |it| it.pid));
                continue;
            }
            assert!(refill.is_none(), "a lane that is refilled stays");
            assert!(self.cards.values().all(|card| card.lane != lane), "a lane with slots stays");
            if cursor != Rank::END {
                spilled += 1;
                let makes = expect.makes.is_some() || expect.groups.is_some();
                assert!(makes && after.spilled[lane.0 as usize]);
                let is_full = before.lanes.len() as u32 + more >= self.board.usage().lanes;
                assert!(is_full || expect.groups.is_some());
            }
        }
        let is_for_another = expect.groups.is_some() || spilled <= 1 + u64::from(more);
        assert!(is_for_another, "one lane is spilled for another");
        self.tally.spilled += spilled;
    }

    fn check_entries(&mut self, before: &Snapshot, after: &Snapshot) {
        for entry in 0..MAX_DATABASES {
            let timed = self.cards.iter().filter(|(key, card)| {
                key.0 == entry && matches!(card.state, State::Reserved | State::Leased)
            });
            let next = timed.map(|(_, card)| card.deadline).min().unwrap_or(Monotonic::NEVER);
            assert_eq!(self.board.next_expiry(entry), next, "the next deadline");
            let duty = next.min(self.board.next_round(entry));
            let wants = duty < self.board.entry(entry).wake_at;
            assert_eq!(self.board.wants_scheduler(entry), wants);
            let at = entry as usize;
            assert_eq!(self.board.entry(entry).ended_persisted, self.ended[at]);
            if after.spilled[at] && !before.spilled[at] {
                let lanes = before.lanes.len() as u32 + 1;
                assert!(lanes >= self.board.usage().lanes, "spilled for want of lanes");
            }
        }
    }

    /// A ready task without a slot is behind its lane's cursor, or in a database that spilled (I4).
    fn check_nothing_stranded(&self, after: &Snapshot) {
        for (key, row) in self.rows.iter().filter(|(_, row)| row.ready) {
            let unbuilt = self.board.entry(key.0).build_state != BuildState::Built;
            let known = unbuilt || self.cards.contains_key(key) || self.puts.contains(key);
            if !known && !after.spilled[key.0 as usize] {
                assert!(after.cursor(row.lane) <= row.rank, "stranded: {key:?} {row:?}");
            }
        }
    }

    /// No task is handed out before a better one, on the board or in the table.
    pub fn check_front(&mut self, entry: u32, queue: u8, actions: Option<&[u8]>, front: &Next) {
        let is_meant = |lane: LaneKey| {
            lane.0 == entry
                && lane.1 == queue
                && actions.is_none_or(|actions| actions.contains(&lane.2))
        };
        let parked = self.queued().any(|(_, it)| is_meant(it.lane) && self.is_group_full(it.lane));
        let asked = |lane: LaneKey| is_meant(lane) && !self.is_group_full(lane);
        let queued = self.queued().filter(|(_, it)| asked(it.lane));
        let queued = queued.map(|(_, it)| self.place(it.lane, it.rank)).min();
        let in_table = self.rows.iter().filter(|(key, row)| {
            row.ready
                && asked(row.lane)
                && !self.cards.contains_key(key)
                && !self.puts.contains(key)
        });
        let in_table = in_table.filter(|_| !self.last.spilled[entry as usize]);
        let in_table = in_table.map(|(_, row)| self.place(row.lane, row.rank)).min();
        let best = queued.into_iter().chain(in_table).min();
        let lanes = || self.last.lanes.iter().filter(|(lane, _)| asked(**lane));
        let cursors = || lanes().filter(|(_, it)| it.cursor != Rank::END);
        match front {
            Next::Task(at) => {
                let slot = self.board.slot_at(*at, entry).expect("a task of the entry");
                assert_eq!(slot.state(), State::Queued);
                let lane = self.cards[&(entry, slot.id)].lane;
                let place = self.place(lane, slot.rank());
                assert_eq!(Some(place), best, "the best is handed out");
                let is_before = |rank: Rank, of: &LaneKey| {
                    let mixed = self.had_passes.contains(&(of.0, of.1)) && *of != lane;
                    let other = self.place(*of, rank);
                    if mixed { place <= other } else { place < other || slot.rank() < rank }
                };
                assert!(cursors().all(|(lane, it)| is_before(it.cursor, lane)));
                let own = self.queued().filter(|(_, it)| it.lane == lane).map(|it| it.1.rank);
                assert_eq!(own.min(), Some(slot.rank()), "the first of its lane");
                let mut others = self.queued().filter(|(_, it)| asked(it.lane));
                let in_turn = others.any(|(_, it)| it.rank < slot.rank());
                drop(others);
                self.tally.in_turn += u64::from(in_turn);
                self.tally.parked += u64::from(parked);
            }
            Next::NeedsRefill(wanted) => {
                let lane = lanes().find(|(lane, it)| {
                    action_name(lane.2) == wanted.action.as_bytes()
                        && group_of(lane.3) == wanted.group
                        && it.cursor == wanted.cursor
                });
                let (lane, it) = lane.expect("such a lane");
                assert_eq!(it.refiller, 0);
                let place = self.place(*lane, it.cursor);
                assert!(best.is_none_or(|best| place <= best), "a lane is refilled from there");
            }
            Next::NeedsGroups(wanted) => {
                let of = |it: &&LaneKey| action_name(it.2) == wanted.action.as_bytes();
                // Its own tasks may be parked.
                let mut heads = self.last.lanes.iter().filter(|it| is_meant(*it.0) && it.0.3 == 0);
                let (lane, it) = heads.find(|it| of(&it.0)).expect("its lane");
                assert!(it.pass_begun.is_some(), "{lane:?} has a pass");
            }
            Next::Refilling => {
                let under_way = cursors().filter(|(_, it)| it.refiller != 0);
                let places = under_way.map(|(lane, it)| self.place(*lane, it.cursor));
                let place = places.min().expect("a refill under way");
                assert!(best.is_none_or(|best| place <= best), "a lane is refilled from there");
            }
            Next::Spilled(_) | Next::Empty => {
                let spilled = self.board.entry(entry).lanes_spilled > 0;
                assert_eq!(matches!(front, Next::Spilled(_)), spilled);
                assert_eq!(best, None, "empty when no task is ready");
                assert!(lanes().all(|(_, it)| it.cursor == Rank::END));
            }
        }
    }
}

fn compare(key: &Key, slot: &Slot, card: &Card) {
    assert_eq!(slot.state(), card.state, "{key:?}");
    assert_eq!((slot.rank(), slot.timeout), (card.rank, card.timeout));
    assert_eq!(
        (slot.in_history(), slot.is_persisted()),
        (card.in_history, card.persisted),
        "{key:?}"
    );
    assert_eq!(slot.progress, card.progress);
    assert_eq!(slot.has_lease(), card.has_lease());
    if card.state != State::Queued {
        assert_eq!(
            (slot.deadline, slot.deadline_at().unwrap_or(Wall::NEVER)),
            (card.deadline, card.deadline_at),
            "{key:?}"
        );
        assert_eq!((slot.since_at, slot.length), (card.since_at, card.length), "{key:?}");
        assert!(card.token_hash.is_none_or(|token_hash| token_hash == slot.token_hash), "{key:?}");
        assert!(card.token_hash.is_some() || card.previous_state == State::Queued, "{key:?}");
    }
}
