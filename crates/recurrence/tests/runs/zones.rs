//! Time zones for the tests, from chrono's tables, and times as they are written.

use board::{Micros, Wall};
use chrono::{DateTime, NaiveDateTime, Offset, SecondsFormat, TimeZone};
use chrono_tz::Tz;
use recurrence::{Invalid, Recurrence, Series, Zone};

const EPOCH: i64 = 946_684_800;
/// Two of the northern hemisphere and two of the southern one: by half an hour, and at midnight.
pub const ZONES: [&str; 4] =
    ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago"];

/// A zone of chrono's.
pub struct Named(pub Tz);

impl Zone for Named {
    fn offset(&self, at: i64) -> i64 {
        let at = DateTime::from_timestamp(at, 0).expect("a time").naive_utc();
        self.0.offset_from_utc_datetime(&at).fix().local_minus_utc().into()
    }
}

pub fn named(name: &str) -> Named {
    Named(name.parse().expect("a zone"))
}

/// The instants at which the clocks of a zone change, from 2020 to 2039.
pub fn changes(zone: &dyn Zone) -> Vec<i64> {
    let hours = (1_577_836_800..2_208_988_800).step_by(1_800);
    hours.filter(|at| zone.offset(*at) != zone.offset(at - 1)).collect()
}

pub fn wall(unix: i64) -> Wall {
    Wall((unix - EPOCH) * 1_000_000)
}

pub fn unix(at: Wall) -> i64 {
    assert_eq!(at.0 % 1_000_000, 0, "a whole second");
    at.0 / 1_000_000 + EPOCH
}

/// A time in UTC, as in 2026-03-29 01:00:00.
pub fn utc(text: &str) -> Wall {
    let naive = NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S").expect(text);
    wall(naive.and_utc().timestamp())
}

/// A time as it is shown in a zone, with its offset.
pub fn shown(zone: &Named, at: Wall) -> String {
    let at = DateTime::from_timestamp(unix(at), 0).expect("a time").with_timezone(&zone.0);
    at.to_rfc3339_opts(SecondsFormat::Secs, true).replace('T', " ")
}

pub fn parse(text: &str) -> Result<Recurrence, Invalid> {
    Recurrence::parse(text, |interval| {
        let seconds = interval.strip_suffix(" s").and_then(|it| it.parse::<f64>().ok());
        let refusal = || Invalid(format!("\"{interval}\" is no interval."));
        seconds.map(|it| Micros((it * 1e6) as i64)).ok_or_else(refusal)
    })
}

pub fn series<'s>(recurrence: &'s Recurrence, zone: &'s dyn Zone) -> Series<'s> {
    Series { recurrence, zone, starts_at: None, ends_at: None }
}

/// The runs from a time on, at most so many.
pub fn runs(series: &Series, from: Wall, most: usize) -> Vec<Wall> {
    let first = series.first(from);
    std::iter::successors(first, |at| series.first(*at + Micros(1))).take(most).collect()
}

/// The runs from a time on and before another: those found forwards are found backwards, and
/// counted.
pub fn runs_between(it: &Series, low: Wall, high: Wall, text: &str) -> Vec<Wall> {
    let next = |from| it.first(from).filter(|at| *at < high);
    let found: Vec<Wall> = std::iter::successors(next(low), |at| next(*at + Micros(1))).collect();
    let before = |until| it.last(until).filter(|at| *at >= low);
    let mut back: Vec<Wall> = std::iter::successors(before(high), |at| before(*at)).collect();
    back.reverse();
    assert_eq!(back, found, "backwards: {text} from {low:?} until {high:?}");
    assert_eq!(it.count(low, high), found.len() as u64, "counted: {text} from {low:?}");
    found
}
