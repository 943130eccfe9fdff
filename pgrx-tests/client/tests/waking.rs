//! NOTIFY: the notifications that the scheduler sends, and their cost: I11.

use client::*;
use postgres::fallible_iterator::FallibleIterator;
use std::collections::HashSet;
use std::thread;
use std::time::{Duration, Instant};

/// The notifications that a listener gets, as channel and payload, until none arrives for a while.
fn heard(s: &mut Session, quiet: Duration) -> Vec<(String, String)> {
    let mut notifications = s.notifications();
    let all = notifications
        .timeout_iter(quiet)
        .map(|it| Ok((it.channel().to_owned(), it.payload().to_owned())));
    all.collect().expect("the connection lives")
}

/// The next notification.
#[track_caller]
fn next(s: &mut Session) -> (String, String) {
    let mut notifications = s.notifications();
    let next = notifications.timeout_iter(patience(seconds(5))).next();
    let next = next.expect("the connection lives").expect("a notification");
    (next.channel().to_owned(), next.payload().to_owned())
}

/// So many notifications, and those that come after them in a while.
#[track_caller]
fn next_ones(s: &mut Session, n: usize) -> Vec<(String, String)> {
    let mut all: Vec<_> = (0..n).map(|_| next(s)).collect();
    all.extend(heard(s, milliseconds(300)));
    all
}

fn listening(database: &Database, channels: &[&str]) -> Session {
    let mut s = database.connect();
    for channel in channels {
        s.run(&format!("listen \"{channel}\""));
    }
    s
}

fn on(channel: &str) -> (String, String) {
    (channel.to_owned(), String::new())
}

/// The scheduler sends a notification with an empty payload for each way to make a task ready.
#[test]
fn a_listener_hears_when_a_queue_gets_ready_tasks() {
    let database = database();
    let mut s = database.connect();
    let mut l = listening(&database, &["scylla.q"]);
    s.submit("other");
    s.submit("q");
    assert_eq!(next(&mut l), on("scylla.q"));
    s.submit_many("q", 100);
    assert_eq!(next(&mut l), on("scylla.q"), "again, though the queue was not empty");
    heard(&mut l, milliseconds(100));
    let lease = s.own_one("q");
    s.return_task(&lease, "yield").unwrap();
    assert_eq!(next(&mut l), on("scylla.q"), "a yield");
    s.run("begin");
    s.own_one("q");
    s.run("rollback");
    assert_eq!(next(&mut l), on("scylla.q"), "a rollback of owning");
    s.own_one_with("q", "timeout => '100 ms'");
    assert_eq!(next(&mut l), on("scylla.q"), "an expiry");
    assert_eq!(heard(&mut l, milliseconds(100)), []);
}

#[test]
fn any_name_of_a_queue_is_a_channel() {
    let database = database();
    let mut s = database.connect();
    for queue in ["ä'%_ Q", &"x".repeat(48), "a.b"] {
        let mut l = listening(&database, &[&format!("scylla.{queue}")]);
        s.submit(queue);
        assert_eq!(next(&mut l), on(&format!("scylla.{queue}")));
    }
    let mut l = listening(&database, &["scylla.a\"\"b"]);
    s.submit("a\"b");
    assert_eq!(next(&mut l), on("scylla.a\"b"));
}

/// B78, I2: the scheduler sends no notification for changes that rolled back.
#[test]
fn a_rollback_sends_no_notification() {
    let database = database();
    let mut s = database.connect();
    let id = s.submit_with("ends", "post_result => true");
    let lease = s.own_one("ends");
    let mut l = listening(&database, &["scylla.q", "scylla_result"]);
    let both = format!("select scylla.submit('q'), scylla.return_task('{id}', '{}')", lease.token);
    s.run(&format!("begin; {both}; rollback"));
    s.run(&format!("begin; savepoint a; {both}; rollback to a; commit"));
    assert_eq!(heard(&mut l, milliseconds(200)), []);
    s.run(&both);
    let all: HashSet<_> = next_ones(&mut l, 2).into_iter().collect();
    assert_eq!(all, HashSet::from([on("scylla.q"), ("scylla_result".to_owned(), id.to_string())]));
}

/// The scheduler sends at most one notification for each queue and interval, however many tasks are
/// submitted.
#[test]
fn notifications_are_coalesced() {
    let server = Server::start(&["scylla.notify_interval = '100 ms'"]);
    let database = server.database();
    let mut l = listening(&database, &["scylla.a", "scylla.b"]);
    let mut s = database.connect();
    let started = Instant::now();
    for _ in 0..500 {
        s.submit("a");
        s.submit("b");
    }
    let most = started.elapsed().as_millis() as usize / 100 + 2;
    let all = next_ones(&mut l, 2);
    for channel in ["scylla.a", "scylla.b"] {
        let count = all.iter().filter(|it| it.0 == channel).count();
        assert!((1..=most).contains(&count), "{count} times, {most} at most");
    }
}

/// B79: the scheduler sends the id of each settled task with `post_result`, however it was settled.
#[test]
fn results_are_notified_by_their_ids() {
    let database = database();
    let mut s = database.connect();
    let mut l = listening(&database, &["scylla_result"]);
    let mut expected = HashSet::new();
    for (status, options) in [
        ("completed", "post_result => true"),
        ("aborted", "post_result => true"),
        ("retry", "post_result => true, max_tries => 1"),
        ("completed", "post_result => false"),
    ] {
        let id = s.submit_with("q", options);
        let lease = s.own_one("q");
        s.return_task(&lease, status).unwrap();
        if options.contains("true") {
            expected.insert(id.to_string());
        }
    }
    let id = s.submit_with("q", "post_result => true");
    s.cancel(id);
    expected.insert(id.to_string());
    let id = s.submit_with("q", "post_result => true, max_tries => 1, timeout => '50 ms'");
    s.own_one("q");
    expected.insert(id.to_string());
    // the dependents that are aborted with it
    let root = s.submit("root");
    let after = format!("after => array['{root}'::uuid], post_result => true");
    expected.insert(s.submit_with("q", &after).to_string());
    let lease = s.own_one("root");
    s.return_task(&lease, "aborted").unwrap();
    let all = next_ones(&mut l, expected.len());
    assert_eq!(all.len(), expected.len());
    assert_eq!(all.into_iter().map(|it| it.1).collect::<HashSet<_>>(), expected);

    // more than the scheduler sends in one transaction
    let sql = "select id from scylla.submit_tasks((select jsonb_agg(jsonb_build_object(
        'queue', 'many', 'post_result', true)) from generate_series(1, 10000)))";
    s.run(sql);
    let done = "select count(scylla.return_tasks(array[id], array[token])) from scylla.own_tasks('w', 'many', 10000)";
    s.run(done);
    let all = next_ones(&mut l, 10_000);
    assert_eq!(all.into_iter().map(|it| it.1).collect::<HashSet<_>>().len(), 10_000);
}

/// While no call is made, the scheduler writes nothing and sleeps.
#[test]
fn an_idle_server_is_idle() {
    // With wal_level minimal, no snapshots for a standby.
    let server = Server::start(&[
        "autovacuum = off",
        "checkpoint_timeout = '1 h'",
        "wal_level = minimal",
        "max_wal_senders = 0",
    ]);
    let database = server.database();
    let mut s = database.connect();
    let _l = listening(&database, &["scylla.q", "scylla_result"]);
    s.submit("q");
    let worker = database.scheduler();
    sleep(seconds(2));
    let look =
        "select pg_current_wal_insert_lsn() || ' ' || pg_snapshot_xmax(pg_current_snapshot())";
    let (before, ticks) = (s.text(look), processor_time(worker));
    sleep(seconds(2));
    assert_eq!(s.text(look), before);
    assert!(processor_time(worker) - ticks <= 3, "ticks of 10 ms, of 200");
}

/// A session's NOTIFY waits for a standby in its commit, so that no other session can send
/// notifications meanwhile. Tasks and leases are not delayed, the log is not flooded, and pending
/// notifications are kept.
#[test]
fn a_blocked_notification_queue_delays_no_task() {
    let server =
        Server::start(&["synchronous_standby_names = 'missing'", "synchronous_commit = local"]);
    let database = server.database();
    let mut s = database.connect();
    let mut l = listening(&database, &["scylla.q"]);
    let mut blocker = server.connect();
    let pid = blocker.pid;
    let blocked = thread::spawn(move || {
        let _ = blocker.batch_execute(
            "set synchronous_commit = on; create table something (); notify something",
        );
    });
    eventually(seconds(5), "the notification waits", || {
        let look =
            "select count(*) from pg_stat_activity where pid = $1 and wait_event = 'SyncRep'";
        (s.value::<i64>(look, &[&pid]) == 1).then_some(())
    });
    let lines = server.log().lines().count();
    let mut times = [(); 5].map(|_| {
        let started = Instant::now();
        s.submit("q");
        s.own_one_with("q", "timeout => '100 ms'");
        eventually(seconds(1), "the lease expires", || (s.tasks("ready") == 1).then_some(()));
        let lease = s.own_one("q");
        s.complete(&lease);
        let queues = "select count(*) from pg_locks where not granted";
        assert_eq!(s.count(queues), 0, "no process queues for the lock");
        started.elapsed()
    });
    // A scheduler that waits for the lock gives up after a second or never.
    times.sort_unstable();
    assert!(times[2] < seconds(1), "{times:?}");
    assert!(server.log().lines().count() < lines + 5);
    assert_eq!(heard(&mut l, milliseconds(100)), []);
    s.value::<bool>("select pg_cancel_backend($1)", &[&pid]);
    blocked.join().unwrap();
    assert_eq!(next(&mut l), on("scylla.q"));
}
