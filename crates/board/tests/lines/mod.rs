//! Lines: with a limit of 1 the tasks of a group run in the order of their submission, beside a naive
//! table, through crashes, a full board, refills and changes of the limit.

mod refills;
mod steps;
mod world;

use crate::memory::Memory;
use std::cell::Cell;
use std::collections::BTreeMap;

use board::{BuildState, Sizes};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use steps::{Step, steps};
use world::{Tally, World};

fn play((slots, lanes, seed, steps): &(usize, usize, u32, Vec<Step>)) -> Tally {
    let mut memory = Memory::new(Sizes {
        slots: *slots,
        slot_buckets: 8,
        lanes: *lanes,
        lane_buckets: 4,
        queues: lanes + 256 + 4,
        queue_buckets: 4,
        waiters: 1,
        lines: 1,
        counted: 1,
        transactions: 1,
    });
    memory.board().set_seed(*seed);
    let mut board = memory.board();
    assert_eq!(board.register(1, 1), Some(0));
    board.entry_mut(0).build_state = BuildState::Built;
    let mut world = World {
        board,
        rows: BTreeMap::new(),
        refill: None,
        most: 0,
        version: 0,
        clock: 0,
        changes: 0,
        tally: Tally::default(),
    };
    world.limit(1);
    for step in steps {
        world.apply(step);
    }
    world.drain();
    world.tally
}

/// So many lanes that each action can have one for each group, but not the lines, too, while the order
/// changes. A board has 1,024 at least. With fewer, a task whose expiry is not durable yet may lose its
/// place when the limit becomes 1, and a search may not end.
const LEAST_LANES: usize = 16;

/// B133: whatever becomes of the tasks, their group runs them in the order of their submission.
#[test]
fn a_group_with_a_limit_of_one_runs_in_the_order_of_submission() {
    let cases = if cfg!(debug_assertions) { 500 } else { 4_000 };
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let tally = Cell::new(Tally::default());
    let worlds = (3..24_usize, LEAST_LANES..24_usize, any::<u32>(), steps());
    let played = TestRunner::new(config).run(&worlds, |world| {
        let (one, all) = (play(&world), tally.get());
        tally.set(Tally {
            owned: all.owned + one.owned,
            strays: all.strays + one.strays,
            blocked: all.blocked + one.blocked,
            by_age: all.by_age + one.by_age,
            refills: all.refills + one.refills,
            stale_refills: all.stale_refills + one.stale_refills,
            evicted: all.evicted + one.evicted,
            spilled: all.spilled + one.spilled,
            in_own_place: all.in_own_place + one.in_own_place,
            late: all.late + one.late,
            sorted: all.sorted + one.sorted,
            groups_read: all.groups_read + one.groups_read,
        });
        Ok(())
    });
    if let Err(error) = played {
        panic!("{error}");
    }
    println!("{:?}", tally.get());
}

/// A task that waits is woken by an offer of before, and leaves its line: the next one runs.
#[test]
fn a_late_offer_does_not_keep_a_task_in_its_line() {
    let (group, priority, rolls_back) = (3, 0, false);
    let [waits, ready] = [1, 2];
    let steps = [
        Step::Submit { group, action: 2, priority, start: waits },
        Step::Fire { pick: 0, late: true },
        Step::OwnOne { pick: 0 },
        Step::Return { pick: 0, how: 2, rolls_back },
        Step::Submit { group, action: 0, priority, start: ready },
        Step::BeginRefill { limit: 2 },
        Step::EndRefill,
        Step::CatchUp { pick: 0 },
        Step::Withdraw { pick: 0, how: 1, rolls_back },
        Step::Own { actions: 1, rolls_back: 2 },
    ];
    let tally = play(&(8, LEAST_LANES, 0, steps.to_vec()));
    assert_eq!(tally.owned, 3, "the first one again in the end");
}

/// A refill that is late queues a task that is gone; the limit becomes 1, and others run.
#[test]
fn a_task_that_is_gone_hides_none_in_its_line() {
    let (group, priority, start) = (4, 0, 2);
    let steps = [
        Step::Limit { most: 2 },
        Step::Submit { group, action: 0, priority, start },
        Step::Survey,
        Step::BeginRefill { limit: 1 },
        Step::Cancel { pick: 0 },
        Step::EndRefill,
        Step::Submit { group, action: 1, priority, start },
        Step::Limit { most: 1 },
        Step::Own { actions: 2, rolls_back: 2 },
    ];
    let tally = play(&(8, LEAST_LANES, 0, steps.to_vec()));
    assert_eq!(tally.owned, 1);
}
