//! Times and lengths of time, as PostgreSQL reads them.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use uuid::Uuid;

/// A length of time: a [`Duration`], or a text as PostgreSQL reads it, such as `1 day`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interval(pub(crate) String);

impl From<Duration> for Interval {
    fn from(length: Duration) -> Self {
        Self(format!("{}.{:06} seconds", length.as_secs(), length.subsec_micros()))
    }
}

impl From<&str> for Interval {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for Interval {
    fn from(text: String) -> Self {
        Self(text)
    }
}

/// A time: after a [`Duration`], by the server's clock, or a [`SystemTime`].
///
/// Times of chrono, jiff and time convert into a [`SystemTime`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// So long from now, by the server's clock.
    In(Duration),
    /// At that time.
    At(SystemTime),
}

impl From<Duration> for When {
    fn from(delay: Duration) -> Self {
        Self::In(delay)
    }
}

impl From<SystemTime> for When {
    fn from(time: SystemTime) -> Self {
        Self::At(time)
    }
}

/// A time as ISO 8601 has it, in UTC, for a `timestamptz`.
pub(crate) fn timestamp(time: SystemTime) -> String {
    let micros = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i128::try_from(after.as_micros()).unwrap_or(i128::MAX),
        Err(before) => -i128::try_from(before.duration().as_micros()).unwrap_or(i128::MAX),
    };
    let (seconds, micros) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // the days of eras of 400 years, which begin in March
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + i128::from(month <= 2);
    let (year, era) = if year > 0 { (year, "") } else { (1 - year, " BC") };
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{micros:06}Z{era}",
        second / 3_600,
        second / 60 % 60,
        second % 60
    )
}

/// An array as PostgreSQL reads it.
pub(crate) fn array<T: AsRef<str>>(items: impl IntoIterator<Item = Option<T>>) -> String {
    let mut text = String::from("{");
    for item in items {
        if text.len() > 1 {
            text.push(',');
        }
        let Some(item) = item else {
            text.push_str("NULL");
            continue;
        };
        text.push('"');
        for c in item.as_ref().chars() {
            if matches!(c, '"' | '\\') {
                text.push('\\');
            }
            text.push(c);
        }
        text.push('"');
    }
    text.push('}');
    text
}

/// An array of ids as PostgreSQL reads it.
pub(crate) fn ids(ids: &[Uuid]) -> String {
    array(ids.iter().map(|id| Some(id.to_string())))
}

/// Any number from 0 up to 1. It is no secret: keys of hash maps cost no call of the system.
pub(crate) fn random() -> f64 {
    let bits = RandomState::new().build_hasher().finish() as u32;
    f64::from(bits) / (f64::from(u32::MAX) + 1.0)
}

/// Full jitter: any time up to a bound that doubles with each attempt, from 0.1 to 10 s.
pub(crate) fn pause(attempt: u32) -> Duration {
    Duration::from_secs_f64(random() * (0.1 * f64::from(1 << attempt.min(16))).min(10.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_those_of_the_calendar() {
        let at = |seconds: u64| timestamp(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00.000000Z");
        assert_eq!(at(1_795_651_199), "2026-11-25T23:59:59.000000Z");
        assert_eq!(at(253_402_300_800), "10000-01-01T00:00:00.000000Z");
        let before = UNIX_EPOCH - Duration::from_micros(1);
        assert_eq!(timestamp(before), "1969-12-31T23:59:59.999999Z");
        assert_eq!(
            timestamp(UNIX_EPOCH - Duration::from_secs(62_167_219_201)),
            "0002-12-31T23:59:59.000000Z BC"
        );
    }

    #[test]
    fn arrays_quote_what_they_hold() {
        assert_eq!(
            array([Some("a\"b\\c"), None, Some("NULL"), Some("")]),
            r#"{"a\"b\\c",NULL,"NULL",""}"#
        );
        assert_eq!(array::<&str>([]), "{}");
    }

    #[test]
    fn pauses_have_full_jitter_and_a_bound() {
        for attempt in [0, 3, 40] {
            let most = (0.1 * 2_f64.powi(attempt)).min(10.0);
            let pauses: Vec<_> = (0..200).map(|_| pause(attempt as u32).as_secs_f64()).collect();
            assert!(pauses.iter().all(|&pause| pause <= most));
            assert!(pauses.iter().any(|&pause| pause < most / 4.0));
            assert!(pauses.iter().any(|&pause| pause > most * 3.0 / 4.0));
        }
    }
}
