//! Clocks that step by an hour, over changes of daylight saving: B100.

use crate::run::Run;
use client::*;
use rand::RngExt;
use std::collections::BTreeSet;

/// Each with a change of daylight saving in the night before the day, in 2030.
const CHANGES: [(&str, &str); 4] = [
    ("Europe/Berlin", "2030-03-31"),
    ("Europe/Berlin", "2030-10-27"),
    ("America/New_York", "2030-03-10"),
    ("Australia/Lord_Howe", "2030-04-07"),
];
const SCHEDULES: [&str; 6] = [
    "*/15 * * * *",
    "30 2 * * *",
    "0 * * * *",
    "30 1,2,3 * * *",
    "every 20 minutes",
    "15 0-4 * * 0",
];

/// Fires schedules at times that go on, and step back or ahead by up to an hour. Those are
/// arguments, as the scheduler gives them; the schedules begin in 2030, which no clock of this
/// server reaches.
pub fn step(run: &mut Run) -> String {
    let database = database();
    let mut s = database.connect();
    let (mut runs, mut steps) = (0, 0);
    for n in 0..run.times {
        let (zone, day) = CHANGES[run.random.random_range(0..CHANGES.len())];
        let start = format!("(timestamp '{day} 00:00' - interval '6 hours') at time zone '{zone}'");
        let schedule = SCHEDULES[run.random.random_range(0..SCHEDULES.len())];
        let name = format!("clock {n}");
        s.execute(
            &format!(
                "select scylla.schedule($1, $2, 'q', time_zone => $3, misfire => 'all', starts_at => {start})"
            ),
            &[&name, &schedule, &zone],
        )
        .expect("schedule");
        let mut expected: Vec<i64> = (s
            .query(
                &format!(
                    "select extract(epoch from r)::bigint
                     from scylla.next_runs($1, 200, $2, {start} - interval '1 us') r order by 1"
                ),
                &[&schedule, &zone],
            )
            .expect("next_runs")
            .iter())
        .map(|row| row.get(0))
        .collect();
        let start: i64 = s.count(&format!("select extract(epoch from {start})::bigint"));
        let (mut clock, mut latest) = (start, start);
        while clock < start + 14 * 3600 {
            clock += match run.random.random_range(0..10) {
                0 => -run.random.random_range(0..3600),
                1 => run.random.random_range(0..3600),
                _ => run.random.random_range(1..600),
            };
            steps += 1;
            latest = latest.max(clock);
            let fire =
                "select scylla._fire_schedules(to_timestamp($1::bigint), to_timestamp($2::bigint))";
            if s.value::<i64>(fire, &[&clock, &start]) == 0 {
                continue;
            }
            let early = "select count(*) from scylla.tasks where key like $1 || '@%'
                         and split_part(key, '@', 2)::timestamptz > to_timestamp($2::bigint)";
            assert_eq!(s.value::<i64>(early, &[&name, &latest]), 0, "{name}: fired early");
        }
        let fired: Vec<i64> = (s
            .query(
                "select extract(epoch from split_part(key, '@', 2)::timestamptz)::bigint
                 from scylla.tasks where key like $1 || '@%' order by 1",
                &[&name],
            )
            .expect("the tasks")
            .iter())
        .map(|row| row.get(0))
        .collect();
        expected.retain(|time| *time <= latest);
        let distinct: BTreeSet<&i64> = fired.iter().collect();
        assert_eq!(distinct.len(), fired.len(), "{name}, {schedule} in {zone}: a time fired twice");
        assert_eq!(fired, expected, "{name}, {schedule} in {zone} over {day}");
        assert!(s.value::<bool>("select scylla.unschedule($1)", &[&name]));
        runs += fired.len();
        run.made_one();
    }
    format!("{runs} runs at {steps} times of a clock that steps, each once, none early")
}
