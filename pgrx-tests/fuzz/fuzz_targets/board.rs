//! Operations on the board: it behaves as the naive model of its tests.
#![no_main]

#[path = "../../../crates/board/tests/memory/mod.rs"]
mod memory;
#[path = "../../../crates/board/tests/model/mod.rs"]
mod model;

use board::{Micros, NEVER, Wall};
use libfuzzer_sys::arbitrary::{Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use model::operations::{Operation, Verb};
use model::sequence::Sequence;
use model::world::Outcome;

fuzz_target!(|sequence: Sequence| {
    sequence.run();
});

impl<'a> Arbitrary<'a> for Sequence {
    /// Reads operations as long as there are bytes. One takes a few bytes, so that what the fuzzer
    /// moves and repeats are operations.
    fn arbitrary(bytes: &mut Unstructured<'a>) -> Result<Sequence> {
        let seed = u32::from(bytes.arbitrary::<u8>()?);
        let slots = if bytes.ratio(3_u8, 4)? { 4..=15 } else { 16..=63 };
        let slots = bytes.int_in_range(slots)?;
        let mut operations = Vec::new();
        while !bytes.is_empty() {
            operations.push(operation(bytes)?);
        }
        Ok(Sequence { seed, slots, operations })
    }
}

/// Each as often as in the random test, with its ranges: small numbers, so that operations meet.
fn operation(bytes: &mut Unstructured) -> Result<Operation> {
    let it = bytes;
    Ok(match it.int_in_range(0..=216)? {
        0..30 => Operation::Submit {
            lane: it.arbitrary()?,
            priority: it.int_in_range(0..=2)?,
            created: Wall(it.int_in_range(0..=3)?),
            timeout: Micros((it.int_in_range(0..=39_i64)? - 20).max(0)),
            delayed: it.ratio(1_u8, 6)?,
            late: it.ratio(1_u8, 3)?,
        },
        30..33 => Operation::Wake { pick: it.arbitrary()?, late: it.arbitrary()? },
        33..37 => Operation::Cancel { pick: it.arbitrary()?, late: it.arbitrary()? },
        37..43 => Operation::CatchUp { pick: it.arbitrary()? },
        43..57 => Operation::Own {
            holder: holder(it)?,
            queue: it.arbitrary()?,
            actions: if it.ratio(1_u8, 4)? { Some(it.int_in_range(0..=7)?) } else { None },
            max: it.int_in_range(1..=4)?,
            length: length(it)?,
            patient: it.arbitrary()?,
        },
        57..59 => Operation::OwnOne { holder: holder(it)?, pick: it.arbitrary()? },
        59..61 => Operation::Inspect { holder: holder(it)? },
        61..69 => Operation::Settle {
            holder: holder(it)?,
            pick: it.int_in_range(0..=11)?,
            outcome: outcome(it)?,
        },
        69..73 => Operation::Exchange {
            holder: holder(it)?,
            pick: it.int_in_range(0..=11)?,
            outcome: outcome(it)?,
        },
        73..85 => Operation::Withdraw {
            holder: holder(it)?,
            pick: it.arbitrary()?,
            outcome: *it.choose(&[Outcome::Finish, Outcome::Delay])?,
        },
        85..115 => Operation::Commit { holder: holder(it)?, late: it.arbitrary()? },
        115..119 => Operation::RollBack { holder: holder(it)?, acts: it.int_in_range(1..=4)? },
        119..131 => Operation::Due {
            entry: it.arbitrary()?,
            max: it.int_in_range(1..=3)?,
            outcome: outcome(it)?,
        },
        131..133 => Operation::Call { holder: it.int_in_range(0..=39)?, queue: it.arbitrary()? },
        133..135 => Operation::Release {
            holder: holder(it)?,
            most: it.int_in_range(1..=4)?,
            commits: it.arbitrary()?,
        },
        135..155 => Operation::Extend {
            holder: holder(it)?,
            pick: it.int_in_range(0..=11)?,
            length: length(it)?,
            progress: it.arbitrary::<Option<u8>>()?.map(|it| f64::from(it) / 256.0),
        },
        155..157 => Operation::Persist { pick: it.arbitrary()? },
        157..162 => Operation::Replay {
            pick: it.arbitrary()?,
            verb: *it.choose(&[
                Verb::Confirm,
                Verb::PutBack,
                Verb::DropStray,
                Verb::Finish,
                Verb::Requeue,
                Verb::UndoEnd,
            ])?,
        },
        162..164 => Operation::BeginRefill { pick: it.int_in_range(0..=7)? },
        164..170 => Operation::Read { pick: it.arbitrary()?, limit: it.int_in_range(1..=5)? },
        170..178 => Operation::Place { pick: it.arbitrary()?, count: it.int_in_range(1..=3)? },
        178..182 => Operation::EndRefill { pick: it.arbitrary()? },
        182 => Operation::AbandonRefill { pick: it.arbitrary()? },
        183 => Operation::Survey { lane: it.arbitrary()? },
        184 => Operation::Refresh { entry: it.arbitrary()? },
        185 => Operation::Rebuild { entry: it.arbitrary()?, chunk: it.int_in_range(1..=39)? },
        186 => Operation::Wreck,
        187..199 => Operation::Limit { lane: it.arbitrary()?, most: it.int_in_range(0..=2)? },
        199 => Operation::Postpone { pick: it.arbitrary()?, by: Micros(it.int_in_range(1..=89)?) },
        200..216 => Operation::Tick { by: Micros(it.int_in_range(1..=59)?) },
        _ => Operation::Step { by: Micros(it.int_in_range(-100_000..=99_999)?) },
    })
}

fn holder(bytes: &mut Unstructured) -> Result<u8> {
    bytes.int_in_range(0..=5)
}

fn outcome(bytes: &mut Unstructured) -> Result<Outcome> {
    Ok(*bytes.choose(&[Outcome::Finish, Outcome::Requeue, Outcome::Delay])?)
}

fn length(bytes: &mut Unstructured) -> Result<Option<Micros>> {
    Ok(match bytes.int_in_range(0..=70)? {
        0..10 => None,
        10 => Some(NEVER),
        n => Some(Micros(n - 10)),
    })
}
