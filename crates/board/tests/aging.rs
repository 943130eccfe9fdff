//! Aging: ready tasks gain priority with time, and the board hands out what a naive model says.

mod memory;

use board::{Board, Bucket, LaneName, Micros, Monotonic, Next, Order, QueueSettings, Rank, Wall};
use memory::Memory;
use memory::small::*;
use proptest::prelude::*;
use std::cmp::Reverse;

const AGING: Micros = Micros(10);

fn configure(board: &mut Board, version: u64, aging: Micros) {
    let settings = QueueSettings { version, aging, ..QueueSettings::NONE };
    assert!(board.configure(0, b"work", &settings, NOW.monotonic, Bucket::Full));
}

/// Brings all lanes back, as the scheduler does.
fn resume(board: &mut Board, survey: impl FnOnce(&mut Board)) {
    let mut from = Some(0);
    while let Some(at) = from {
        from = board.shed_lanes(0, at, 3, true);
        board.audit();
    }
    assert!(board.begin_coverage(0, b"work"));
    survey(board);
    assert!(board.end_coverage(0, b"work", true));
}

fn task(id: u128, created: i64, priority: u32) -> Rank {
    Rank { id, created: Wall(created), priority }
}

/// The tasks in the order in which they are handed out at some times.
fn order(board: &mut Board, times: &[i64]) -> Vec<u128> {
    let mut ids = Vec::new();
    for now in times {
        let queue = board.find_queue(0, b"work");
        let Next::Task(at) = board.next_in_queue(0, queue, None, Wall(*now)) else { break };
        let claimed = board.reserve(at, &claim(0, None), token_hash(1));
        board.commit_claim(claimed.ticket);
        ids.push(claimed.id);
    }
    ids
}

/// B29.
#[test]
fn a_task_gains_a_point_of_priority_per_interval_and_255_at_most() {
    for (now, first) in [(1, 3), (19, 3), (20, 1), (2_549, 1)] {
        let mut memory = small(8, 8);
        let mut board = memory.board();
        configure(&mut board, 1, AGING);
        board.offer(0, WORK, task(1, 0, 1), NONE);
        board.offer(0, WORK, task(3, now, 3), NONE);
        assert_eq!(order(&mut board, &[now])[0], first, "at {now}");
        board.audit();
    }
    for (priority, first) in [(255, 1), (256, 2)] {
        let mut memory = small(8, 8);
        let mut board = memory.board();
        configure(&mut board, 1, AGING);
        board.offer(0, WORK, task(1, 0, 0), NONE);
        board.offer(0, WORK, task(2, 1_000_000, priority), NONE);
        assert_eq!(order(&mut board, &[1_000_000])[0], first, "against {priority}");
    }
}

#[test]
fn age_counts_from_a_later_time_and_never_changes_the_order_of_one_priority() {
    let mut memory = small(8, 8);
    let mut board = memory.board();
    configure(&mut board, 1, AGING);
    board.offer(0, WORK, task(1, 0, 1), NONE);
    board.note_age(0, 1, Wall(100));
    board.offer(0, WORK, task(2, 5, 1), NONE);
    board.offer(0, WORK, task(3, 50, 2), NONE);
    assert_eq!(order(&mut board, &[105; 3]), [3, 1, 2], "the first of priority 1 has no age yet");
    board.audit();
}

#[test]
fn a_change_of_the_setting_keeps_every_task_in_any_state() {
    let mut memory = small(16, 16);
    let mut board = memory.board();
    for id in 1..=8 {
        board.offer(0, WORK, task(id, id as i64, id as u32 % 3), NONE);
    }
    let leased = own(&mut board, 1);
    let reserved = take(&mut board, 2);
    configure(&mut board, 1, AGING);
    board.audit();
    // The lanes are of the other order: callers search until those of the new one are there.
    assert_eq!(board.searched(0), 1);
    assert!(matches!(board.next_task(0, b"work", None), Next::Search));
    let (ticket, _) = board.begin_end(0, leased.id, &token_hash(1), 7).expect("a lease");
    resume(&mut board, |board| {
        (0..3).for_each(|level| assert!(board.survey(0, WORK, Some(level), Rank::FIRST)));
    });
    assert_eq!(board.audit().lanes.len(), 4, "a lane for each priority, and that of what is held");
    // Their tasks are left to the table, and their lanes know of them.
    board.undo_claim(reserved.ticket);
    board.requeue(ticket, false);
    board.audit();
    assert_eq!(board.usage().slots_used, 0);
    let mut levels: Vec<u32> = Vec::new();
    while let Next::NeedsRefill(lane) = board.next_task(0, b"work", None) {
        levels.push(lane.cursor.priority);
        assert!(board.begin_refill(&lane, 1));
        board.end_refill(lane.lane, 1, Rank::END);
    }
    levels.sort_unstable();
    assert_eq!(levels, [0, 1, 2]);
}

#[derive(Clone, Debug)]
enum Step {
    Submit { action: u8, priority: u8, delay: u8 },
    Own { action: Option<u8>, settles: bool },
    Pass { time: u8 },
    Age { on: bool },
    Refresh,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..2_u8, 0..6_u8, prop_oneof![Just(0), 0..60_u8])
            .prop_map(|(action, priority, delay)| Step::Submit { action, priority, delay }),
        5 => (prop::option::of(0..2_u8), any::<bool>())
            .prop_map(|(action, settles)| Step::Own { action, settles }),
        2 => (0..40_u8).prop_map(|time| Step::Pass { time }),
        1 => any::<bool>().prop_map(|on| Step::Age { on }),
        1 => Just(Step::Refresh),
    ];
    prop::collection::vec(step, 1..80)
}

#[derive(Clone, Copy, Debug)]
struct Task {
    rank: Rank,
    action: u8,
    since: Wall,
}

/// The table, beside the board.
#[derive(Default)]
struct World {
    table: Vec<Task>,
    ages: bool,
    version: u64,
    now: i64,
    ids: u128,
}

fn name(action: &u8) -> LaneName<'_> {
    LaneName { queue: b"work", action: std::slice::from_ref(action), group: None }
}

impl World {
    fn survey(&self, board: &mut Board) {
        for task in &self.table {
            assert!(match self.ages {
                true => board.survey(0, name(&task.action), Some(task.rank.priority), Rank::FIRST),
                false => board.survey(0, name(&task.action), None, Rank::FIRST),
            });
        }
    }

    fn refresh(&self, board: &mut Board) {
        match board.searched(0) {
            0 => self.survey(board),
            _ => resume(board, |board| self.survey(board)),
        }
    }

    /// The task that comes next.
    fn best(&self, action: Option<u8>) -> Option<Task> {
        let wanted = |it: &&Task| action.is_none_or(|action| action == it.action);
        let top = self.table.iter().map(|it| it.rank.priority).max()?;
        let heads = (0..=top).filter_map(|priority| {
            let of_priority = self.table.iter().filter(|it| it.rank.priority == priority);
            of_priority.filter(wanted).min_by_key(|it| it.rank)
        });
        let raised = |it: &Task| match self.ages {
            true => i64::from(it.rank.priority) + ((self.now - it.since.0) / AGING.0).clamp(0, 255),
            false => it.rank.priority.into(),
        };
        heads.min_by_key(|it| (Reverse(raised(it)), it.rank.created, it.rank.id)).copied()
    }

    /// The slot of the task that comes next, after refills.
    fn next(&self, board: &mut Board, action: Option<u8>) -> Option<u32> {
        let actions = action.map(|action| [action]);
        for _ in 0..100 {
            let queue = board.find_queue(0, b"work");
            let wanted = actions.as_ref().map(|it| [&it[..]]);
            let wanted = wanted.as_ref().map(|it| &it[..]);
            let lane = match board.next_in_queue(0, queue, wanted, Wall(self.now)) {
                Next::Task(at) => return Some(at),
                Next::NeedsRefill(lane) => lane,
                Next::Search => {
                    self.refresh(board);
                    continue;
                }
                Next::Empty => return None,
                next => panic!("no groups, and no other process refills: {next:?}"),
            };
            assert!(board.begin_refill(&lane, 1));
            let mut read: Vec<&Task> = (self.table.iter())
                .filter(|it| [it.action] == *lane.action.as_bytes() && it.rank >= lane.cursor)
                .filter(|it| {
                    [Order::Priority, Order::Level(it.rank.priority)].contains(&lane.order)
                })
                .collect();
            read.sort_by_key(|it| it.rank);
            let cursor = read.get(2).map_or(Rank::END, |it| it.rank);
            read.truncate(2);
            let tasks: Vec<_> = read.iter().map(|it| (it.rank, NONE)).collect();
            board.refill(0, lane.lane, 1, &tasks);
            read.iter().for_each(|it| board.note_age(0, it.rank.id, it.since));
            board.end_refill(lane.lane, 1, cursor);
            board.audit();
        }
        panic!("no end of refills")
    }

    fn step(&mut self, board: &mut Board, step: &Step) {
        match *step {
            Step::Submit { action, priority, delay } => {
                self.ids += 1;
                let rank = task(self.ids, self.now, priority.into());
                let since = Wall(self.now + i64::from(delay));
                self.table.push(Task { rank, action, since });
                board.offer(0, name(&action), rank, NONE);
                board.note_age(0, rank.id, since);
            }
            Step::Own { action, settles } => {
                let best = self.best(action);
                let next = self.next(board, action);
                let id = next.and_then(|at| board.slot_at(at, 0)).map(|slot| slot.id);
                assert_eq!(id, best.map(|it| it.rank.id), "at {}: {best:?}", self.now);
                let (Some(at), Some(best)) = (next, best) else { return };
                let claimed = board.reserve(at, &claim(0, None), token_hash(1));
                if settles {
                    board.commit_claim(claimed.ticket);
                    board.remove_task(0, claimed.id);
                    self.table.retain(|it| it.rank.id != best.rank.id);
                } else {
                    board.undo_claim(claimed.ticket);
                    // The slot keeps no later time through an ownership.
                    let mine = self.table.iter_mut().find(|it| it.rank.id == best.rank.id);
                    mine.expect("the task").since = best.rank.created;
                }
            }
            Step::Pass { time } => self.now += i64::from(time),
            Step::Age { on } => {
                (self.ages, self.version) = (on, self.version + 1);
                configure(board, self.version, if on { AGING } else { Micros::ZERO });
                board.audit();
                self.refresh(board);
            }
            Step::Refresh => self.refresh(board),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(2_000)
    })]

    /// Most tasks are known to the table only.
    #[test]
    fn the_order_is_the_models_whatever_the_board_has(steps in steps()) {
        let mut memory = Memory::new(board::Sizes {
            slots: 6,
            slot_buckets: 8,
            lanes: 32,
            lane_buckets: 8,
            queues: 32 + 256 + 2,
            queue_buckets: 8,
            waiters: 4,
            wait_lists: 2,
        counted: 1,
        transactions: 1,
        });
        let mut board = memory.board();
        assert_eq!(board.register(1, 1), Some(0));
        let mut world = World::default();
        for step in &steps {
            world.step(&mut board, step);
            board.audit();
        }
        while world.best(None).is_some() {
            world.step(&mut board, &Step::Own { action: None, settles: true });
        }
    }
}

/// `Monotonic` times do not age tasks: only the wall clock that rows have does.
#[test]
fn without_the_setting_no_task_ages() {
    let mut memory = small(8, 8);
    let mut board = memory.board();
    board.offer(0, WORK, task(1, 0, 0), NONE);
    board.offer(0, WORK, task(2, 1, 1), NONE);
    assert_eq!(order(&mut board, &[1_000_000, 1_000_000]), [2, 1]);
    assert!(board.next_expiry(0) < Monotonic::NEVER);
}
