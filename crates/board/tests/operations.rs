//! Random sequences of operations: the board behaves as the naive model.

mod memory;
mod model;
mod worlds;

use board::{Micros, NEVER, Wall};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use model::operations::{Operation, Verb};
use model::sequence::Sequence;
use model::world::{Outcome, Tally};

fn sequences() -> impl Strategy<Value = Sequence> {
    let slots = prop_oneof![3 => 4..16_usize, 1 => 16..64_usize];
    (any::<u32>(), slots, vec(operations(), 1..120))
        .prop_map(|(seed, slots, operations)| Sequence { seed, slots, operations })
}

fn operations() -> impl Strategy<Value = Operation> {
    let some = || (1..60_i64).prop_map(|it| Some(Micros(it)));
    let length = || prop_oneof![3 => Just(None), 2 => some(), 1 => Just(Some(NEVER))];
    let outcome =
        || prop_oneof![Just(Outcome::Finish), Just(Outcome::Requeue), Just(Outcome::Delay)];
    let verb = prop_oneof![
        Just(Verb::Confirm),
        Just(Verb::PutBack),
        Just(Verb::DropStray),
        Just(Verb::Finish),
        Just(Verb::Requeue),
        Just(Verb::UndoEnd)
    ];
    let late = || prop::bool::weighted(0.3);
    let delayed = prop::bool::weighted(0.15);
    let lasting = prop_oneof![Just(Outcome::Finish), Just(Outcome::Delay)];
    let holder = || 0..6_u8;
    let actions = prop_oneof![3 => Just(None), 1 => (0..8_u8).prop_map(Some)];
    prop_oneof![
        30 => (any::<u8>(), 0..3_u32, 0..4_i64, 0..40_i64, delayed, late()).prop_map(
            |(lane, priority, created, timeout, delayed, late)| Operation::Submit {
                lane,
                priority,
                created: Wall(created),
                timeout: Micros((timeout - 20).max(0)),
                delayed,
                late,
            }
        ),
        3 => (any::<u8>(), late()).prop_map(|(pick, late)| Operation::Wake { pick, late }),
        4 => (any::<u8>(), prop::bool::weighted(0.6)).prop_map(
            |(pick, late)| Operation::Cancel { pick, late }
        ),
        6 => any::<u8>().prop_map(|pick| Operation::CatchUp { pick }),
        14 => (holder(), any::<u8>(), actions, 1..5_u8, length(), any::<bool>()).prop_map(
            |(holder, queue, actions, max, length, patient)| Operation::Own {
                holder, queue, actions, max, length, patient
            }
        ),
        2 => (holder(), any::<u8>()).prop_map(|(holder, pick)| Operation::OwnOne { holder, pick }),
        2 => holder().prop_map(|holder| Operation::Inspect { holder }),
        8 => (holder(), 0..12_u8, outcome()).prop_map(
            |(holder, pick, outcome)| Operation::Settle { holder, pick, outcome }
        ),
        4 => (holder(), 0..12_u8, outcome()).prop_map(
            |(holder, pick, outcome)| Operation::Exchange { holder, pick, outcome }
        ),
        12 => (holder(), any::<u8>(), lasting).prop_map(
            |(holder, pick, outcome)| Operation::Withdraw { holder, pick, outcome }
        ),
        30 => (holder(), late()).prop_map(|(holder, late)| Operation::Commit { holder, late }),
        4 => (holder(), 1..5_u8).prop_map(|(holder, acts)| Operation::RollBack { holder, acts }),
        12 => (any::<u8>(), 1..4_u8, outcome()).prop_map(
            |(entry, max, outcome)| Operation::Due { entry, max, outcome }
        ),
        2 => (0..40_u8, any::<u8>()).prop_map(|(holder, queue)| Operation::Call { holder, queue }),
        2 => (0..40_u8, any::<bool>()).prop_map(
            |(holder, drains)| Operation::Drain { holder, drains }
        ),
        4 => holder().prop_map(|holder| Operation::Listen { holder }),
        2 => (holder(), 1..5_u8, prop::bool::weighted(0.8)).prop_map(
            |(holder, most, commits)| Operation::Release { holder, most, commits }
        ),
        20 => (holder(), 0..12_u8, length(), prop::option::of(0.0..1.0)).prop_map(
            |(holder, pick, length, progress)| Operation::Extend { holder, pick, length, progress }
        ),
        2 => any::<u8>().prop_map(|pick| Operation::Persist { pick }),
        5 => (any::<u8>(), verb).prop_map(|(pick, verb)| Operation::Replay { pick, verb }),
        2 => (0..8_u8).prop_map(|pick| Operation::BeginRefill { pick }),
        6 => (any::<u8>(), 1..6_u8).prop_map(|(pick, limit)| Operation::Read { pick, limit }),
        8 => (any::<u8>(), 1..4_u8).prop_map(|(pick, count)| Operation::Place { pick, count }),
        4 => any::<u8>().prop_map(|pick| Operation::EndRefill { pick }),
        1 => any::<u8>().prop_map(|pick| Operation::AbandonRefill { pick }),
        1 => any::<u8>().prop_map(|lane| Operation::Survey { lane }),
        1 => any::<u8>().prop_map(|entry| Operation::Refresh { entry }),
        1 => (any::<u8>(), 1..40_u32).prop_map(
            |(entry, chunk)| Operation::Rebuild { entry, chunk }
        ),
        1 => Just(Operation::Wreck),
        12 => (any::<u8>(), 0..3_u8).prop_map(|(lane, most)| Operation::Limit { lane, most }),
        1 => (any::<u8>(), 1..90_i64).prop_map(
            |(pick, by)| Operation::Postpone { pick, by: Micros(by) }
        ),
        16 => (1..60_i64).prop_map(|by| Operation::Tick { by: Micros(by) }),
        1 => (-100_000..100_000_i64).prop_map(|by| Operation::Step { by: Micros(by) }),
    ]
}

#[test]
fn any_sequence_of_operations_does_what_the_model_says() {
    let cases = if cfg!(debug_assertions) { 1_000 } else { 12_000 };
    let least = u64::from(cases) / 12_000;
    let tally = std::cell::Cell::new(Tally::default());
    // What is rare happens in further rounds.
    for _ in 0..5 {
        let config = Config { cases, failure_persistence: None, ..Config::default() };
        let played = TestRunner::new(config).run(&sequences(), |sequence| {
            tally.set(tally.get() + sequence.run());
            Ok(())
        });
        if let Err(error) = played {
            panic!("{error}");
        }
        if tally.get().all().iter().all(|(_, count)| *count >= least) {
            break;
        }
    }
    let tally = tally.get();
    println!("{tally:?}");
    for (what, count) in tally.all() {
        assert!(
            count >= least,
            "{what} happened {count} times in five rounds of {cases} sequences"
        );
    }
}
