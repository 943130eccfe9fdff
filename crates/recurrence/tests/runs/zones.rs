//! Time zones for the tests, from chrono's tables, and times as they are written.

use board::{Micros, Wall};
use chrono::{DateTime, NaiveDateTime, Offset, SecondsFormat, TimeZone};
use chrono_tz::Tz;
use recurrence::{Invalid, Recurrence, Series, Zone};

const EPOCH: i64 = 946_684_800;

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
