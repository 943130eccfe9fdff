//! Lanes: tasks that are left to the table, and how they return to the board; the turns of groups.

mod memory;

use std::collections::{BTreeMap, BTreeSet};

use board::{
    Board, Bucket, BuildState, Extended, GroupHash, LaneName, Micros, Monotonic, Next, Offered,
    QueueSettings, Rank, Sizes, Wall,
};
use memory::Memory;
use memory::small::*;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// I4: a task whose ending commits and delays it, and that fires before the board learns of that,
/// is not stranded.
#[test]
fn a_task_fired_before_the_board_learns_of_its_ending_is_not_stranded() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    board.offer(0, WORK, rank(1), NONE);
    own(&mut board, 1);
    let (ticket, _) = board.begin_end(0, 1, &token_hash(1), 7).expect("a good token");
    // The ending committed and delays the task; the scheduler fires it before the board learns of
    // that.
    assert_eq!(board.offer(0, WORK, rank(1), NONE), Offered::Known);
    board.commit_end(ticket);
    assert!(lane_to_refill(&mut board, b"work").cursor <= rank(1));
}

/// I4: a task that is offered while another process takes it for a stray is not stranded.
#[test]
fn a_task_offered_while_it_is_taken_for_a_stray_is_not_stranded() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    board.offer(0, WORK, rank(1), NONE);
    let taken = take(&mut board, 1);
    // Its row was not ready under the snapshot, but is by now.
    assert_eq!(board.offer(0, WORK, rank(1), NONE), Offered::Known);
    board.drop_stray(taken.ticket, false);
    assert!(lane_to_refill(&mut board, b"work").cursor <= rank(1));
}

/// I4, I5: a stray is looked for again only if its transaction may hide it from itself.
#[test]
fn a_stray_that_may_be_hidden_is_read_again() {
    for hidden in [true, false] {
        let mut memory = small(4, 4);
        let mut board = memory.board();
        for id in [1, 2] {
            board.offer(0, WORK, rank(id), NONE);
        }
        let stray = take(&mut board, 1);
        board.drop_stray(stray.ticket, hidden);
        let next = board.next_task(0, b"work", None);
        assert_eq!(matches!(next, Next::NeedsRefill(_)), hidden, "{next:?}");
        board.audit();
    }
}

/// I4: a lane is complete only if no task was left to the table since its refill began.
#[test]
fn a_lane_is_complete_only_if_nothing_was_left_to_the_table_since_its_refill_began() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    board.survey(0, WORK, None, Rank::FIRST);
    let first = lane_to_refill(&mut board, b"work");
    assert!(board.begin_refill(&first, 5));
    assert!(!board.begin_refill(&first, 6), "one refiller at a time");
    assert!(matches!(board.next_task(0, b"work", None), Next::Refilling));
    assert!(board.refill(0, first.lane, 5, &[(rank(1), NONE), (rank(3), NONE)]));
    assert_eq!(
        board.offer(0, WORK, rank(2), NONE),
        Offered::LeftToTable,
        "committed after the snapshot"
    );
    board.end_refill(first.lane, 5, Rank::END);
    own(&mut board, 1);
    assert_eq!(lane_to_refill(&mut board, b"work").cursor, rank(2));
}

/// I4: after an abandoned refill the lane needs one as before.
#[test]
fn after_an_abandoned_refill_the_lane_needs_one_as_before() {
    let mut memory = small(4, 4);
    let mut board = memory.board();
    board.survey(0, WORK, None, Rank::FIRST);
    let first = lane_to_refill(&mut board, b"work");
    assert!(board.begin_refill(&first, 5));
    board.refill(0, first.lane, 5, &[(rank(1), NONE)]);
    board.abandon_refill(first.lane, 5);
    let again = lane_to_refill(&mut board, b"work");
    assert_eq!(again.cursor, first.cursor);
    assert!(board.begin_refill(&again, 6));
    board.end_refill(first.lane, 5, Rank::END);
    assert!(
        matches!(board.next_task(0, b"work", None), Next::Refilling),
        "the first refiller has lost the lane"
    );
    board.end_refill(again.lane, 6, Rank::END);
    own(&mut board, 1);
}

#[test]
fn a_late_refiller_does_not_refill_another_lane_at_the_same_index() {
    let mut memory = small(4, 1);
    let mut board = memory.board();
    board.survey(0, WORK, None, Rank::FIRST);
    let late = lane_to_refill(&mut board, b"work");
    // The only lane is spilled for another one, which needs a refill, too.
    assert!(board.survey(
        0,
        LaneName { queue: b"rest", action: b"do", group: None },
        None,
        Rank::FIRST
    ));
    let new = lane_to_refill(&mut board, b"rest");
    assert_eq!((late.lane, late.cursor), (new.lane, new.cursor));
    assert!(!board.begin_refill(&late, 5));
    assert!(board.begin_refill(&new, 5));
}

#[test]
fn a_lane_under_refill_keeps_no_other_from_being_spilled() {
    let mut memory = small(4, 2);
    let mut board = memory.board();
    board.survey(0, lane(b"first"), None, Rank::FIRST);
    board.survey(0, lane(b"second"), None, Rank::FIRST);
    let Next::NeedsRefill(first) = board.next_task(0, b"work", Some(&[b"first"])) else { panic!() };
    assert!(board.begin_refill(&first, 5));
    assert!(board.survey(0, lane(b"third"), None, Rank::FIRST), "the second is spilled");
    assert_eq!(board.searched(0), 1);
    let actions: Vec<_> = board.audit().lanes.into_iter().map(|it| it.action).collect();
    assert_eq!(actions, [b"first".to_vec(), b"third".to_vec()]);
}

/// I8: clearing a database in small steps removes all of its slots and lanes.
#[test]
fn a_cleared_database_leaves_no_slot_or_lane_however_small_the_steps() {
    for step in 1..12 {
        let mut memory = small(8, 4);
        let mut board = memory.board();
        assert_eq!(board.register(2, 1), Some(1));
        // The lanes of the first database have low indexes, and its slots have high ones.
        board.survey(0, lane(b"first"), None, Rank::FIRST);
        board.survey(0, lane(b"second"), None, Rank::FIRST);
        for id in 1..=6 {
            board.offer(1, WORK, rank(id), NONE);
        }
        board.ensure_slot(0, lane(b"first"), rank(7), NONE).expect("room");
        board.ensure_slot(0, lane(b"second"), rank(8), NONE).expect("room");
        let mut from = Some(0);
        while let Some(at) = from {
            from = board.clear_entry(0, at, step);
        }
        board.remove(0);
        let lanes = board.audit().lanes;
        assert_eq!(lanes.len(), 1, "the other entry's lane stays: {lanes:?}");
        assert_eq!((lanes[0].entry, lanes[0].queued.len()), (1, 6));
    }
}

/// I4: a board full of leases takes no task and evicts no lease.
#[test]
fn a_board_full_of_leases_takes_no_task_and_evicts_none() {
    let mut memory = small(2, 4);
    let mut board = memory.board();
    board.offer(0, WORK, rank(1), NONE);
    board.offer(0, WORK, rank(2), NONE);
    own(&mut board, 1);
    own(&mut board, 2);
    assert_eq!(board.ensure_slot(0, lane(b"other"), rank(3), NONE), None);
    assert_eq!(board.offer(0, lane(b"other"), rank(4), NONE), Offered::LeftToTable);
    assert_eq!(board.usage().slots_used, 2);
    let lanes = board.audit().lanes;
    assert_eq!(lanes.iter().map(|it| it.slots).sum::<u32>(), 2);
}

#[test]
fn a_task_asked_for_by_id_finds_room_on_a_board_full_of_queued_ones() {
    let mut memory = small(2, 4);
    let mut board = memory.board();
    board.offer(0, WORK, rank(1), NONE);
    board.offer(0, WORK, rank(2), NONE);
    let at = board.ensure_slot(0, WORK, rank(3), NONE).expect("room");
    let taken = board.reserve(at, &claim(1_000, None), token_hash(1));
    board.undo_claim(taken.ticket);
    own(&mut board, 2);
    assert_eq!(lane_to_refill(&mut board, b"work").cursor, rank(2), "the evicted comes first");
    board.audit();
}

/// I12: databases do not see each other's tasks.
#[test]
fn databases_do_not_see_each_others_tasks() {
    let mut memory = small(8, 8);
    let mut board = memory.board();
    assert_eq!(board.register(1, 2), Some(1), "another creation is another entry (I12)");
    board.offer(0, WORK, rank(1), NONE);
    assert!(matches!(board.next_task(1, b"work", None), Next::Empty));
    assert_eq!(board.offer(1, WORK, rank(1), NONE), Offered::Queued);
    own(&mut board, 1);
    assert_eq!(board.extend(1, 1, &token_hash(1), at(1_000), None, None), Extended::No);
    assert_eq!(board.next_expiry(1), Monotonic::NEVER);
    board.remove_task(1, 1);
    assert!(board.slot_of(0, 1).is_some() && board.slot_of(1, 1).is_none());
}

#[test]
fn on_a_full_board_an_empty_lane_finds_the_room_that_was_promised() {
    for loud in 4..=8 {
        let mut memory = small(8, 4);
        let mut board = memory.board();
        for id in 1..=8 {
            let action: &[u8] = if id <= loud { b"loud" } else { b"other" };
            assert_eq!(board.offer(0, lane(action), rank(id), NONE), Offered::Queued);
        }
        let wanted = action_to_refill(&mut board, b"quiet");
        let room = board.room();
        assert_eq!(u128::from(room), loud / 2);
        assert!(board.begin_refill(&wanted, 5));
        let tasks: Vec<(Rank, Micros)> =
            (0..room).map(|at| (rank(100 + u128::from(at)), NONE)).collect();
        assert!(board.refill(0, wanted.lane, 5, &tasks));
    }
}

fn lane_of(action: &'static [u8], group: GroupHash) -> LaneName<'static> {
    LaneName { queue: b"work", action, group: (group > 0).then_some(group) }
}

/// A task: its group, zero for none, its action and its rank.
type Task = (GroupHash, usize, Rank);

const ACTIONS: [&[u8]; 2] = [b"first", b"second"];

#[derive(Clone, Debug)]
enum Step {
    Submit {
        group: GroupHash,
        action: usize,
        priority: u32,
    },
    Own {
        actions: Option<usize>,
    },
    /// A transaction that owned a task rolls back.
    RollBack {
        actions: Option<usize>,
    },
    /// A worker returns a task to be tried again.
    Retry {
        pick: usize,
    },
    Complete {
        pick: usize,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let actions = || prop::option::weighted(0.3, 0..ACTIONS.len());
    let step = prop_oneof![
        10 => (0..6_u128, 0..ACTIONS.len(), 0..2_u32).prop_map(
            |(group, action, priority)| Step::Submit { group, action, priority }
        ),
        8 => actions().prop_map(|actions| Step::Own { actions }),
        1 => actions().prop_map(|actions| Step::RollBack { actions }),
        1 => any::<usize>().prop_map(|pick| Step::Retry { pick }),
        3 => any::<usize>().prop_map(|pick| Step::Complete { pick }),
    ];
    prop::collection::vec(step, 1..200)
}

/// What is known of one queue, and since which step each group could have had a turn.
#[derive(Default)]
struct World {
    ready: Vec<Task>,
    leased: Vec<(Task, board::Ticket)>,
    /// When each group last had a turn.
    turns: BTreeMap<GroupHash, usize>,
    /// Since when a group has had a ready task of an action and priority without a break.
    since: BTreeMap<(GroupHash, usize, u32), usize>,
    step: usize,
    waits: usize,
}

impl World {
    fn keep_since(&mut self) {
        let has: BTreeSet<_> = self.ready.iter().map(|it| (it.0, it.1, it.2.priority)).collect();
        self.since.retain(|key, _| has.contains(key));
        for key in has {
            self.since.entry(key).or_insert(self.step);
        }
    }

    /// B131: between two turns of a group each other group with a ready task had one.
    fn check_turn(&mut self, (group, _, rank): Task, asked: impl Fn(usize) -> bool) {
        if let Some(before) = self.turns.get(&group) {
            for ((other, action, priority), since) in &self.since {
                let was_there = *other != group && since <= before && *priority == rank.priority;
                if was_there && asked(*action) {
                    let turn = self.turns.get(other).copied().unwrap_or(0);
                    assert!(turn > *before, "{other} waits since {since}, {group} had {before}");
                    self.waits += 1;
                }
            }
        }
        self.turns.insert(group, self.step);
    }

    fn own(&mut self, board: &mut Board, actions: Option<usize>, commits: bool) {
        let asked = |action| actions.is_none_or(|asked| asked == action);
        let names = actions.map(|asked| [ACTIONS[asked]]);
        let best = self.ready.iter().filter(|it| asked(it.1));
        let Some(priority) = best.map(|it| it.2.priority).max() else {
            let names = names.as_ref().map(|it| &it[..]);
            assert!(matches!(board.next_task(0, b"work", names), Next::Empty));
            return;
        };
        let Next::Task(at) = board.next_task(0, b"work", names.as_ref().map(|it| &it[..])) else {
            panic!("a task is ready");
        };
        let id = board.slot_at(at, 0).expect("a task").id;
        let found = self.ready.iter().position(|it| it.2.id == id).expect("a ready task");
        let task = self.ready[found];
        assert!(asked(task.1), "of the asked actions");
        assert_eq!(task.2.priority, priority, "a higher priority comes first, whatever the group");
        let of_group = self.ready.iter().filter(|it| it.0 == task.0 && asked(it.1));
        assert_eq!(Some(task.2), of_group.map(|it| it.2).min(), "a group's oldest comes first");
        self.check_turn(task, asked);
        let taken = board.reserve(at, &claim(NOW.monotonic.0, None), token_hash(1));
        if commits {
            board.commit_claim(taken.ticket);
            self.ready.remove(found);
            self.leased.push((task, taken.ticket));
        } else {
            board.undo_claim(taken.ticket);
        }
    }

    fn end(&mut self, board: &mut Board, pick: usize, retries: bool) {
        if self.leased.is_empty() {
            return;
        }
        let (task, _) = self.leased.remove(pick % self.leased.len());
        let (ticket, _) = board.begin_end(0, task.2.id, &token_hash(1), 7).expect("a lease");
        if retries {
            board.requeue(ticket, false);
            self.ready.push(task);
        } else {
            board.commit_end(ticket);
        }
    }
}

fn play(steps: &[Step]) -> usize {
    let mut memory = small(256, 64);
    let mut board = memory.board();
    let mut world = World::default();
    for (at, step) in (1..).zip(steps) {
        world.step = at;
        match *step {
            Step::Submit { group, action, priority } => {
                let rank = Rank { id: at as u128, created: Wall(at as i64), priority };
                let lane = lane_of(ACTIONS[action], group);
                assert_eq!(board.offer(0, lane, rank, NONE), Offered::Queued);
                world.ready.push((group, action, rank));
            }
            Step::Own { actions } => world.own(&mut board, actions, true),
            Step::RollBack { actions } => world.own(&mut board, actions, false),
            Step::Retry { pick } => world.end(&mut board, pick, true),
            Step::Complete { pick } => world.end(&mut board, pick, false),
        }
        world.keep_since();
        board.audit();
    }
    world.waits
}

/// B131: whatever is submitted, owned, rolled back and returned, in whatever order.
#[test]
fn between_two_turns_of_a_group_each_other_one_had_one() {
    let config = Config { cases: 2_000, failure_persistence: None, ..Config::default() };
    let waits = std::cell::Cell::new(0);
    let played = TestRunner::new(config).run(&steps(), |steps| {
        waits.set(waits.get() + play(&steps));
        Ok(())
    });
    if let Err(error) = played {
        panic!("{error}");
    }
    assert!(waits.get() > 20_000, "{} waits were checked", waits.get());
}

fn large(slots: usize) -> Memory {
    let mut memory = Memory::new(Sizes::of(slots, 4));
    let mut board = memory.board();
    assert_eq!(board.register(1, 1), Some(0));
    board.entry_mut(0).build_state = BuildState::Built;
    memory
}

/// The group of the next task, which a worker owns and completes.
fn serve(board: &mut Board) -> Option<GroupHash> {
    let Next::Task(at) = board.next_task(0, b"work", None) else { return None };
    let group = board.slot_at(at, 0).expect("a task").id >> 64;
    let taken = board.reserve(at, &claim(NOW.monotonic.0, None), token_hash(1));
    board.commit_claim(taken.ticket);
    let id = taken.id;
    let (ticket, _) = board.begin_end(0, id, &token_hash(1), 7).expect("a lease");
    board.commit_end(ticket);
    Some(group)
}

fn submit(board: &mut Board, group: GroupHash, number: u128) -> Offered {
    let rank = Rank { id: group << 64 | number, created: Wall(number as i64), priority: 0 };
    board.offer(0, lane_of(b"do", group), rank, NONE)
}

/// B131: with 100,000 groups, each round serves each of them once.
#[test]
fn a_hundred_thousand_groups_have_a_turn_in_each_round() {
    const GROUPS: u128 = 100_000;
    let mut memory = large(1 << 19);
    let mut board = memory.board();
    for number in 1..=3 {
        for group in 1..=GROUPS {
            assert_eq!(submit(&mut board, group, number), Offered::Queued);
        }
    }
    for number in 4..50_000 {
        submit(&mut board, 1, number);
    }
    for _ in 0..3 {
        let round: BTreeSet<_> = (0..GROUPS).filter_map(|_| serve(&mut board)).collect();
        assert_eq!(round.len() as u128, GROUPS);
    }
    assert_eq!(serve(&mut board), Some(1), "the only one that has more");
    board.audit();
}

/// I4: on a full board a huge group loses its tail before a small one loses anything.
#[test]
fn a_full_board_cuts_the_tail_of_a_huge_group() {
    let mut memory = large(4_096);
    let mut board = memory.board();
    for number in 0..10_000 {
        submit(&mut board, 1, number);
    }
    assert_eq!(board.usage().slots_used, 4_096);
    for group in 2..1_000 {
        for number in 0..2 {
            assert_eq!(submit(&mut board, group, number), Offered::Queued, "group {group}");
        }
    }
    let served: Vec<_> = (0..999).filter_map(|_| serve(&mut board)).collect();
    assert_eq!(served.iter().collect::<BTreeSet<_>>().len(), 999, "one turn of each");
    board.audit();
}

/// B132: as many tasks of each group run as may; a group at its limit is not in the way of others,
/// and a place that comes free lets its next task run.
#[test]
fn no_more_tasks_of_a_group_run_than_may() {
    let mut memory = small(64, 16);
    let mut board = memory.board();
    let limit = |board: &mut Board, version, most| {
        let settings =
            QueueSettings { version, max_running_per_group: most, ..QueueSettings::NONE };
        board.configure(0, b"work", &settings, NOW.monotonic, Bucket::Full);
        assert_eq!(board.release_lanes(0, Some(b"work"), 0, 99), None);
    };
    limit(&mut board, 1, 2);
    for number in 0..6 {
        (0..3).for_each(|group| _ = submit(&mut board, group, number));
    }
    let own = |board: &mut Board| -> Vec<u128> {
        std::iter::from_fn(|| match board.next_task(0, b"work", None) {
            Next::Task(at) => {
                let id = board.slot_at(at, 0).expect("a task").id;
                let taken = board.reserve(at, &claim(NOW.monotonic.0, None), token_hash(1));
                board.commit_claim(taken.ticket);
                Some(id)
            }
            _ => None,
        })
        .collect()
    };
    let first = own(&mut board);
    let groups: Vec<_> = first.iter().map(|id| id >> 64).collect();
    assert_eq!(groups, [0, 1, 2, 0, 1, 2]);
    let begin = |board: &mut Board, id| {
        let (ticket, slot) = board.begin_end(0, id, &token_hash(1), 7).expect("a lease");
        (ticket, board.freed_place(&slot).expect("a place").group)
    };
    // Only the transaction that ends the lease may own in its place before it commits.
    let (ticket, place) = begin(&mut board, first[1]);
    let queue = board.find_queue(0, b"work");
    assert!(own(&mut board).is_empty());
    let other = begin(&mut board, first[2]);
    assert_ne!(place, other.1);
    let Next::Task(at) = board.next_in_freed(queue, None, &[(place, 1)]) else {
        panic!("a place");
    };
    assert_eq!(board.slot_at(at, 0).expect("a task").id >> 64, 1);
    assert_eq!(board.slot_blocked(at, &[(place, 1)]), None);
    assert!(board.slot_blocked(at, &[(other.1, 1)]).is_some());
    assert!(board.slot_blocked(at, &[]).is_some());
    // The task of the ending goes meanwhile: its place counts once.
    board.remove_task(0, first[1]);
    board.commit_end(ticket);
    assert!(matches!(board.next_in_freed(queue, None, &[(place, 1)]), Next::Empty));
    assert_eq!(own(&mut board).iter().map(|id| id >> 64).collect::<Vec<_>>(), [1]);
    board.undo_end(other.0, NOW.monotonic);
    assert!(own(&mut board).is_empty());
    limit(&mut board, 2, 1);
    let (ticket, _) = begin(&mut board, first[2]);
    board.commit_end(ticket);
    assert!(own(&mut board).is_empty(), "a lower limit holds from now on");
    limit(&mut board, 3, 3);
    assert_eq!(own(&mut board).len(), 1 + 1 + 2);
    limit(&mut board, 4, 0);
    assert_eq!(own(&mut board).len(), 18 - 12 + 1);
    board.audit();
}
