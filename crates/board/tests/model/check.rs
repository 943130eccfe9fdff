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
        (0..MAX_DATABASES).for_each(|entry| assert_eq!(self.board.searched(entry), 0));
        Snapshot { lanes, used: self.board.usage().slots_used }
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
            expect.left.push((card.lane, card.rank));
            if expect.arrivals.contains(&key) {
                self.tally.left += 1;
                self.check_left(&expect, &before, &card);
            } else if expect.back == Some(key) {
                assert!(card.rank >= before.cursor(card.lane), "a task before the cursor stays");
            } else {
                evicted.push(card);
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
        self.check_entries();
        self.check_nothing_stranded(&after);
        self.note_groups(&after);
        self.last = after;
    }

    /// Where a task is in the order of its queue: by priority, by its group's turn, by rank.
    fn place(&self, lane: LaneKey, rank: Rank) -> (Reverse<u32>, u64, Rank) {
        let turn = self.turns.get(&((lane.0, lane.1), lane.3)).copied().unwrap_or(0);
        (Reverse(rank.priority), turn, rank)
    }

    /// The group of a lane has its turn.
    pub fn note_turn(&mut self, lane: LaneKey) {
        let turn = self.serial();
        self.turns.insert(((lane.0, lane.1), lane.3), turn);
    }

    /// A group that is new comes last; one without lanes and slots is forgotten.
    fn note_groups(&mut self, after: &Snapshot) {
        let of = |it: &LaneKey| ((it.0, it.1), it.3);
        let slots = self.cards.values().map(|it| of(&it.lane));
        let groups: BTreeSet<_> = after.lanes.keys().map(of).chain(slots).collect();
        let queues: BTreeSet<_> = groups.iter().map(|it| it.0).collect();
        self.turns.retain(|it, _| groups.contains(it) || it.1 == 0 && queues.contains(&it.0));
        for group in groups.into_iter().filter(|it| it.1 > 0) {
            if !self.turns.contains_key(&group) {
                let turn = self.serial();
                self.turns.insert(group, turn);
            }
        }
    }

    fn slots(&self) -> BTreeMap<Key, Slot> {
        let mut slots = BTreeMap::new();
        for entry in 0..MAX_DATABASES {
            let mut pinned = false;
            for slot in (0..self.board.slots_end()).filter_map(|at| self.board.slot_at(at, entry)) {
                pinned |= slot.state() != State::Queued;
                let twice = slots.insert((entry, slot.id), *slot);
                assert!(twice.is_none(), "a task has one slot (I3)");
            }
            assert_eq!(self.board.pinned_end(entry) > 0, pinned, "a walk finds what is owned");
        }
        assert_eq!(slots.len() as u32, self.board.usage().slots_used);
        slots
    }

    /// Checks why a new task found no slot.
    fn check_left(&self, expect: &Expect, before: &Snapshot, card: &Card) {
        if !expect.read && card.rank >= before.cursor(card.lane) {
            return;
        }
        let full = self.board.usage();
        assert_eq!(full.slots_used, full.slots, "there was no room");
        if expect.arrivals.len() == 1 {
            assert_eq!(before.queued(card.lane), before.longest(), "its lane is the longest");
            let tail =
                self.queued().filter(|(_, it)| it.lane == card.lane).map(|it| it.1.rank).max();
            assert!(tail < Some(card.rank), "and has nothing worse");
        }
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
        for lane in lanes {
            let left = expect.left.iter().filter(|it| it.0 == lane).map(|it| it.1).min();
            let mut cursor = before.cursor(lane).min(left.unwrap_or(Rank::END));
            if let Some((_, ended)) = expect.ended.filter(|it| it.0 == lane) {
                cursor = ended;
            }
            let refill = self.refills.iter().find(|it| it.lane == lane);
            if let Some(it) = after.lanes.get(&lane) {
                assert_eq!(it.cursor, cursor, "the cursor of {lane:?}");
                assert_eq!(it.refiller, refill.map_or(0, |it| it.pid));
                continue;
            }
            assert!(refill.is_none(), "a lane that is refilled stays");
            let mut queued = self.queued();
            assert!(queued.all(|(_, card)| card.lane != lane), "a lane with queued slots stays");
            assert_eq!(cursor, Rank::END, "an incomplete lane stays: {lane:?}");
        }
    }

    fn check_entries(&mut self) {
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
        }
    }

    /// A ready task without a slot is behind its lane's cursor (I4).
    fn check_nothing_stranded(&self, after: &Snapshot) {
        for (key, row) in self.rows.iter().filter(|(_, row)| row.ready) {
            let unbuilt = self.board.entry(key.0).build_state != BuildState::Built;
            let known = unbuilt || self.cards.contains_key(key) || self.puts.contains(key);
            if !known {
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
                let is_before =
                    |rank: Rank, of: &LaneKey| place < self.place(*of, rank) || slot.rank() < rank;
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
            Next::Refilling => {
                let under_way = cursors().filter(|(_, it)| it.refiller != 0);
                let places = under_way.map(|(lane, it)| self.place(*lane, it.cursor));
                let place = places.min().expect("a refill under way");
                assert!(best.is_none_or(|best| place <= best), "a lane is refilled from there");
            }
            Next::Search => panic!("there are lanes enough"),
            Next::Empty => {
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
