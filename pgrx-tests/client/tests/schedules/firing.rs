//! Runs that fire, and how they are counted.

use crate::{counts, fire, fired, next_run, schedule};
use client::*;

/// B99, B102, B103, B110: the key tells the schedule and the expected time; a retry and an expired
/// lease keep it; completed, the next run comes at its time.
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

/// A run whose key another task has is skipped, counted so, and logged.
#[test]
fn a_taken_key_is_skipped() {
    let database = database();
    let mut s = database.connect();
    schedule(&mut s, "taken", "every 1 minute", "");
    let other = s.submit_with("q", "key => 'taken@2030-01-01T00:00:00Z'");
    assert_eq!(fire(&mut s, "2030-01-01 00:01:00", "2030-01-01 00:00:00"), 1);
    assert_eq!(counts(&mut s, "taken"), (1, 1));
    assert_eq!(s.status(other), "ready");
    assert_eq!(fired(&mut s, "taken"), ["2030-01-01T00:00:00Z", "2030-01-01T00:01:00Z"]);
    let log = Server::shared().log();
    assert!(log.contains("LOG:  scylla skipped a run of schedule \"taken\""));
    assert!(
        log.contains("Another task of queue \"q\" has its key \"taken@2030-01-01T00:00:00Z\".")
    );
}

/// B105: a key that another role gave a command keeps no scheduled command from running.
#[test]
fn no_key_of_another_suppresses_a_scheduled_command() {
    let server = Server::start(&["scylla.sql_workers = 0"]);
    let database = server.database();
    let mut s = database.connect();
    s.run("create role squatter login");
    s.run("select scylla.grant('sql', 'squatter', '{submit,look,cancel}')");
    s.run(
        "select scylla.schedule_sql('a', 'every 1 minute', 'select 1', overlap => 'allow',
        starts_at => '2030-01-01 00:00Z')",
    );
    s.run("set role squatter");
    let squat = "select scylla.run_sql('select 2', key => 'a@2030-01-01T00:01:00Z'";
    let squatting: Uuid = s.value(&format!("{squat})"), &[]);
    assert_eq!(s.refused(&format!("{squat})")), "23505", "of its own kind it is one");
    s.run("reset role");
    assert_eq!(fire(&mut s, "2030-01-01 00:01:00", "2030-01-01 00:00:00"), 2);
    assert_eq!(counts(&mut s, "a"), (2, 0));
    // The name means the run, but not for those who submit.
    let find = "select scylla.task_id('sql', 'a@2030-01-01T00:01:00Z')";
    let run: Uuid = s.value(find, &[]);
    assert_ne!(run, squatting);
    s.run("set role squatter");
    assert_eq!(s.value::<Uuid>(&format!("{squat}, on_conflict => 'ignore')"), &[]), squatting);
    let replaced: Uuid = s.value(&format!("{squat}, on_conflict => 'replace')"), &[]);
    s.run("reset role");
    assert_eq!(s.status(squatting), "cancelled");
    assert_eq!([run, replaced].map(|id| s.status(id)), ["ready", "ready"]);
    // The same run is no other one.
    assert_eq!(fire(&mut s, "2030-01-01 00:01:00", "2030-01-01 00:00:00"), 0);
    s.cancel(run);
    assert_eq!(s.value::<Uuid>(find, &[]), replaced);
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
