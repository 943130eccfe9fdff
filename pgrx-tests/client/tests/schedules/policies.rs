//! Missed runs, retries and time zones.

use crate::{assert_no_time_twice, counts, fire, fired, next_run, schedule};
use client::*;
use std::collections::BTreeMap;

/// B97, B98, B96: all retries fit between two runs, or the policy is refused.
#[test]
fn retries_fit_between_two_runs() {
    let database = database();
    let mut s = database.connect();
    let policy = "max_tries => 4, retry_interval => '200 ms', retry_jitter => '500 ms'";
    let refused =
        s.refusal(&format!("select scylla.schedule('a', 'every 2.9 s', 'q', {policy})"), &[]);
    assert_eq!(refused.code().code(), "22023");
    let message = refused.message();
    assert_eq!(
        message,
        "retries of a run may take 2.9 s, which is not shorter than its recurrence of 2.9 s"
    );
    schedule(&mut s, "a", "every 3 s", policy);
    for policy in ["retry_interval => '1 s'", "retry_jitter => '1 s'", "retry_interval => '0'"] {
        let sql = format!("select scylla.schedule('b', 'every 1 day', 'q', {policy})");
        assert_eq!(s.refused(&sql), "22023", "{policy}");
    }
    // one try has no retries
    schedule(&mut s, "b", "every 1 s", "max_tries => 1, retry_interval => '1 hour'");
    let sql = "select scylla.schedule('b', '0 9,10 * * *', 'q', max_tries => 2, retry_interval => '1 hour')";
    assert!(
        s.refusal(sql, &[])
            .message()
            .contains("take 1 h, which is not shorter than its recurrence of 1 h")
    );
    // a change is checked with what stays
    let sql = "select scylla.alter_schedule('a', schedule => 'every 1 s')";
    assert!(s.refusal(sql, &[]).message().contains("recurrence of 1 s"));
    assert_eq!(s.refused("select scylla.alter_schedule('a', max_tries => 5)"), "22023");
    s.run("select scylla.alter_schedule('a', priority => 3)");
    s.run("select scylla.alter_schedule('a', max_tries => 3, schedule => 'every 2 s')");
}

/// B100: the server is down for a day, from 06:30 on.
#[test]
fn each_policy_after_a_day_of_down_time() {
    let database = database();
    let mut s = database.connect();
    let cases = [
        ("skip", "allow", 7, 24),
        ("skip", "skip", 7, 24),
        ("once", "allow", 8, 23),
        ("once", "skip", 8, 23),
        ("all", "allow", 31, 0),
        ("all", "skip", 8, 23),
    ];
    let name = |misfire: &str, overlap: &str| format!("{misfire}-{overlap}");
    for (misfire, overlap, ..) in cases {
        let options = format!("misfire => '{misfire}', overlap => '{overlap}'");
        schedule(&mut s, &name(misfire, overlap), "0 * * * *", &options);
    }
    for hour in 0..7 {
        fire(&mut s, &format!("2030-01-01 {hour:02}:00:00"), "2030-01-01 00:00:00");
        for lease in s.own("w", "q", 99) {
            s.complete(&lease);
        }
    }
    fire(&mut s, "2030-01-02 06:30:00", "2030-01-02 06:30:00");
    for (misfire, overlap, runs, skipped) in cases {
        let name = name(misfire, overlap);
        assert_eq!(counts(&mut s, &name), (runs, skipped), "{name}");
        assert_eq!(next_run(&mut s, &name), "2030-01-02 07:00:00", "{name}");
        assert_eq!(fired(&mut s, &name).len() as i64, runs, "{name}");
    }
    assert_eq!(fired(&mut s, "once-allow").pop().unwrap(), "2030-01-02T06:00:00Z", "the latest");
    assert_eq!(fired(&mut s, "all-skip").pop().unwrap(), "2030-01-01T07:00:00Z", "the first");
    assert_no_time_twice(&mut s);
}

/// The wall clock steps forward by an hour, and back by one.
#[test]
fn each_policy_when_the_clock_steps() {
    let database = database();
    let mut s = database.connect();
    for misfire in ["skip", "once", "all"] {
        schedule(&mut s, misfire, "*/10 * * * *", &format!("misfire => '{misfire}'"));
    }
    let since = "2029-12-31 00:00:00";
    fire(&mut s, "2030-01-01 00:00:00", since);
    // forward: 00:10 to 01:00 pass at once
    fire(&mut s, "2030-01-01 01:05:00", since);
    for (misfire, expected) in [("skip", (1, 6)), ("once", (2, 5)), ("all", (7, 0))] {
        assert_eq!(counts(&mut s, misfire), expected, "{misfire}");
    }
    // back: nothing fires until the clock has come to where it was
    for now in ["00:05:00", "00:10:00", "00:59:59", "01:00:00", "01:09:59"] {
        assert_eq!(fire(&mut s, &format!("2030-01-01 {now}"), since), 0, "{now}");
    }
    assert_eq!(fire(&mut s, "2030-01-01 01:10:00", since), 3);
    // nor does a change of the expression bring a time back
    s.run("select scylla.alter_schedule('all', schedule => '*/5 * * * *')");
    fire(&mut s, "2030-01-01 01:05:00", since);
    assert_eq!(next_run(&mut s, "all"), "2030-01-01 01:15:00");
    assert_no_time_twice(&mut s);
}

/// 'all' catches up in batches; what is due now does not wait for them.
#[test]
fn catching_up_delays_no_other_schedule() {
    let server = Server::start(&["scylla.board_size = 1000"]);
    let database = server.database();
    let mut s = database.connect();
    s.run(
        "select scylla.schedule('late', 'every 1 second', 'late', misfire => 'all'),
                  scylla.schedule('now', 'every 1 second', 'now')",
    );
    s.run("update scylla.schedule set next_run = next_run - interval '1 day' where name = 'late'");
    s.run("select scylla.refresh()");
    let missed = "select fired from scylla.schedules where name = 'late'";
    let begun = s.count("select extract(epoch from clock_timestamp())::bigint");
    eventually(seconds(100), "a day of seconds fires", || (s.count(missed) > 86_300).then_some(()));
    let took = s.count("select extract(epoch from clock_timestamp())::bigint") - begun;
    let late: f64 = s.value(
        "select coalesce(max(extract(epoch from created - split_part(key, '@', 2)::timestamptz)), 0)::float8
         from scylla.task where queue = 'now'",
        &[],
    );
    let now = s.count("select count(*) from scylla.task where queue = 'now'");
    assert!(now >= took - 1, "{now} runs in {took} s");
    assert!(late < 2.0, "{late}");
    eventually(seconds(10), "none is left", || {
        (s.count("select count(*) from scylla.missed") == 0).then_some(())
    });
    let gaps = s.count(
        "select count(*) from (
             select t - lag(t) over (order by t) as gap
             from (select split_part(key, '@', 2)::timestamptz as t from scylla.task where queue = 'late') a) b
         where gap <> interval '1 second'",
    );
    assert_eq!(gaps, 0, "none is lost");
    assert_no_time_twice(&mut s);
    server.assert_log_is_clean();
}

/// A run at a local time is at that time on the clocks that timestamptz shows; what they skip runs
/// right after the gap.
#[test]
fn zones_are_those_of_timestamptz() {
    let database = database();
    let mut s = database.connect();
    let mut checked: BTreeMap<bool, i64> = BTreeMap::new();
    for zone in [
        "Europe/Berlin",
        "America/New_York",
        "Australia/Lord_Howe",
        "America/Santiago",
        "Pacific/Apia",
        "Asia/Kathmandu",
        "UTC",
    ] {
        for time in ["00:00", "00:30", "01:45", "02:00", "02:15", "02:59", "23:30"] {
            let (hour, minute) = time.split_once(':').unwrap();
            let sql = "select count(*),
                    count(*) filter (where to_char(local, 'HH24:MI') <> $3),
                    count(*) filter (where to_char(local, 'HH24:MI') <> $3
                        and (run - interval '1 us') at time zone $2 + interval '1 us' = local),
                    count(distinct local::date)
                from (
                    select run, run at time zone $2 as local
                    from scylla.next_runs($1, 2000, $2, '2010-06-01') as n (run)) t";
            let expression = format!("{minute} {hour} * * *");
            let row = s.query_one(sql, &[&expression, &zone, &time]).unwrap();
            let [all, moved, wrong, days]: [i64; 4] = std::array::from_fn(|at| row.get(at));
            assert_eq!((all, wrong), (2_000, 0), "{zone} {time}");
            // Apia skipped the whole 30th of December 2011: that run is on the 31st, right after
            // the gap, unless it is one with the run of that time.
            let shared = i64::from(zone == "Pacific/Apia" && time != "00:00");
            assert_eq!(days, 2_000 - shared, "{zone} {time}: once a day");
            *checked.entry(moved > 0).or_default() += 1;
        }
    }
    assert!(checked[&true] > 8 && checked[&false] > 8, "{checked:?}");
}
