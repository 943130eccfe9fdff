//! Groups beyond the board's lanes: each gets its turns.

use crate::memory::small::*;
use board::{
    ActionFilter, Board, GroupHash, GroupRead, Id, LaneName, Micros, NeedsGroups, NeedsRefill,
    Next, Rank, WaitFor, Wall,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::cell::RefCell;
use std::collections::BTreeMap;

const ACTIONS: [&[u8]; 2] = [b"a", b"b"];
const READER: i32 = 5;

/// A ready task in the table.
#[derive(Clone, Copy, Debug)]
struct Row {
    group: GroupHash,
    action: usize,
    rank: Rank,
    /// How many tasks had been handed out before.
    since: u64,
}

/// How many tasks had been handed out, and the actions that were asked for.
type Turn = (u64, Vec<usize>);

/// The table, the board beside it, and what was handed out.
struct World<'b> {
    board: Board<'b>,
    rows: BTreeMap<Id, Row>,
    handed: u64,
    /// Of each group and action when it had its turns, and what was asked for.
    turns: BTreeMap<(GroupHash, usize), Vec<Turn>>,
    last_id: u128,
    /// The group and action of a task that is ready soon: while groups are read, or after the call.
    arrival: Option<(GroupHash, usize)>,
    readings: u64,
    /// How often a group had a turn before another one that waited, at most.
    overtakes: usize,
}

impl<'b> World<'b> {
    fn new(board: Board<'b>) -> World<'b> {
        World {
            board,
            rows: BTreeMap::new(),
            handed: 0,
            turns: BTreeMap::new(),
            last_id: 0,
            arrival: None,
            readings: 0,
            overtakes: 0,
        }
    }

    fn lane(row: &Row) -> LaneName<'static> {
        let group = (row.group > 0).then_some(row.group);
        LaneName { queue: b"work", action: ACTIONS[row.action], group }
    }

    fn submit(&mut self, group: GroupHash, action: usize, priority: u32) {
        self.last_id += 1;
        let rank = Rank { id: self.last_id, created: Wall(self.last_id as i64), priority };
        let row = Row { group, action, rank, since: self.handed };
        self.rows.insert(rank.id, row);
        self.board.offer(0, World::lane(&row), rank, NONE);
    }

    fn arrive(&mut self) {
        if let Some((group, action)) = self.arrival.take() {
            self.submit(group, action, 0);
        }
    }

    /// The ready tasks of an action that are not owned, by group, in order.
    fn of_action(&self, action: &[u8], from: Rank) -> BTreeMap<GroupHash, Vec<Rank>> {
        let mut groups: BTreeMap<GroupHash, Vec<Rank>> = BTreeMap::new();
        for row in self.rows.values() {
            if ACTIONS[row.action] == action && row.rank >= from {
                groups.entry(row.group).or_default().push(row.rank);
            }
        }
        groups.values_mut().for_each(|ranks| ranks.sort());
        groups
    }

    /// The first two tasks, and what comes behind them.
    fn read(ranks: &[Rank]) -> (Vec<(Rank, Micros)>, Rank) {
        let cursor = ranks.get(2).map_or(Rank::END, |_| ranks[1].next());
        (ranks.iter().take(2).map(|rank| (*rank, NONE)).collect(), cursor)
    }

    fn refill(&mut self, wanted: &NeedsRefill) {
        assert!(self.board.begin_refill(wanted, READER));
        let mut groups = self.of_action(wanted.action.as_bytes(), wanted.cursor);
        let ranks = groups.remove(&wanted.group.unwrap_or(0)).unwrap_or_default();
        let (tasks, cursor) = World::read(&ranks);
        self.board.refill(0, wanted.lane, READER, &tasks);
        self.board.end_refill(wanted.lane, READER, cursor);
    }

    fn read_groups(&mut self, wanted: &NeedsGroups) {
        let most = self.board.begin_groups(wanted, READER).expect("the only reader");
        let groups = self.of_action(wanted.action.as_bytes(), Rank::FIRST);
        let groups: Vec<_> = groups.range(wanted.from.max(1)..).take(most).collect();
        self.arrive();
        let until = groups.last().map_or(GroupHash::MAX, |it| *it.0);
        let mut left = None;
        for (group, ranks) in &groups {
            let (tasks, cursor) = World::read(ranks);
            let read = [GroupRead { group: **group, tasks: &tasks, cursor }];
            if self.board.add_groups(0, wanted.lane, READER, &read, until) == 0 {
                left = Some(**group);
                break;
            }
        }
        let last = groups.last().filter(|_| groups.len() == most);
        self.board.end_groups(wanted.lane, READER, left.or(last.map(|it| it.0 + 1)));
        self.readings += 1;
    }

    fn survey(&mut self) {
        let spilled = self.board.entry(0).lanes_spilled;
        for row in self.rows.values() {
            self.board.survey(0, World::lane(row));
        }
        if self.board.entry(0).lanes_spilled == spilled {
            self.board.entry_mut(0).lanes_spilled = 0;
        }
    }

    /// Owns and settles the next task among some actions, as a worker that refills and reads.
    fn work(&mut self, asked: &[usize]) -> Option<Row> {
        let names: Vec<&[u8]> = asked.iter().map(|it| ACTIONS[*it]).collect();
        let actions = (names.len() < ACTIONS.len()).then_some(&names[..]);
        let (mut reads, mut surveys) = (0, 0);
        loop {
            let queue = self.board.find_queue(0, b"work");
            let next = self.board.next_in_queue(0, queue, actions, Wall::MIN);
            match next {
                Next::Task(at) => {
                    let taken =
                        self.board.reserve(at, &claim(NOW.monotonic.0, None), token_hash(1));
                    self.board.commit_claim(taken.ticket);
                    let (ticket, _) =
                        self.board.begin_end(0, taken.id, &token_hash(1), 7).expect("a lease");
                    let row = self.rows.remove(&taken.id).expect("a ready task, once");
                    self.board.commit_end(ticket);
                    return Some(row);
                }
                Next::NeedsRefill(wanted) => self.refill(&wanted),
                Next::NeedsGroups(_) if reads > 300 => panic!("reads groups without end"),
                Next::NeedsGroups(wanted) => {
                    self.read_groups(&wanted);
                    reads += 1;
                }
                Next::Refilling => panic!("nothing else reads"),
                Next::Spilled(_)
                    if surveys < 50
                        && self.rows.values().any(|row| asked.contains(&row.action)) =>
                {
                    self.survey();
                    surveys += 1;
                }
                Next::Spilled(_) | Next::Empty => {
                    let passed = self.rows.values().find(|row| asked.contains(&row.action));
                    assert!(passed.is_none(), "passed over: {passed:?}");
                    return None;
                }
            }
            self.board.audit();
        }
    }

    /// Notes how often a group had a turn while another one, which may be asked for, had none.
    fn note_turn(&mut self, row: &Row, asked: &[usize]) {
        self.handed += 1;
        self.turns.entry((row.group, row.action)).or_default().push((self.handed, asked.to_vec()));
        let turns = &self.turns[&(row.group, row.action)];
        for other in self.rows.values().filter(|it| asked.contains(&it.action)) {
            let last = |action| {
                self.turns.get(&(other.group, action)).and_then(|it| it.last()).map(|it| it.0)
            };
            let had = last(0).max(last(1)).unwrap_or(0);
            let waits_since = had.max(other.since);
            if other.group != row.group && other.rank.priority >= row.rank.priority {
                let since = turns.iter().rev().take_while(|turn| turn.0 > waits_since);
                let overtakes = since.filter(|turn| turn.1.contains(&other.action)).count();
                self.overtakes = self.overtakes.max(overtakes);
            }
        }
    }
}

#[derive(Clone, Debug)]
struct Case {
    lanes: usize,
    groups: u128,
    /// How many tasks each group has of each action, repeated.
    tasks: Vec<(usize, usize)>,
    /// What each call asks for, repeated: 0 and 1: one action, 2: both.
    asks: Vec<usize>,
    /// Groups that get a task between two calls, repeated.
    arrivals: Vec<Option<(u128, usize)>>,
}

impl Case {
    fn with_one_action(mut self) -> Case {
        self.tasks.iter_mut().for_each(|it| it.1 = 0);
        self.asks = vec![2];
        self.arrivals.iter_mut().flatten().for_each(|it| it.1 = 0);
        self
    }
}

fn cases() -> impl Strategy<Value = Case> {
    let tasks = vec((0..4_usize, 0..4_usize), 1..12);
    let arrivals = vec(prop::option::of((0..100_u128, 0..2_usize)), 1..8);
    let asks = prop_oneof![2 => Just(vec![2]), 1 => Just(vec![0]), 2 => vec(0..3_usize, 1..6)];
    (12..40_usize, 1..90_u128, tasks, asks, arrivals).prop_map(
        |(lanes, groups, tasks, asks, arrivals)| Case { lanes, groups, tasks, asks, arrivals },
    )
}

/// The groups are in the order of their hashes, and their tasks come in another one.
fn hash(groups: u128, nth: u128) -> GroupHash {
    1 + nth * 7919 % groups.max(1) * 1000
}

/// What a case did.
struct Run {
    readings: u64,
    overtakes: usize,
}

fn run(case: &Case) -> Run {
    let mut memory = small(case.lanes * 4, case.lanes);
    let mut world = World::new(memory.board());
    for nth in 0..case.groups {
        let (first, second) = case.tasks[nth as usize % case.tasks.len()];
        for (action, count) in [(0, first), (1, second)] {
            (0..count).for_each(|_| world.submit(hash(case.groups, nth), action, 0));
        }
    }
    for call in 0..400 {
        let asked: &[usize] = match case.asks[call % case.asks.len()] {
            2 => &[0, 1],
            1 => &[1],
            _ => &[0],
        };
        let arrival = case.arrivals[call % case.arrivals.len()];
        world.arrival = arrival.map(|(nth, action)| (hash(case.groups, nth % case.groups), action));
        if let Some(row) = world.work(asked) {
            world.note_turn(&row, asked);
        }
        world.arrive();
    }
    while let Some(row) = world.work(&[0, 1]) {
        world.note_turn(&row, &[0, 1]);
    }
    assert!(world.rows.is_empty(), "each task is handed out");
    Run { readings: world.readings, overtakes: world.overtakes }
}

/// B131: between two turns of a group each other one has one. Where passes begin or end, groups come, or
/// their tasks have two actions, it may have two turns meanwhile, and hardly ever more.
#[test]
fn every_group_has_its_turns() {
    type Change = fn(Case) -> Case;
    let kinds: [(&str, Change, usize); 3] = [
        ("no group comes", |it| Case { arrivals: vec![None], ..it.with_one_action() }, 1),
        ("one action", Case::with_one_action, 3),
        ("two actions", |it| it, 6),
    ];
    for (name, change, most) in kinds {
        let mut runner = TestRunner::new(Config { cases: 1_500, ..Config::default() });
        let runs = RefCell::new(Vec::new());
        let outcome = runner.run(&cases(), |case| {
            let run = run(&change(case));
            prop_assert!(run.overtakes <= most || run.readings == 0, "{} turns", run.overtakes);
            runs.borrow_mut().push(run);
            Ok(())
        });
        outcome.unwrap_or_else(|failure| panic!("{name}: {failure}"));
        let runs = runs.into_inner();
        let turns: Vec<usize> =
            (0..8).map(|turns| runs.iter().filter(|it| it.overtakes == turns).count()).collect();
        println!("{name}: cases by the most turns while another one waited: {turns:?}");
        let many: usize = turns[3..].iter().sum();
        assert!(many < runs.len() / 10, "{name}: {many} of {}", runs.len());
        assert!(runs.iter().any(|it| it.readings > 0), "{name}: groups were read");
    }
}

fn rank(id: u128) -> Rank {
    Rank { id, created: Wall(id as i64), priority: 0 }
}

fn in_group(action: &'static [u8], group: GroupHash) -> LaneName<'static> {
    LaneName { queue: b"work", action, group: (group > 0).then_some(group) }
}

fn next(board: &mut Board) -> Next {
    let queue = board.find_queue(0, b"work");
    board.next_in_queue(0, queue, None, Wall::MIN)
}

/// Owns the next task, if it is known.
fn own(board: &mut Board) -> Option<Id> {
    let Next::Task(at) = next(board) else { return None };
    let taken = board.reserve(at, &claim(NOW.monotonic.0, None), token_hash(1));
    board.commit_claim(taken.ticket);
    Some(taken.id)
}

fn complete(board: &mut Board, id: Id) {
    let (ticket, _) = board.begin_end(0, id, &token_hash(1), 7).expect("a lease");
    board.commit_end(ticket);
}

/// Every lane has a lease: what was read finds no place and is read again later, and who waits is not
/// woken by that.
#[test]
fn without_room_nothing_is_read_again_and_again() {
    let mut memory = small(64, 4);
    let mut board = memory.board();
    (1..=3).for_each(|group| _ = board.offer(0, in_group(b"a", group), rank(group), NONE));
    (1..=3).for_each(|_| _ = own(&mut board).expect("a task"));
    (10..60).for_each(|group| _ = board.offer(0, in_group(b"a", group), rank(group), NONE));
    assert!(board.is_out_of_lanes());
    while board.next_signalled().is_some() {}
    board.wait_for(0, 0, WaitFor::Work { queues: &[b"work"], filter: ActionFilter::new(None) });
    for _ in 0..3 {
        let Next::NeedsGroups(wanted) = next(&mut board) else { panic!("groups to be read") };
        assert_eq!(wanted.from, 0);
        board.begin_groups(&wanted, READER).expect("the only reader");
        let tasks = [(rank(10), NONE)];
        let read = GroupRead { group: 10, tasks: &tasks, cursor: Rank::END };
        assert_eq!(board.add_groups(0, wanted.lane, READER, &[read], 10), 0, "no lane");
        board.end_groups(wanted.lane, READER, Some(0));
        assert_eq!(board.next_signalled(), None);
    }
    complete(&mut board, 1);
    let Next::NeedsGroups(wanted) = next(&mut board) else { panic!("groups to be read") };
    board.begin_groups(&wanted, READER).expect("the only reader");
    let tasks = [(rank(10), NONE)];
    let read = GroupRead { group: 10, tasks: &tasks, cursor: Rank::END };
    assert_eq!(board.add_groups(0, wanted.lane, READER, &[read], 10), 1);
    board.end_groups(wanted.lane, READER, Some(11));
    assert_eq!(own(&mut board), Some(10));
    board.audit();
}
