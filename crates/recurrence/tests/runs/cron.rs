//! What an expression means, and which are refused.

use crate::zones::{named, parse, runs, series, shown, utc};
use recurrence::{Cron, Utc, civil, weekday};

/// The first runs after the new year of 2026, a Thursday, in UTC.
fn first(text: &str, most: usize) -> Vec<String> {
    let recurrence = parse(text).unwrap_or_else(|why| panic!("{text}: {why}"));
    let found = runs(&series(&recurrence, &Utc), utc("2026-01-01 00:00:00"), most);
    found.into_iter().map(|at| shown(&named("UTC"), at).replace('Z', "")).collect()
}

#[test]
fn fields_mean_what_cron_says() {
    for (text, expected) in [
        ("* * * * *", ["2026-01-01 00:00:00", "2026-01-01 00:01:00"]),
        ("*/20 9-17 * * MON-FRI", ["2026-01-01 09:00:00", "2026-01-01 09:20:00"]),
        ("30 */6 1,15 feb-apr *", ["2026-02-01 00:30:00", "2026-02-01 06:30:00"]),
        ("*/30 * * * * *", ["2026-01-01 00:00:00", "2026-01-01 00:00:30"]),
        ("15 30 12 * * *", ["2026-01-01 12:30:15", "2026-01-02 12:30:15"]),
        // A step beyond the last value leaves the first one.
        ("*/60 * * * *", ["2026-01-01 00:00:00", "2026-01-01 01:00:00"]),
        ("5-9/7 */24 * * *", ["2026-01-01 00:05:00", "2026-01-02 00:05:00"]),
        ("0 0 1 */13 *", ["2026-01-01 00:00:00", "2027-01-01 00:00:00"]),
        ("0 0 L * *", ["2026-01-31 00:00:00", "2026-02-28 00:00:00"]),
        ("0 0 * * 5L", ["2026-01-30 00:00:00", "2026-02-27 00:00:00"]),
        ("0 0 * * fri#L", ["2026-01-30 00:00:00", "2026-02-27 00:00:00"]),
        ("0 0 * * MON#2", ["2026-01-12 00:00:00", "2026-02-09 00:00:00"]),
        ("0 0 * * 1#5", ["2026-03-30 00:00:00", "2026-06-29 00:00:00"]),
        ("0 0 17W * *", ["2026-01-16 00:00:00", "2026-02-17 00:00:00"]),
        ("0 0 LW * *", ["2026-01-30 00:00:00", "2026-02-27 00:00:00"]),
        ("0 0 29 2 *", ["2028-02-29 00:00:00", "2032-02-29 00:00:00"]),
        ("0 0 * * 7", ["2026-01-04 00:00:00", "2026-01-11 00:00:00"]),
        ("0 0 * * sat-sun", ["2026-01-03 00:00:00", "2026-01-04 00:00:00"]),
        ("0 0 * * 5-7", ["2026-01-02 00:00:00", "2026-01-03 00:00:00"]),
        ("0 0 ? * 2", ["2026-01-06 00:00:00", "2026-01-13 00:00:00"]),
        // either, as in cron
        ("0 0 13 * FRI", ["2026-01-02 00:00:00", "2026-01-09 00:00:00"]),
        ("0 0 13 * 1-3", ["2026-01-05 00:00:00", "2026-01-06 00:00:00"]),
        // but a field that begins with a star is not given: both
        ("0 0 */2 * FRI", ["2026-01-09 00:00:00", "2026-01-23 00:00:00"]),
        ("0 0 1-7 * */7", ["2026-01-04 00:00:00", "2026-02-01 00:00:00"]),
        ("@hourly", ["2026-01-01 00:00:00", "2026-01-01 01:00:00"]),
        ("@Daily", ["2026-01-01 00:00:00", "2026-01-02 00:00:00"]),
        ("@midnight", ["2026-01-01 00:00:00", "2026-01-02 00:00:00"]),
        ("@weekly", ["2026-01-04 00:00:00", "2026-01-11 00:00:00"]),
        ("@monthly", ["2026-01-01 00:00:00", "2026-02-01 00:00:00"]),
        ("@yearly", ["2026-01-01 00:00:00", "2027-01-01 00:00:00"]),
        ("@annually", ["2026-01-01 00:00:00", "2027-01-01 00:00:00"]),
        ("  0\t12 * * *\n", ["2026-01-01 12:00:00", "2026-01-02 12:00:00"]),
        ("every 90 s", ["2026-01-01 00:00:00", "2026-01-01 00:01:30"]),
        ("EVERY  86400 s", ["2026-01-01 00:00:00", "2026-01-02 00:00:00"]),
    ] {
        assert_eq!(first(text, 2), expected, "{text}");
    }
}

#[test]
fn what_is_no_expression_is_refused() {
    for (text, why) in [
        ("", "five or six fields, not 0"),
        ("hello", "five or six fields, not 1"),
        ("* * * *", "not 4"),
        ("* * * * * * *", "not 7"),
        ("@restarts", "not one of @yearly"),
        ("@", "not one of @yearly"),
        ("60 * * * *", "minute is from 0 to 59, not 60"),
        ("61 * * * * *", "second is from 0 to 59, not 61"),
        ("* 24 * * *", "hour is from 0 to 23, not 24"),
        ("* * 0 * *", "day of month is from 1 to 31, not 0"),
        ("* * 32 * *", "not 32"),
        ("* * * 13 *", "month is from 1 to 12, not 13"),
        ("* * * * 8", "day of week is from 0 to 7, not 8"),
        ("1,,2 * * * *", "\"\" is not valid"),
        ("1, * * * *", "\"\" is not valid"),
        ("-5 * * * *", "\"\" is not valid"),
        ("5- * * * *", "\"\" is not valid"),
        ("1-2-3 * * * *", "\"2-3\" is not valid"),
        ("22-2 * * * *", "ends before it begins"),
        ("* * * * FRI-MON", "ends before it begins"),
        ("*/0 * * * *", "no step"),
        ("5/15 * * * *", "no step"),
        ("/5 * * * *", "no step"),
        ("*/5/5 * * * *", "no step"),
        ("*/x * * * *", "no step"),
        ("MON * * * *", "\"MON\" is not valid in the field minute"),
        ("* * JAN * *", "\"JAN\" is not valid in the field day of month"),
        ("* * * 1JAN *", "\"1JAN\" is not valid in the field month"),
        ("* * * * 5MON", "\"5MON\" is not valid"),
        ("* * * * MONDAY", "\"MONDAY\" is not valid"),
        ("* * * * +1", "\"+1\" is not valid"),
        ("* * * * L", "\"\" is not valid"),
        ("* * * * 1#6", "first to fifth"),
        ("* * * * 1#0", "first to fifth"),
        ("* * * * 9#1", "day of week is from 0 to 7, not 9"),
        ("L * * * *", "\"L\" is not valid in the field minute"),
        ("* * L,LW * *", "L and LW"),
        ("* * 32W * *", "not 32"),
        ("? * * * *", "\"?\" is not valid"),
        ("* * ?,1 * *", "\"?\" is not valid"),
        ("99999 * * * *", "\"99999\" is not valid"),
        ("\u{0661} * * * *", "is not valid"),
        ("0 0 30 2 *", "never matches"),
        ("0 0 31 4,6,9,11 *", "never matches"),
        ("every 0.5 s", "at least one second"),
        ("every -3 s", "at least one second"),
        ("every", "five or six fields"),
        ("every fortnight", "no interval"),
    ] {
        match parse(text) {
            Ok(_) => panic!("accepted: {text}"),
            Err(error) => assert!(error.0.contains(why), "{text}: {error}"),
        }
    }
}

/// Whatever comes in, an answer comes out.
#[test]
fn rubbish_is_refused_without_a_panic() {
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};
    const PIECES: [&str; 22] = [
        "*", "/", "-", ",", "?", "L", "W", "#", "+", "@", " ", " ", " ", "0", "5", "31", "99",
        "JAN", "sun", "every", "é", "\0",
    ];
    let mut dice = SmallRng::seed_from_u64(1);
    for _ in 0..200_000 {
        let count = dice.random_range(0..16);
        let text: String = (0..count).map(|_| PIECES[dice.random_range(0..PIECES.len())]).collect();
        if let Ok(recurrence) = parse(&text) {
            assert!(
                series(&recurrence, &Utc).first(utc("2026-01-01 00:00:00")).is_some(),
                "{text}"
            );
        }
    }
}

#[test]
fn the_shortest_time_between_runs_is_found() {
    for (text, seconds) in [
        ("* * * * * *", 1),
        ("* * * * *", 60),
        ("0 0 * * *", 86_400),
        ("0 9,17 * * *", 8 * 3_600),
        ("0 1,23 * * *", 2 * 3_600),
        ("0 9 * * MON-FRI", 86_400),
        ("0 9 * * MON,THU", 3 * 86_400),
        ("0 0 1 * *", 28 * 86_400),
        ("0 0 L * *", 28 * 86_400),
        ("59 23 31 12 *", 365 * 86_400),
        // the 29th of February and the first of March
        ("0 0 1,29 2,3 *", 86_400),
        ("0 0 29 2 *", 1_461 * 86_400),
        ("every 90 s", 90),
    ] {
        let shortest = parse(text).unwrap().shortest();
        assert_eq!(shortest, board::Micros::from_secs(seconds), "{text}");
    }
}

#[test]
fn days_are_those_of_the_calendar() {
    use chrono::{DateTime, Datelike};
    for day in (-3_000_000..3_000_000).step_by(7).chain(-1_000..100_000) {
        let date = DateTime::from_timestamp(day * 86_400, 0).unwrap().date_naive();
        assert_eq!(civil(day), (date.year().into(), date.month(), date.day()), "{date}");
        assert_eq!(weekday(day), date.weekday().num_days_from_sunday(), "{date}");
    }
}

#[test]
fn a_cron_expression_is_read_fast_enough_for_each_run() {
    let begun = std::time::Instant::now();
    for _ in 0..1_000 {
        Cron::parse("0 0 29 2 MON").unwrap();
    }
    assert!(begun.elapsed() < std::time::Duration::from_secs(2), "{:?}", begun.elapsed());
}
