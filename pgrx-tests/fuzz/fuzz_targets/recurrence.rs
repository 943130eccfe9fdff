//! Expressions of schedules: any text is read or refused, and the runs of those that are read agree
//! forwards and backwards, counted, and as the policies decide about them.
#![no_main]

#[allow(dead_code, reason = "not all of it is needed")]
#[path = "../../../crates/recurrence/tests/runs/zones.rs"]
mod zones;

use board::{Micros, Wall};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use recurrence::{Misfire, Overlap, Pending, Recurrence, Series, Utc, Zone, catch_up, decide};
use std::sync::LazyLock;
use zones::{Named, ZONES, changes, named, parse, runs, runs_between, wall};

#[derive(Arbitrary, Debug)]
struct Case<'a> {
    clock: Clock,
    /// When the series begins and ends, from the time that is asked for.
    starts: Option<i32>,
    ends: Option<u32>,
    text: &'a str,
}

/// Where local times are read, and from when on.
#[derive(Arbitrary, Debug)]
enum Clock {
    Utc { from: i64 },
    Zone { zone: u8, change: u8, before: u16 },
}

/// The zones, with the instants at which their clocks change.
static CLOCKS: LazyLock<[(Named, Vec<i64>); 4]> = LazyLock::new(|| {
    ZONES.map(|name| {
        let zone = named(name);
        let changes = changes(&zone);
        (zone, changes)
    })
});

/// Few, since they may be years apart.
const RUNS: usize = 9;

fuzz_target!(|case: Case| {
    let Ok(recurrence) = parse(case.text) else { return };
    let (zone, from): (&dyn Zone, Wall) = match case.clock {
        Clock::Utc { from } => (&Utc, Wall(from)),
        Clock::Zone { zone, change, before } => {
            let (zone, changes) = &CLOCKS[usize::from(zone) % ZONES.len()];
            (zone, wall(changes[usize::from(change) % changes.len()] - i64::from(before)))
        }
    };
    let series = Series {
        recurrence: &recurrence,
        zone,
        starts_at: case.starts.map(|it| from + Micros::from_millis(it.into())),
        ends_at: case.ends.map(|it| from + Micros::from_millis(it.into())),
    };
    let found = runs(&series, from, RUNS);
    assert!(found.first().is_none_or(|first| *first >= from), "{case:?}");
    assert!(found.is_sorted_by(|one, next| one < next), "{case:?}: {found:?}");
    assert!(found.iter().all(|at| series.starts_at.is_none_or(|it| *at >= it)), "{case:?}");
    assert!(found.iter().all(|at| series.ends_at.is_none_or(|it| *at <= it)), "{case:?}");
    let Some(last) = found.last() else { return };
    let until = *last + Micros(1);
    assert_eq!(runs_between(&series, from, until, case.text), found);
    if let Clock::Utc { .. } = case.clock {
        let shortest = recurrence.shortest();
        assert!(found.windows(2).all(|it| it[0] + shortest <= it[1]), "{case:?}: {shortest:?}");
    }
    check_policies(&recurrence, &series, &found, until);
});

/// All runs before `until` are missed: each fires, is skipped, or fires later.
fn check_policies(recurrence: &Recurrence, series: &Series, found: &[Wall], until: Wall) {
    let all = found.len() as u64;
    for misfire in [Misfire::Skip, Misfire::Once, Misfire::All] {
        for (overlap, unfinished) in
            [(Overlap::Allow, true), (Overlap::Skip, false), (Overlap::Skip, true)]
        {
            let series = Series { recurrence, ..*series };
            let it = Pending { series, next: found[0], misfire, overlap, unfinished };
            let decided = decide(&it, until);
            assert!(decided.fire.is_none_or(|at| found.contains(&at)), "{decided:?}");
            assert_eq!(decided.next, it.series.first(until));
            let fired = u64::from(decided.fire.is_some());
            let Some((from, until)) = decided.missed else {
                assert_eq!(fired + decided.skipped, all, "{decided:?}");
                continue;
            };
            let part = catch_up(&it, until, RUNS - 1);
            assert_eq!((fired, decided.skipped, from), (0, 0, found[0]), "{decided:?}");
            assert_eq!(part.fire, found[..found.len().min(RUNS - 1)]);
            assert_eq!((part.skipped, part.rest), (0, found.get(RUNS - 1).copied()));
        }
    }
}
