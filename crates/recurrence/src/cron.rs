//! A cron expression over local time: seconds since 1970-01-01 00:00, as a clock on the wall shows
//! them. What a time zone makes of it is in `zone`.

use crate::calendar::{CYCLE, civil, weekday};
use crate::fields::{Invalid, fields, invalid, is_star};
use croner::parser::{CronParser, Seconds, Year};
use croner::{CronComponent, CronPattern, Weekday};

const DAY: i64 = 86_400;

/// A cron expression that matches some time.
#[derive(Clone, Debug)]
pub struct Cron {
    /// Bit n: the value n matches.
    seconds: u64,
    minutes: u64,
    hours: u64,
    /// For the days: the months, and how the day of the month and of the week combine.
    pattern: CronPattern,
}

impl Cron {
    /// Reads an expression of five or six fields, or a word such as `@daily`.
    pub fn parse(text: &str) -> Result<Cron, Invalid> {
        let mut fields = fields(text)?;
        // Either day matches if both are given. A field that begins with a star counts as not
        // given, as in cron: then both must match.
        if is_star(&fields[3]) || is_star(&fields[5]) {
            fields[5].insert(0, '+');
        }
        let parser =
            CronParser::builder().seconds(Seconds::Required).year(Year::Disallowed).build();
        let pattern = match parser.parse(&fields.join(" ")) {
            Ok(cron) => cron.pattern,
            Err(error) => return invalid(format!("{error}")),
        };
        let cron = Cron {
            seconds: bits(&pattern.seconds),
            minutes: bits(&pattern.minutes),
            hours: bits(&pattern.hours),
            pattern,
        };
        match cron.first_day(0, 1) {
            Some(_) => Ok(cron),
            None => invalid("It never matches: no month has such a day."),
        }
    }

    /// The first matching time after a time.
    pub(crate) fn after(&self, local: i64) -> Option<i64> {
        let from = local + 1;
        let day = from.div_euclid(DAY);
        if self.matches_day(day)
            && let Some(time) = self.first_time(from.rem_euclid(DAY))
        {
            return Some(day * DAY + time);
        }
        let first = self.first_time(0)?;
        self.first_day(day + 1, 1).map(|day| day * DAY + first)
    }

    /// The last matching time up to a time.
    pub(crate) fn until(&self, local: i64) -> Option<i64> {
        let day = local.div_euclid(DAY);
        if self.matches_day(day)
            && let Some(time) = self.last_time(local.rem_euclid(DAY))
        {
            return Some(day * DAY + time);
        }
        let last = self.last_time(DAY - 1)?;
        self.first_day(day - 1, -1).map(|day| day * DAY + last)
    }

    /// How many times after `after` and up to `until` match.
    pub(crate) fn count(&self, after: i64, until: i64) -> u64 {
        if until <= after {
            return 0;
        }
        let whole = self.times_until(DAY - 1);
        let (first, last) = (after.div_euclid(DAY), until.div_euclid(DAY));
        let days = (first..=last).filter(|day| self.matches_day(*day));
        days.map(|day| {
            let before = if day == first { self.times_until(after.rem_euclid(DAY)) } else { 0 };
            let upto = if day == last { self.times_until(until.rem_euclid(DAY)) } else { whole };
            upto - before
        })
        .sum()
    }

    /// The shortest time between two matches, in seconds, on a clock that never changes; `None`:
    /// it matches once in 400 years.
    pub(crate) fn shortest(&self) -> Option<i64> {
        let first = self.first_time(0)?;
        let mut within: Option<i64> = None;
        let mut time = first;
        while let Some(next) = self.first_time(time + 1) {
            within = Some(within.map_or(next - time, |least| least.min(next - time)));
            if within == Some(1) {
                return within;
            }
            time = next;
        }
        // From the last time of a day to the first of another.
        let start = self.first_day(0, 1)?;
        let (mut day, mut apart) = (start, i64::MAX);
        while apart > 1 && day < start + CYCLE {
            let next = self.first_day(day + 1, 1)?;
            apart = apart.min(next - day);
            day = next;
        }
        let across = apart.saturating_mul(DAY) - time + first;
        Some(within.map_or(across, |within| within.min(across)))
    }

    /// The first matching day from a day on, forwards or backwards.
    fn first_day(&self, from: i64, step: i64) -> Option<i64> {
        let mut day = from;
        while (day - from).abs() < CYCLE {
            let (_, month, of_month) = civil(day);
            if self.matches_month(month) {
                if self.matches_day(day) {
                    return Some(day);
                }
                day += step;
            } else if step < 0 {
                day -= i64::from(of_month);
            } else {
                // Into the next month, or nearly: the shortest has 28 days.
                day += i64::from(29 - of_month.min(28));
            }
        }
        None
    }

    fn matches_month(&self, month: u32) -> bool {
        self.pattern.month_match(month).unwrap_or(false)
    }

    fn matches_day(&self, day: i64) -> bool {
        let (year, month, of_month) = civil(day);
        let weekday = Weekday::from_days_from_sunday(weekday(day));
        // The same day of the same cycle: the crate knows years of four digits.
        let year = 2_000 + year.rem_euclid(400) as i32;
        self.matches_month(month)
            && self.pattern.day_match(year, month, of_month, weekday).unwrap_or(false)
    }

    /// The first matching time of a day from a time on.
    fn first_time(&self, from: i64) -> Option<i64> {
        let (hour, minute, second) = (from / 3_600, from / 60 % 60, from % 60);
        let first = |bits: u64, from: i64| match bits.checked_shr(from as u32) {
            None | Some(0) => None,
            Some(left) => Some(from + i64::from(left.trailing_zeros())),
        };
        let (least_minute, least_second) = (first(self.minutes, 0)?, first(self.seconds, 0)?);
        if from >= DAY {
            return None;
        }
        if self.hours >> hour & 1 == 1 {
            if self.minutes >> minute & 1 == 1
                && let Some(second) = first(self.seconds, second)
            {
                return Some(hour * 3_600 + minute * 60 + second);
            }
            if let Some(minute) = first(self.minutes, minute + 1) {
                return Some(hour * 3_600 + minute * 60 + least_second);
            }
        }
        let hour = first(self.hours, hour + 1)?;
        Some(hour * 3_600 + least_minute * 60 + least_second)
    }

    /// The last matching time of a day up to a time.
    fn last_time(&self, until: i64) -> Option<i64> {
        let (hour, minute, second) = (until / 3_600, until / 60 % 60, until % 60);
        // The highest bit below `end`.
        let last = |bits: u64, end: i64| {
            let below = bits & (1u64 << end).wrapping_sub(1);
            (below > 0).then(|| 63 - i64::from(below.leading_zeros()))
        };
        let (most_minute, most_second) = (last(self.minutes, 60)?, last(self.seconds, 60)?);
        if self.hours >> hour & 1 == 1 {
            if self.minutes >> minute & 1 == 1
                && let Some(second) = last(self.seconds, second + 1)
            {
                return Some(hour * 3_600 + minute * 60 + second);
            }
            if let Some(minute) = last(self.minutes, minute) {
                return Some(hour * 3_600 + minute * 60 + most_second);
            }
        }
        let hour = last(self.hours, hour)?;
        Some(hour * 3_600 + most_minute * 60 + most_second)
    }

    /// How many times of a day match up to a time.
    fn times_until(&self, until: i64) -> u64 {
        let (hour, minute, second) = (until / 3_600, until / 60 % 60, until % 60);
        let below = |bits: u64, end: i64| u64::from((bits & ((1u64 << end) - 1)).count_ones());
        let (in_minute, in_hour) =
            (below(self.seconds, 60), below(self.minutes, 60) * below(self.seconds, 60));
        let mut count = below(self.hours, hour) * in_hour;
        if self.hours >> hour & 1 == 1 {
            count += below(self.minutes, minute) * in_minute;
            if self.minutes >> minute & 1 == 1 {
                count += below(self.seconds, second + 1);
            }
        }
        count
    }
}

fn bits(component: &CronComponent) -> u64 {
    component.values().into_iter().fold(0, |bits, value| bits | 1 << value)
}
