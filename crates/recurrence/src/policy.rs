//! Which of the runs that are due fire, and which are skipped.

use crate::series::Series;
use board::{Micros, Wall};

/// What happens to runs whose time passed while nothing could fire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Misfire {
    /// None of them fires.
    Skip,
    /// The latest of them fires.
    Once,
    /// All of them fire.
    All,
}

impl Misfire {
    /// From the word of the SQL interface.
    pub fn parse(word: &[u8]) -> Option<Misfire> {
        match word {
            b"skip" => Some(Misfire::Skip),
            b"once" => Some(Misfire::Once),
            b"all" => Some(Misfire::All),
            _ => None,
        }
    }
}

/// What happens to a run whose predecessor is unfinished.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overlap {
    /// It fires.
    Allow,
    /// It is skipped.
    Skip,
}

impl Overlap {
    /// From the word of the SQL interface.
    pub fn parse(word: &[u8]) -> Option<Overlap> {
        match word {
            b"allow" => Some(Overlap::Allow),
            b"skip" => Some(Overlap::Skip),
            _ => None,
        }
    }
}

/// A schedule whose next run is due.
pub struct Pending<'p> {
    pub series: Series<'p>,
    /// The time of the next run, which has come.
    pub next: Wall,
    pub misfire: Misfire,
    pub overlap: Overlap,
    /// The previous run is unfinished.
    pub unfinished: bool,
}

/// What to do about a schedule whose next run is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// The run that fires now.
    pub fire: Option<Wall>,
    /// How many runs are skipped.
    pub skipped: u64,
    /// The runs that were missed and fire later: from one time on and before another.
    pub missed: Option<(Wall, Wall)>,
    /// The next run, due or not.
    pub next: Option<Wall>,
}

/// Decides about a schedule whose next run is due. Runs before `missed_before` were missed.
pub fn decide(it: &Pending, missed_before: Wall) -> Decision {
    let may_fire = it.overlap == Overlap::Allow || !it.unfinished;
    if it.next >= missed_before {
        return Decision {
            fire: may_fire.then_some(it.next),
            skipped: u64::from(!may_fire),
            missed: None,
            next: it.series.first(it.next + Micros(1)),
        };
    }
    let next = it.series.first(missed_before);
    let count = it.series.count(it.next, missed_before);
    let chosen = match (it.misfire, it.overlap) {
        (Misfire::Skip, _) => None,
        (Misfire::Once, _) => it.series.last(missed_before),
        (Misfire::All, Overlap::Skip) => Some(it.next),
        (Misfire::All, Overlap::Allow) => {
            let missed = Some((it.next, missed_before));
            return Decision { fire: None, skipped: 0, missed, next };
        }
    };
    let fire = chosen.filter(|_| may_fire);
    Decision { fire, skipped: count.saturating_sub(u64::from(fire.is_some())), missed: None, next }
}

/// A part of the runs that were missed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CatchUp {
    /// The runs that fire now.
    pub fire: Vec<Wall>,
    /// How many runs are skipped.
    pub skipped: u64,
    /// The first of those that are left.
    pub rest: Option<Wall>,
}

/// Catches up with missed runs, from a time on and before another, at most so many.
pub fn catch_up(it: &Pending, until: Wall, most: usize) -> CatchUp {
    let at_once = if it.overlap == Overlap::Allow { most } else { usize::from(!it.unfinished) };
    let mut fire = Vec::new();
    let mut rest = it.series.first(it.next).filter(|at| *at < until);
    while let Some(at) = rest
        && fire.len() < at_once
    {
        fire.push(at);
        rest = it.series.first(at + Micros(1)).filter(|at| *at < until);
    }
    match (it.overlap, rest) {
        (Overlap::Skip, Some(from)) => {
            CatchUp { fire, skipped: it.series.count(from, until), rest: None }
        }
        _ => CatchUp { fire, skipped: 0, rest },
    }
}
