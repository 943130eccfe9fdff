//! The runs of a schedule, in order.

use crate::calendar::CYCLE;
use crate::cron::Cron;
use crate::fields::{Invalid, invalid};
use crate::zone::{Zone, gaps, instant, latest_local};
use board::{Micros, Wall};

/// The offset of PostgreSQL's epoch (2000-01-01) from Unix's, in seconds.
const EPOCH: i64 = 946_684_800;
const SECOND: i64 = Micros::from_secs(1).0;
/// The last timestamptz, in the year 294276.
const LAST: Wall = Wall(9_223_371_331_199_999_999);
/// The first one, in the year 4713 BC.
const FIRST: Wall = Wall(-211_813_488_000_000_000);
/// The time after which the calendar repeats.
const CYCLE_SECONDS: i64 = CYCLE * 86_400;

/// The shortest interval of a schedule.
const LEAST_INTERVAL: Micros = Micros::from_secs(1);

/// The expression of a schedule.
#[derive(Clone, Debug)]
pub enum Recurrence {
    /// At the local times that match.
    Cron(Box<Cron>),
    /// Again and again after the same time, whatever clocks do.
    Every(Micros),
    /// When the server starts: at no time that is known before.
    AtStart,
}

/// The words for `Recurrence::AtStart`.
const STARTS: [&str; 2] = ["@reboot", "@restart"];

impl Recurrence {
    /// Reads an expression: `every` and an interval, cron, or a word for starts. `interval` reads
    /// an interval and tells its length, if it has a fixed one.
    pub fn parse(
        text: &str,
        interval: impl FnOnce(&str) -> Result<Micros, Invalid>,
    ) -> Result<Recurrence, Invalid> {
        let text = text.trim();
        let every = text.split_at_checked("every".len()).filter(|(word, rest)| {
            word.eq_ignore_ascii_case("every")
                && rest.starts_with(|c: char| c.is_ascii_whitespace())
        });
        if STARTS.iter().any(|it| text.eq_ignore_ascii_case(it)) {
            return Ok(Recurrence::AtStart);
        }
        if let Some(length) = seconds(text) {
            return Ok(Recurrence::Every(length));
        }
        match every {
            None => Cron::parse(text).map(|cron| Recurrence::Cron(Box::new(cron))),
            Some((_, rest)) => match interval(rest.trim())? {
                length if length < LEAST_INTERVAL => {
                    invalid("The interval after \"every\" must be at least one second.")
                }
                length => Ok(Recurrence::Every(length)),
            },
        }
    }

    /// The shortest time between two runs, where clocks do not change.
    pub fn shortest(&self) -> Micros {
        match self {
            Recurrence::Every(length) => *length,
            Recurrence::Cron(cron) => cron.shortest().map_or(Micros::MAX, Micros::from_secs),
            Recurrence::AtStart => Micros::MAX,
        }
    }
}

/// The interval of an expression such as `30 seconds`, from 1 to 59, as pg_cron writes it.
fn seconds(text: &str) -> Option<Micros> {
    let (number, word) = text.split_once(|c: char| c.is_ascii_whitespace())?;
    let word = word.trim();
    let is_seconds = ["second", "seconds"].iter().any(|it| word.eq_ignore_ascii_case(it));
    let number = number.parse().ok().filter(|it| is_seconds && (1..=59).contains(it))?;
    Some(Micros::from_secs(number))
}

/// The runs of a schedule.
pub struct Series<'s> {
    pub recurrence: &'s Recurrence,
    /// Where the local times of a cron expression are read.
    pub zone: &'s dyn Zone,
    /// No run is earlier; an interval is counted from here, else from the Unix epoch.
    pub starts_at: Option<Wall>,
    /// No run is later.
    pub ends_at: Option<Wall>,
}

impl Series<'_> {
    /// The first run at a time or later.
    pub fn first(&self, from: Wall) -> Option<Wall> {
        let from = from.max(self.starts_at.unwrap_or(FIRST)).max(FIRST);
        if from > self.end() {
            return None;
        }
        let first = match self.recurrence {
            Recurrence::Every(length) => self.nth(self.index(from), *length)?,
            Recurrence::Cron(cron) => {
                let after = latest_local(self.zone, seconds_before(from));
                wall(instant(self.zone, cron.after(after)?))?
            }
            Recurrence::AtStart => return None,
        };
        (first <= self.end()).then_some(first)
    }

    /// The last run before a time.
    pub fn last(&self, until: Wall) -> Option<Wall> {
        let until = until.min(self.end() + Micros(1));
        let start = self.starts_at.unwrap_or(FIRST).max(FIRST);
        if until <= start {
            return None;
        }
        let last = match self.recurrence {
            Recurrence::Every(length) => self.nth(self.index(until) - 1, *length)?,
            Recurrence::Cron(cron) => {
                let latest = latest_local(self.zone, seconds_before(until));
                wall(instant(self.zone, cron.until(latest)?))?
            }
            Recurrence::AtStart => return None,
        };
        (last >= start).then_some(last)
    }

    /// How many runs there are from a time on and before another. Where that is more than 400
    /// years, each 400 years are taken to have as many as the last ones.
    pub fn count(&self, from: Wall, until: Wall) -> u64 {
        let from = from.max(self.starts_at.unwrap_or(FIRST)).max(FIRST);
        let until = until.min(self.end() + Micros(1));
        if from >= until {
            return 0;
        }
        match self.recurrence {
            Recurrence::AtStart => 0,
            Recurrence::Every(_) => (self.index(until) - self.index(from)) as u64,
            Recurrence::Cron(cron) => {
                let (from, until) = (seconds_before(from), seconds_before(until));
                let cycles = (until - from) / CYCLE_SECONDS;
                let in_one = match cycles {
                    0 => 0,
                    _ => self.matches(cron, until - CYCLE_SECONDS, until),
                };
                let first = self.matches(cron, from, until - cycles * CYCLE_SECONDS);
                first + in_one * cycles as u64
            }
        }
    }

    /// How many runs a cron expression has after a time and up to another, in seconds since 1970.
    fn matches(&self, cron: &Cron, from: i64, until: i64) -> u64 {
        let [after, upto] = [from, until].map(|at| latest_local(self.zone, at));
        // What falls into one gap runs once, together with what is due right after it.
        let merged = gaps(self.zone, from, until)
            .map(|(last, first)| cron.count(last, first).saturating_sub(1));
        cron.count(after, upto) - merged.sum::<u64>()
    }

    fn end(&self) -> Wall {
        self.ends_at.unwrap_or(LAST).min(LAST)
    }

    /// Which interval begins at a time, or next after it.
    fn index(&self, at: Wall) -> i128 {
        let Recurrence::Every(Micros(length)) = *self.recurrence else { return 0 };
        let since = i128::from(at.0) - i128::from(self.anchor());
        -(-since).div_euclid(length.into())
    }

    fn nth(&self, n: i128, length: Micros) -> Option<Wall> {
        (i128::from(self.anchor()) + n * i128::from(length.0)).try_into().ok().map(Wall)
    }

    fn anchor(&self) -> i64 {
        self.starts_at.map_or(-EPOCH * SECOND, |at| at.0)
    }
}

/// The last whole second before a time, since 1970.
fn seconds_before(at: Wall) -> i64 {
    (at.0 - 1).div_euclid(SECOND) + EPOCH
}

fn wall(seconds: i64) -> Option<Wall> {
    (seconds - EPOCH).checked_mul(SECOND).map(Wall)
}
