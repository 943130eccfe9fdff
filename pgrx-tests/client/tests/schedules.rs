//! Schedules: when runs fire, once each, whatever crashes; what happens to those that were missed.

use client::*;
use std::collections::BTreeMap;

/// Fires what is due at a time, for a scheduler that fires since some time; how many runs fired. Times are
/// in UTC.
fn fire(s: &mut Session, now: &str, since: &str) -> i64 {
    let sql = "select scylla._fire_schedules(($1::text || '+00')::timestamptz, ($2::text || '+00')::timestamptz)";
    s.value(sql, &[&now, &since])
}

/// Registers a schedule whose first run is in 2030, which the scheduler does not see.
fn schedule(s: &mut Session, name: &str, expression: &str, options: &str) -> i64 {
    let sql = format!(
        "select scylla.schedule($1, $2, 'q', starts_at => '2030-01-01 00:00+00'{}{options})",
        if options.is_empty() { "" } else { ", " }
    );
    s.value(&sql, &[&name, &expression])
}

/// The expected times of a schedule's runs that fired, live or settled, in order; without the date of
/// the first of them.
fn fired(s: &mut Session, name: &str) -> Vec<String> {
    let sql =
        "select split_part(key, '@', 2) from scylla.tasks where key like $1 || '@%' order by 1";
    s.query(sql, &[&name]).unwrap().iter().map(|row| row.get(0)).collect()
}

/// fired and skipped.
fn counts(s: &mut Session, name: &str) -> (i64, i64) {
    let row = s
        .query_one("select fired, skipped from scylla.schedules where name = $1", &[&name])
        .unwrap();
    (row.get(0), row.get(1))
}

fn next_run(s: &mut Session, name: &str) -> String {
    let sql =
        "select coalesce(to_char(next_run at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS'), 'none')
               from scylla.schedules where name = $1";
    s.value(sql, &[&name])
}

/// No expected time has two tasks; how many there are.
#[track_caller]
fn assert_no_time_twice(s: &mut Session) -> i64 {
    // In one snapshot: the scheduler may be firing.
    let sql = "select count(*), count(distinct key) from (
                   select key from scylla.task where schedule is not null
                   union all select key from scylla.finished where schedule is not null) t
               where key is not null";
    let row = &s.query(sql, &[]).expect("the keys")[0];
    let [all, distinct]: [i64; 2] = [row.get(0), row.get(1)];
    assert_eq!(distinct, all);
    all
}

/// B99, B102, B103, B110: the key tells the schedule and the expected time; a retry and an expired lease
/// keep it; completed, the next run comes at its time.
#[test]
fn a_run_has_the_key_of_its_expected_time() {
    let database = database();
    let mut s = database.connect();
    schedule(&mut s, "nightly", "0 9 * * *", "action => 'a', priority => 7, max_tries => 5");
    assert_eq!(next_run(&mut s, "nightly"), "2030-01-01 09:00:00");
    assert_eq!(fire(&mut s, "2030-01-01 08:59:59", "2030-01-01 00:00:00"), 0);
    assert_eq!(fire(&mut s, "2030-01-01 09:00:00.3", "2030-01-01 00:00:00"), 1);
    assert_eq!(fire(&mut s, "2030-01-01 09:00:00.4", "2030-01-01 00:00:00"), 0);
    assert_eq!(fired(&mut s, "nightly"), ["2030-01-01T09:00:00Z"]);
    let lease = s.own_one("q");
    assert_eq!((lease.action.as_str(), lease.priority), ("a", 7));
    s.return_task(&lease, "retry").unwrap();
    let lease = s.own_one_with("q", "timeout => '10 ms'");
    let id = lease.id;
    let lease = eventually(seconds(5), "the lease expires", || s.own("other", "q", 1).pop());
    assert_eq!(lease.id, id, "B102: the next worker finds it");
    let entry = s.entry(id);
    assert_eq!(entry["key"], "nightly@2030-01-01T09:00:00Z");
    assert_eq!(entry["max_tries"], 5);
    s.complete(&lease);
    assert_eq!(fire(&mut s, "2030-01-02 09:00:00", "2030-01-01 00:00:00"), 1);
    assert_eq!(fired(&mut s, "nightly").len(), 2);
    assert_eq!(counts(&mut s, "nightly"), (2, 0));
    // a time with a fraction of a second tells it
    let sql = "select scylla.schedule('exact', 'every 1 minute', 'q', starts_at => '2030-01-01 00:00:00.25+00')";
    s.value::<i64>(sql, &[]);
    fire(&mut s, "2030-01-01 00:00:01", "2030-01-01 00:00:00");
    assert_eq!(fired(&mut s, "exact"), ["2030-01-01T00:00:00.25Z"]);
}

/// B101: runs fire in the order of their times, and are owned in that order at once.
#[test]
fn runs_fire_in_time_order() {
    let database = database();
    let mut s = database.connect();
    for (name, minute) in [("c", 3), ("a", 1), ("d", 4), ("b", 2)] {
        schedule(&mut s, name, &format!("{minute} 0 1 1 *"), "");
    }
    let (now, since) = ("2030-01-01 00:04:30", "2030-01-01 00:00:00");
    // what is more than a minute late was missed, and fires as well
    assert_eq!(fire(&mut s, now, since), 4);
    let keys: Vec<String> =
        (s.query("select key from scylla.own_tasks('w', 'q', 9)", &[]).unwrap())
            .iter()
            .map(|row| row.get::<_, String>(0)[..1].to_owned())
            .collect();
    assert_eq!(keys, ["a", "b", "c", "d"]);
}

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

/// I1: kill -9 in the middle of firing, again and again: no time fires twice, none is lost.
#[test]
fn a_crash_neither_doubles_nor_loses_a_run() {
    let server = Server::start(&["restart_after_crash = on"]);
    let database = server.database();
    let mut s = database.connect();
    s.run(
        "select scylla.schedule('s' || n, 'every 1 second', 'q', misfire => 'all')
         from generate_series(1, 300) n",
    );
    for round in 0..6 {
        let runs = s.count("select sum(fired)::bigint from scylla.schedule");
        eventually(seconds(20), "they fire", || {
            (s.count("select sum(fired)::bigint from scylla.schedule") > runs + 150).then_some(())
        });
        let leases = s.own("w", "q", 50);
        let (ids, tokens): (Vec<Uuid>, Vec<Uuid>) =
            leases.iter().map(|it| (it.id, it.token)).unzip();
        s.value::<Vec<Option<String>>>("select scylla.return_tasks($1, $2)", &[&ids, &tokens]);
        if round % 2 == 0 {
            server.kill();
            server.start_again();
        } else {
            server.kill_process(database.scheduler());
        }
        s = eventually(seconds(20), "connect", || database.try_connect().ok());
    }
    eventually(seconds(60), "all have caught up", || {
        (s.count("select count(*) from scylla.missed") == 0
            && s.count("select count(*) from scylla.schedule where next_run < clock_timestamp() - interval '1 s'") == 0)
            .then_some(())
    });
    s.run("select scylla.open(false)");
    assert!(assert_no_time_twice(&mut s) > 900, "150 and more in each round");
    let lost = s.count(
        "select count(*) from (
             select name, t - lag(t) over (partition by name order by t) as gap from (
                 select split_part(key, '@', 1) as name, split_part(key, '@', 2)::timestamptz as t
                 from scylla.tasks) a) b
         where gap <> interval '1 second'",
    );
    assert_eq!(lost, 0);
    // the counts are those of the tasks
    let differ = s.count(
        "select count(*) from scylla.schedules s
         where fired <> (select count(*) from scylla.tasks t where t.key like s.name || '@%')
            or completed <> (select count(*) from scylla.tasks t
                where t.key like s.name || '@%' and t.status = 'completed')",
    );
    assert_eq!(differ, 0);
}

/// The policies after real down time, of some seconds.
#[test]
fn down_time_is_not_forgotten_over_a_restart() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    for misfire in ["skip", "once", "all"] {
        let sql = format!(
            "select scylla.schedule('{misfire}', 'every 1 second', 'q', misfire => '{misfire}')"
        );
        s.run(&sql);
    }
    eventually(seconds(10), "they fire", || (counts(&mut s, "skip").0 > 1).then_some(()));
    // Runs from before the scheduler came to them were missed, too.
    let [skipped, others] = ["skip", "once"].map(|name| counts(&mut s, name).1);
    server.stop("fast");
    sleep(milliseconds(4_200));
    server.start_again();
    let mut s = database.connect();
    eventually(seconds(10), "they fire again", || {
        (counts(&mut s, "skip").1 > skipped).then_some(())
    });
    s.run("select scylla.open(false)");
    let [skip, once, all] = ["skip", "once", "all"].map(|name| counts(&mut s, name));
    let missed = skip.1 - skipped;
    assert!(missed >= 4 && once.1 - others == missed - 1, "{skip:?} {once:?}");
    let reached = |it: (i64, i64)| it.0 + it.1;
    assert!((reached(skip) - reached(once)).abs() <= 1 && all.1 == 0, "{skip:?} {once:?} {all:?}");
    assert_no_time_twice(&mut s);
}

/// A closed database fires nothing; then the policies apply.
#[test]
fn a_closed_database_fires_nothing() {
    let database = database();
    let mut s = database.connect();
    s.run(
        "select scylla.schedule('a', 'every 1 second', 'q', misfire => 'skip'), scylla.open(false)",
    );
    let before = counts(&mut s, "a").0;
    sleep(milliseconds(2_500));
    assert_eq!(counts(&mut s, "a").0, before);
    s.run("select scylla.open()");
    eventually(seconds(5), "it fires", || (counts(&mut s, "a").0 > before).then_some(()));
    assert!(counts(&mut s, "a").1 >= 2, "{:?}", counts(&mut s, "a"));
}

/// What counts is counted once, and survives the tasks.
#[test]
fn counts_survive_retention_and_restart() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    schedule(&mut s, "a", "every 1 minute", "max_tries => 1");
    for minute in 0..11 {
        fire(&mut s, &format!("2030-01-01 00:{minute:02}:00"), "2030-01-01 00:00:00");
    }
    let leases = s.own("w", "q", 5);
    for lease in &leases[..3] {
        s.complete(lease);
    }
    s.return_task(&leases[3], "aborted").unwrap();
    // the last try
    s.return_task(&leases[4], "retry").unwrap();
    let expiring = s.own_one_with("q", "timeout => '10 ms'");
    eventually(seconds(5), "it expires", || (s.status(expiring.id) == "aborted").then_some(()));
    let cancelled = s.own_one("q");
    s.cancel(cancelled.id);
    let ids: Vec<Uuid> = s.own("w", "q", 2).iter().map(|lease| lease.id).collect();
    s.delete(&ids);
    let look = "select array[fired, completed, aborted, skipped] from scylla.schedules";
    let expected = vec![11_i64, 3, 3, 0];
    assert_eq!(s.value::<Vec<i64>>(look, &[]), expected);
    eventually(seconds(5), "they are counted", || {
        (s.count("select count(*) from scylla.run_count") == 0).then_some(())
    });
    assert_eq!(s.value::<Vec<i64>>(look, &[]), expected);
    // while the schedule's row is locked, a run still settles at once
    let mut holder = database.connect();
    holder.run("begin; select from scylla.schedule for update");
    let lease = s.own_one("q");
    s.complete(&lease);
    sleep(milliseconds(1_500));
    assert_eq!(s.value::<Vec<i64>>(look, &[]), [11, 4, 3, 0]);
    holder.run("rollback");
    s.run("truncate scylla.finished");
    assert_eq!(s.value::<Vec<i64>>(look, &[]), [11, 4, 3, 0]);
    server.stop("immediate");
    server.start_again();
    let mut s = database.connect();
    assert_eq!(s.value::<Vec<i64>>(look, &[]), [11, 4, 3, 0]);
    eventually(seconds(10), "it is counted", || {
        (s.count("select count(*) from scylla.run_count") == 0).then_some(())
    });
    assert_eq!(s.value::<Vec<i64>>(look, &[]), [11, 4, 3, 0]);
    // a rollback counts nothing; a schedule that is gone leaves nothing
    let lease = s.own_one("q");
    s.run(&format!(
        "begin; select scylla.return_task('{}', '{}'); rollback",
        lease.id, lease.token
    ));
    assert_eq!(s.value::<Vec<i64>>(look, &[]), [11, 4, 3, 0]);
    assert!(s.value::<bool>("select scylla.unschedule('a')", &[]));
    s.complete(&lease);
    eventually(seconds(10), "nothing is left", || {
        (s.count("select count(*) from scylla.run_count") == 0).then_some(())
    });
}

/// A settled run waits for no other transaction, nor does a worker that returns one.
#[test]
fn a_run_is_skipped_while_the_last_one_is_unfinished() {
    let database = database();
    let mut s = database.connect();
    schedule(&mut s, "a", "every 1 minute", "overlap => 'skip'");
    let since = "2030-01-01 00:00:00";
    assert_eq!(fire(&mut s, "2030-01-01 00:00:00", since), 1);
    assert_eq!(fire(&mut s, "2030-01-01 00:01:00", since), 0);
    let lease = s.own_one("q");
    assert_eq!(fire(&mut s, "2030-01-01 00:02:00", since), 0);
    s.complete(&lease);
    assert_eq!(fire(&mut s, "2030-01-01 00:03:00", since), 1);
    assert_eq!(counts(&mut s, "a"), (2, 2));
    // cancelled is finished, too
    let id: Uuid = s.value("select id from scylla.task", &[]);
    s.cancel(id);
    assert_eq!(fire(&mut s, "2030-01-01 00:04:00", since), 1);
}

/// A key that another task has is skipped, and counted so.
#[test]
fn a_taken_key_is_skipped() {
    let database = database();
    let mut s = database.connect();
    schedule(&mut s, "a", "every 1 minute", "");
    let other = s.submit_with("q", "key => 'a@2030-01-01T00:00:00Z'");
    assert_eq!(fire(&mut s, "2030-01-01 00:01:00", "2030-01-01 00:00:00"), 1);
    assert_eq!(counts(&mut s, "a"), (1, 1));
    assert_eq!(s.status(other), "ready");
    assert_eq!(fired(&mut s, "a"), ["2030-01-01T00:00:00Z", "2030-01-01T00:01:00Z"]);
}

/// Registering again keeps what is due, and brings nothing back; unscheduling forgets.
#[test]
fn registering_again_neither_loses_nor_repeats_a_run() {
    let database = database();
    let mut s = database.connect();
    let id = schedule(&mut s, "a", "*/5 * * * *", "");
    let since = "2030-01-01 00:00:00";
    fire(&mut s, "2030-01-01 00:05:00", since);
    assert_eq!(counts(&mut s, "a").0, 2);
    // 00:10 is due; what is registered again has it still
    assert_eq!(schedule(&mut s, "a", "*/5 * * * *", "priority => 5, misfire => 'all'"), id);
    assert_eq!(next_run(&mut s, "a"), "2030-01-01 00:10:00");
    fire(&mut s, "2030-01-01 00:10:00", since);
    assert_eq!(counts(&mut s, "a").0, 3, "the counts go on");
    // another expression begins again, behind the last run
    schedule(&mut s, "a", "* * * * *", "");
    assert_eq!(next_run(&mut s, "a"), "2030-01-01 00:11:00");
    for lease in s.own("w", "q", 9) {
        s.complete(&lease);
    }
    s.run("truncate scylla.finished");
    fire(&mut s, "2030-01-01 00:10:59", since);
    assert_eq!(fired(&mut s, "a").len(), 0, "retention does not bring a time back");
    assert!(s.value::<bool>("select scylla.unschedule('a')", &[]));
    assert!(!s.value::<bool>("select scylla.unschedule('a')", &[]));
    schedule(&mut s, "a", "*/5 * * * *", "");
    fire(&mut s, "2030-01-01 00:00:00", since);
    assert_eq!(fired(&mut s, "a"), ["2030-01-01T00:00:00Z"], "forgotten");
    assert_eq!(counts(&mut s, "a"), (1, 0));
}

#[test]
fn alter_schedule_changes_what_it_is_given() {
    let database = database();
    let mut s = database.connect();
    schedule(&mut s, "a", "*/5 * * * *", "time_zone => 'Asia/Tokyo', misfire => 'all'");
    let since = "2030-01-01 00:00:00";
    fire(&mut s, "2030-01-01 00:00:00", since);
    s.run(
        "select scylla.alter_schedule('a', spec => '{\"n\": 1}', queue => 'other', action => 'x')",
    );
    assert_eq!(next_run(&mut s, "a"), "2030-01-01 00:05:00");
    fire(&mut s, "2030-01-01 00:05:00", since);
    let lease = s.own_one("other");
    assert_eq!((lease.action.as_str(), &lease.spec), ("x", &json!({"n": 1})));
    // inactive: nothing comes, and what passes meanwhile is dropped
    s.run("select scylla.alter_schedule('a', active => false)");
    assert_eq!(next_run(&mut s, "a"), "none");
    assert_eq!(fire(&mut s, "2030-01-01 00:30:00", since), 0);
    s.run("select scylla.alter_schedule('a', false, time_zone => 'europe/berlin')");
    s.run("update scylla.schedule set starts_at = '2030-01-01 01:00+00'");
    s.run("select scylla.alter_schedule('a', true)");
    assert_eq!(next_run(&mut s, "a"), "2030-01-01 01:00:00");
    assert_eq!(counts(&mut s, "a"), (2, 0));
    let look =
        "select array[time_zone, misfire, overlap, schedule, active::text] from scylla.schedules";
    let row: Vec<String> = s.value(look, &[]);
    assert_eq!(row, ["Europe/Berlin", "all", "allow", "*/5 * * * *", "true"]);
    // ends
    s.run("select scylla.alter_schedule('a', ends_at => '2030-01-01 01:02+00')");
    fire(&mut s, "2030-01-01 01:00:00", since);
    assert_eq!(next_run(&mut s, "a"), "none");
    s.run("select scylla.alter_schedule('a', ends_at => '2030-01-01 02:00+00')");
    assert_eq!(next_run(&mut s, "a"), "2030-01-01 01:05:00", "and goes on");
    assert_eq!(s.refused("select scylla.alter_schedule('b', active => false)"), "P0002");
    for change in [
        "schedule => 'x'",
        "time_zone => 'Mars/Olympus'",
        "misfire => 'never'",
        "overlap => 'x'",
        "max_tries => -1",
        "timeout => '0'",
        "retry_interval => '-1 s'",
        "ends_at => '2029-01-01'",
        "starts_at => 'infinity'",
        "queue => ''",
        "priority => -1",
        "spec => 'null'",
    ] {
        assert_eq!(
            s.refused(&format!("select scylla.alter_schedule('a', {change})")),
            "22023",
            "{change}"
        );
    }
}

/// A dropped owner makes a schedule inactive, with a warning, and blocks nothing else.
#[test]
fn a_schedule_without_an_owner_becomes_inactive() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    s.run("create role gone; select scylla.grant('q', 'gone', '{submit}'); set role gone");
    s.run("select scylla.schedule('lost \"one\"', 'every 1 second', 'q')");
    s.run("reset role");
    let owner: String = s.value("select owner::text from scylla.schedules", &[]);
    assert_eq!(owner, "gone");
    s.run("select scylla.schedule('kept', 'every 1 second', 'q')");
    s.run("drop role gone");
    eventually(seconds(10), "it is inactive", || {
        s.value::<bool>("select not active from scylla.schedules where name = 'lost \"one\"'", &[])
            .then_some(())
    });
    assert!(server.log().contains("WARNING:  schedule \"lost \"one\"\" is inactive from now on"));
    assert!(server.log().contains("Its owner does not exist."));
    let before = counts(&mut s, "kept").0;
    eventually(seconds(10), "the other goes on", || {
        (counts(&mut s, "kept").0 > before + 1).then_some(())
    });
    s.run("select scylla.schedule('lost \"one\"', 'every 1 second', 'q')");
    eventually(seconds(10), "it fires again", || {
        (counts(&mut s, "lost \"one\"").0 > 1).then_some(())
    });
    server.assert_log_is_clean();
}

/// Roles are dumped by name: with another oid it is that of the name, a missing one fails nothing.
#[test]
fn a_dump_means_the_roles_of_its_names() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    for role in ["\"Odd \"\"role\"", "moved", "missing"] {
        s.run(&format!("create role {role}"));
        s.execute("select scylla.grant('q', $1::text::regrole, '{submit}')", &[&role]).unwrap();
    }
    schedule(&mut s, "mine", "every 1 minute", "misfire => 'all'");
    for (name, role) in [("odd", "\"Odd \"\"role\""), ("moved", "moved"), ("missing", "missing")] {
        schedule(&mut s, name, "0 9 * * *", "");
        s.run(&format!(
            "update scylla.schedule set owner = (select oid from pg_authid where quote_ident(rolname) = '{role}')
             where name = '{name}'"
        ));
    }
    fire(&mut s, "2030-01-01 00:00:00", "2030-01-01 00:00:00");
    let path = server.path("dump").to_str().unwrap().to_owned();
    server.tool("pg_dump", &["-Fc", "-f", &path, &database.name]);
    s.run("drop role missing; drop role moved; create role moved");
    let restored = server.bare_database();
    server.tool("pg_restore", &["-e", "-d", &restored.name, &path]);
    let mut r = restored.connect();
    let look =
        "select string_agg(name || ' ' || owner::text, ', ' order by name) from scylla.schedule";
    let owners = "mine postgres, missing -, moved moved, odd \"Odd \"\"role\"";
    assert_eq!(r.text(look), owners);
    let moved: bool = r.value(
        "select owner::oid = (select oid from pg_roles where rolname = 'moved') from scylla.schedule where name = 'moved'",
        &[],
    );
    assert!(moved);
    let rest = "select jsonb_agg(to_jsonb(s) - 'owner' order by name) from scylla.schedule s";
    assert_eq!(r.value::<Value>(rest, &[]), s.value::<Value>(rest, &[]));
    // the next number is new, and what the origin fired does not fire again
    assert!(schedule(&mut r, "new", "0 9 * * *", "") > 4);
    r.run("select scylla.open()");
    assert_eq!(fire(&mut r, "2030-01-01 00:00:30", "2030-01-01 00:00:00"), 0);
    fire(&mut r, "2030-01-01 09:00:00", "2030-01-01 09:00:00");
    assert!(!r.value::<bool>("select active from scylla.schedules where name = 'missing'", &[]));
    assert_eq!(counts(&mut r, "moved").0, 1);
    server.assert_log_is_clean();
}

/// A run at a local time is at that time on the clocks that timestamptz shows; what they skip runs right
/// after the gap.
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
            // Apia skipped the whole 30th of December 2011: that run is on the 31st, right after the
            // gap, unless it is one with the run of that time.
            let shared = i64::from(zone == "Pacific/Apia" && time != "00:00");
            assert_eq!(days, 2_000 - shared, "{zone} {time}: once a day");
            *checked.entry(moved > 0).or_default() += 1;
        }
    }
    assert!(checked[&true] > 8 && checked[&false] > 8, "{checked:?}");
}

/// The coming runs of all schedules, for a calendar; nothing is registered or changed by a look.
#[test]
fn the_coming_runs_are_known() {
    let database = database();
    let mut s = database.connect();
    schedule(&mut s, "daily", "0 12 * * *", "time_zone => 'Europe/Berlin', action => 'x'");
    schedule(&mut s, "hourly", "every 1 hour", "ends_at => '2030-01-01 03:00+00'");
    schedule(&mut s, "inactive", "every 1 hour", "");
    s.run("select scylla.alter_schedule('inactive', active => false)");
    let look = "select string_agg(format('%s %s %s', name, to_char(run_at at time zone 'UTC', 'DD HH24:MI'), queue || action), ', ' order by run_at, name)
                from scylla.coming_runs('2030-01-01 00:00+00', '2030-01-02 11:00+00')";
    assert_eq!(
        s.text(look),
        "hourly 01 01:00 q, hourly 01 02:00 q, hourly 01 03:00 q, daily 01 11:00 qx, daily 02 11:00 qx"
    );
    fire(&mut s, "2030-01-01 01:00:00", "2030-01-01 00:00:00");
    assert!(s.text(look).starts_with("hourly 01 02:00"), "what has fired does not come");
    assert_eq!(s.count("select count(*) from scylla.coming_runs()"), 0);
    assert_eq!(s.count("select count(*) from scylla.next_runs('* * * * *')"), 5);
    let refused = [
        "next_runs('x')",
        "next_runs('* * * * *', 0)",
        "next_runs('* * * * *', 100001)",
        "next_runs('* * * * *', 5, 'x')",
        "next_runs('* * * * *', after => 'infinity')",
        "coming_runs('-infinity')",
    ];
    for call in refused {
        assert_eq!(s.refused(&format!("select * from scylla.{call}")), "22023", "{call}");
    }
    assert_eq!(s.refused("select scylla.next_runs(null)"), "22004");
    assert_eq!(
        s.count(
            "select count(*) from scylla.next_runs('* * * * *', 5, after => '294276-12-31 23:58')"
        ),
        1
    );
}

/// A schedule that another session holds delays no other, and fires soon after it is let go.
#[test]
fn a_locked_schedule_delays_no_other() {
    let database = database();
    let (mut s, mut holder) = (database.connect(), database.connect());
    s.run("select scylla.schedule('held', 'every 1 second', 'q'), scylla.schedule('free', 'every 1 second', 'q')");
    holder.run("begin");
    holder.run("select scylla.alter_schedule('held', priority => 1)");
    let (held, free) = (counts(&mut s, "held").0, counts(&mut s, "free").0);
    eventually(seconds(10), "the other fires", || {
        (counts(&mut s, "free").0 > free + 2).then_some(())
    });
    assert_eq!(counts(&mut s, "held").0, held);
    holder.run("commit");
    eventually(seconds(5), "it fires", || (counts(&mut s, "held").0 > held + 2).then_some(()));
}

/// B105, B109: a retriable failure is tried again after a growing pause, by the schedule's policy.
#[test]
fn a_run_is_retried_by_the_schedules_policy() {
    let database = database();
    let mut s = database.connect();
    schedule(
        &mut s,
        "a",
        "every 1 day",
        "max_tries => 3, retry_interval => '200 ms', timeout => '1 hour'",
    );
    fire(&mut s, "2030-01-01 00:00:00", "2030-01-01 00:00:00");
    for pause in [0.2, 0.4] {
        let lease = eventually(seconds(5), "the run is ready", || s.own("w", "q", 1).pop());
        assert!(lease.seconds_left.unwrap() > 3_000.0);
        let begun: f64 = s.value("select extract(epoch from clock_timestamp())::float8", &[]);
        s.return_task(&lease, "retry").unwrap();
        let until: f64 = s.value("select extract(epoch from run_at)::float8 from scylla.task", &[]);
        assert!((pause..pause + 1.0).contains(&(until - begun)), "{pause}: {}", until - begun);
    }
    let lease = eventually(seconds(5), "the run is ready", || s.own("w", "q", 1).pop());
    assert_eq!(s.return_task(&lease, "retry").unwrap(), "aborted");
    let aborted = s.count("select aborted from scylla.schedules");
    assert_eq!(aborted, 1);
}
