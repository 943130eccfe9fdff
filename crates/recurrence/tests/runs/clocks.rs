//! Where clocks change: a time that does not exist runs once, right after the gap; one that comes
//! twice runs once. And where a series begins and ends.

use crate::zones::{named, parse, runs, series, shown, utc, wall};
use board::{Micros, Wall};
use recurrence::{Recurrence, Series, Utc};

/// The runs from a time in UTC on, as the zone's clocks show them.
fn local(text: &str, zone: &str, from: &str, most: usize) -> Vec<String> {
    let (recurrence, zone) = (parse(text).unwrap(), named(zone));
    let found = runs(&series(&recurrence, &zone), utc(from), most);
    found.into_iter().map(|at| shown(&zone, at)).collect()
}

#[test]
fn a_time_that_does_not_exist_runs_once_right_after_the_gap() {
    // 02:00 to 03:00 is skipped
    assert_eq!(
        local("30 2 * * *", "Europe/Berlin", "2026-03-28 00:00:00", 3),
        ["2026-03-28 02:30:00+01:00", "2026-03-29 03:00:00+02:00", "2026-03-30 02:30:00+02:00"]
    );
    // several of them, and one that is due right after it anyway, are one run
    assert_eq!(
        local("*/20 2,3 * * *", "Europe/Berlin", "2026-03-29 00:00:00", 4),
        [
            "2026-03-29 03:00:00+02:00",
            "2026-03-29 03:20:00+02:00",
            "2026-03-29 03:40:00+02:00",
            "2026-03-30 02:00:00+02:00"
        ]
    );
    // half an hour, in the southern hemisphere
    assert_eq!(
        local("15 2 * * *", "Australia/Lord_Howe", "2026-10-02 20:00:00", 2),
        ["2026-10-04 02:30:00+11:00", "2026-10-05 02:15:00+11:00"]
    );
    // a midnight that does not exist
    assert_eq!(
        local("@daily", "America/Santiago", "2026-09-05 12:00:00", 2),
        ["2026-09-06 01:00:00-03:00", "2026-09-07 00:00:00-03:00"]
    );
    // a day that does not exist
    assert_eq!(
        local("0 12 30 12 *", "Pacific/Apia", "2011-12-01 00:00:00", 2),
        ["2011-12-31 00:00:00+14:00", "2012-12-30 12:00:00+14:00"]
    );
}

#[test]
fn a_time_that_comes_twice_runs_once() {
    // 02:00 to 03:00 comes twice
    assert_eq!(
        local("30 2 * * *", "Europe/Berlin", "2026-10-24 12:00:00", 2),
        ["2026-10-25 02:30:00+02:00", "2026-10-26 02:30:00+01:00"]
    );
    assert_eq!(
        local("0 * * * *", "Europe/Berlin", "2026-10-24 23:00:00", 4),
        [
            "2026-10-25 01:00:00+02:00",
            "2026-10-25 02:00:00+02:00",
            "2026-10-25 03:00:00+01:00",
            "2026-10-25 04:00:00+01:00"
        ]
    );
    // asked in the midst of the second time
    assert_eq!(
        local("*/10 2 * * *", "Europe/Berlin", "2026-10-25 01:15:00", 1),
        ["2026-10-26 02:00:00+01:00"]
    );
    assert_eq!(
        local("45 1 * * *", "America/New_York", "2026-11-01 04:00:00", 2),
        ["2026-11-01 01:45:00-04:00", "2026-11-02 01:45:00-05:00"]
    );
}

#[test]
fn an_interval_does_not_mind_the_clocks() {
    assert_eq!(
        local("every 3600 s", "Europe/Berlin", "2026-10-24 23:30:00", 4),
        [
            "2026-10-25 02:00:00+02:00",
            "2026-10-25 02:00:00+01:00",
            "2026-10-25 03:00:00+01:00",
            "2026-10-25 04:00:00+01:00"
        ]
    );
}

#[test]
fn an_interval_is_counted_from_the_start_else_from_1970() {
    let every = Recurrence::Every(Micros::from_secs(7));
    let at = |seconds: i64| wall(seconds);
    let free = series(&every, &Utc);
    assert_eq!(free.first(at(0)), Some(at(0)));
    assert_eq!(free.first(at(1)), Some(at(7)));
    assert_eq!(free.last(at(7)), Some(at(0)));
    assert_eq!(free.first(at(-20)), Some(at(-14)));
    let starts = Wall(at(1_000).0 + 250_000);
    let it = Series { starts_at: Some(starts), ..series(&every, &Utc) };
    assert_eq!(it.first(at(0)), Some(starts));
    assert_eq!(it.first(starts + Micros(1)), Some(starts + Micros::from_secs(7)));
    assert_eq!(it.last(starts), None);
    assert_eq!(it.last(starts + Micros(1)), Some(starts));
    assert_eq!(it.count(at(0), starts + Micros::from_secs(70)), 10);
}

#[test]
fn runs_of_thousands_of_years_are_counted() {
    let count = |text: &str, from: i64, days: i64| {
        let recurrence = parse(text).unwrap();
        series(&recurrence, &Utc).count(wall(from), wall(from + days * 86_400))
    };
    // A day at noon each, a leap day each four years but for three in 400 years.
    assert_eq!(count("0 12 * * *", 43_201, 100_000_000), 100_000_000);
    assert_eq!(count("* * * * *", 0, 1_000_000), 1_440_000_000);
    assert_eq!(count("0 0 29 2 *", 0, 10 * 146_097), 970);
}

#[test]
fn a_series_begins_and_ends_with_its_times() {
    let daily = parse("0 12 * * *").unwrap();
    let [starts, ends] = ["2026-05-01 12:00:00", "2026-05-03 12:00:00"].map(utc);
    let it = Series { starts_at: Some(starts), ends_at: Some(ends), ..series(&daily, &Utc) };
    assert_eq!(runs(&it, utc("2020-01-01 00:00:00"), 9).len(), 3, "both ends are in it");
    assert_eq!(it.first(ends + Micros(1)), None);
    assert_eq!(it.last(utc("2030-01-01 00:00:00")), Some(ends));
    assert_eq!(it.last(starts), None);
    assert_eq!(it.count(utc("2020-01-01 00:00:00"), utc("2030-01-01 00:00:00")), 3);
    assert_eq!(it.count(starts + Micros(1), ends), 1);
}

#[test]
fn nothing_runs_before_or_after_all_times() {
    for text in ["* * * * *", "0 0 29 2 *", "every 1 s", "every 86400 s"] {
        let recurrence = parse(text).unwrap();
        let it = series(&recurrence, &Utc);
        assert!(it.first(Wall::MIN).is_some_and(|at| at.0 >= -211_813_488_000_000_000), "{text}");
        assert_eq!(it.first(Wall::NEVER), None, "{text}");
        assert_eq!(it.last(Wall::MIN), None, "{text}");
        assert!(it.last(Wall::NEVER).is_some_and(|at| at.0 < 9_223_371_331_200_000_000), "{text}");
    }
}
