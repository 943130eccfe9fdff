//! The two clocks, and lengths of time.

use board::{Micros, Monotonic, Timestamp, Wall};
use pgrx::pg_sys;

/// The offset of PostgreSQL's epoch (2000-01-01) from Unix's, in seconds.
const EPOCH: i64 = 946_684_800;

/// Now, on both clocks. The wall clock is that of clock_timestamp(): now() does not advance within
/// a transaction.
pub fn now() -> Timestamp {
    // SAFETY: reads the clock.
    Timestamp { monotonic: monotonic(), wall: Wall(unsafe { pg_sys::GetCurrentTimestamp() }) }
}

/// Now, on the monotonic clock, which no change of the wall clock affects (I9).
pub fn monotonic() -> Monotonic {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes `time` only; every system that PostgreSQL runs on has the clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    Monotonic(time.tv_sec * 1_000_000 + time.tv_nsec / 1_000)
}

/// A time in milliseconds since 1970, for ids that sort by time.
pub fn unix_millis(at: Wall) -> i64 {
    at.0.div_euclid(1_000) + EPOCH * 1_000
}

/// The time of which `unix_millis` gives such a number first.
pub fn of_unix_millis(millis: i64) -> Wall {
    Wall((millis - EPOCH * 1_000).saturating_mul(1_000))
}

/// A timestamptz in UTC by ISO 8601, as in `2026-11-21T09:00:00Z`; fractions of a second only where
/// there are any.
pub fn iso8601(at: Wall) -> String {
    let seconds = at.0.div_euclid(1_000_000) + EPOCH;
    let (year, month, day) = recurrence::civil(seconds.div_euclid(86_400));
    let time = seconds.rem_euclid(86_400);
    let (hour, minute, second) = (time / 3_600, time / 60 % 60, time % 60);
    let fraction = match at.0.rem_euclid(1_000_000) {
        0 => String::new(),
        micros => format!(".{micros:06}").trim_end_matches('0').to_owned(),
    };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

/// The length of an interval as EXTRACT(epoch) computes it: a year has 365.25 days, a month 30.
/// Saturates, so an infinite interval is longer than any other.
pub fn length(interval: &pg_sys::Interval) -> Micros {
    const HOUR: i128 = 3_600_000_000;
    let (years, months) = (interval.month / 12, interval.month % 12);
    let days = i128::from(months) * 30 + i128::from(interval.day);
    let length = i128::from(years) * 8_766 * HOUR + days * 24 * HOUR + i128::from(interval.time);
    Micros(length.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
}

/// A length, exact to the microsecond, as in `1 h 30 min` or `2.9 s`.
pub fn exact(length: Micros) -> String {
    const UNITS: [(i64, &str); 3] = [(86_400, "days"), (3_600, "h"), (60, "min")];
    let (mut left, micros) = (length.0.max(0) / 1_000_000, length.0.max(0) % 1_000_000);
    let mut parts = Vec::new();
    for (unit, name) in UNITS {
        match left / unit {
            0 => {}
            1 if name == "days" => parts.push("1 day".to_owned()),
            count => parts.push(format!("{count} {name}")),
        }
        left %= unit;
    }
    if left > 0 || micros > 0 || parts.is_empty() {
        let seconds = format!("{left}.{micros:06}");
        let seconds = seconds.trim_end_matches('0').trim_end_matches('.');
        parts.push(format!("{seconds} s"));
    }
    parts.join(" ")
}

/// A length for messages: in the largest unit that fits at least twice, rounded up.
pub fn humanize(length: Micros) -> String {
    const SECOND: i64 = Micros::from_secs(1).0;
    const UNITS: [(i64, &str); 3] =
        [(86_400 * SECOND, "days"), (3_600 * SECOND, "h"), (60 * SECOND, "min")];
    let length = length.0.max(0);
    let (unit, name) =
        UNITS.into_iter().find(|(unit, _)| length >= 2 * unit).unwrap_or((SECOND, "s"));
    format!("{} {name}", (length + unit - 1) / unit)
}
