//! Days of the Gregorian calendar, counted from 1970-01-01.

/// The days after which the calendar repeats, weekdays included: 400 years.
pub const CYCLE: i64 = 146_097;

/// The year, month and day of the month of a day.
pub fn civil(day: i64) -> (i64, u32, u32) {
    // In years that begin in March, so that a leap day is the last day of its year.
    let day = day + 719_468;
    let (era, of_era) = (day.div_euclid(CYCLE), day.rem_euclid(CYCLE));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month as u32, of_month as u32)
}

/// The weekday of a day; 0 is Sunday.
pub fn weekday(day: i64) -> u32 {
    (day + 4).rem_euclid(7) as u32
}
