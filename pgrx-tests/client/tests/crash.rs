//! After a crash every task, result, terminal status and try is there, and so are leases of some
//! age: I1.

use client::*;
use std::time::Instant;

fn server(lines: &[&str]) -> Server {
    Server::start(&[&["scylla.persist_leases_after = '200 ms'"], lines].concat())
}

/// Owns and completes tasks as they become ready, until `n` have been completed.
fn drain(database: &Database, n: usize) {
    let mut s = database.connect();
    let mut done = 0;
    eventually(seconds(30), "every task can be owned and completed", || {
        for lease in s.own("drain", "q", 100) {
            s.complete(&lease);
            done += 1;
        }
        (done >= n).then_some(())
    });
    assert_eq!((done, s.tasks("ready") + s.tasks("running")), (n, 0));
}

/// I1, I2: all uncommitted calls of a killed backend are undone.
#[test]
fn killed_backend_leaves_nothing_half_done() {
    let server = server(&[]);
    let database = server.database();
    let (mut s, mut victim) = (database.connect(), database.connect());
    let ids = s.submit_many("q", 6);
    let leases = s.own_with("w", "q", 2, "timeout => '2 s'");
    victim.run("begin");
    let extra = victim.submit("q");
    victim.own("w", "q", 2);
    victim.complete(&leases[0]);
    assert!(victim.cancel(leases[1].id));
    server.kill_process(victim.pid);
    assert!(victim.is_dead());
    let mut s = database.connect();
    assert_eq!(s.refusal("select scylla.task($1)", &[&extra]).code().code(), "P0002");
    assert_eq!(s.tasks("ready") + s.tasks("running"), 6);
    drain(&database, ids.len());
    server.assert_log_is_clean();
}

/// I1: after a crash the token of a persisted lease is valid for one full length, and no other
/// worker owns the task.
#[test]
fn lease_of_some_age_outlives_a_crash() {
    let server = server(&[]);
    let database = server.database();
    let mut s = database.connect();
    s.submit_many("q", 20);
    let leases = s.own_with("w", "q", 20, "timeout => '8 s'");
    assert!(s.extend_with(&leases[0], "timeout => '8 s', progress => 0.5"));
    s.until_leases_are_written(20);
    sleep(milliseconds(1000));
    server.kill();
    let restarted = Instant::now();
    server.start_again();
    let mut s = database.connect();
    assert!(
        s.own("thief", "q", 20).is_empty(),
        "leases are restored before any task is handed out"
    );
    assert_eq!(s.tasks("running"), 20);
    let least =
        "select min(extract(epoch from deadline - clock_timestamp()))::float8 from scylla.tasks";
    let left: f64 = s.value(least, &[]);
    let spent = restarted.elapsed().as_secs_f64();
    assert!(
        left > 7.5 - spent && left <= 8.0,
        "{left} s of 8 s left, {spent} s since the restart began"
    );
    let entry = s.entry(leases[1].id);
    assert_eq!((&entry["owner"], &entry["tries"]), (&json!("w"), &json!(1)));
    assert_eq!(s.history(leases[1].id), ["Assignment"]);
    for lease in &leases[..10] {
        assert!(s.extend(lease), "the token is valid");
        s.complete(lease);
    }
    let stolen = Lease { token: Uuid::new_v4(), ..leases[15].clone() };
    assert!(!s.extend(&stolen), "and no other is");
    let expired = eventually(seconds(10), "the other leases expire", || {
        (s.tasks("ready") == 10).then(Instant::now)
    });
    assert!(expired - restarted > seconds(7), "one full length after the restart");
    assert_eq!(s.history(leases[15].id), ["Assignment", "Timeout"]);
    drain(&database, 10);
    server.assert_log_is_clean();
}

/// I1: a crash may lose young leases, never a task.
#[test]
fn young_lease_may_be_forgotten_but_no_task_is() {
    let server = Server::start(&["scylla.persist_leases_after = '60 s'"]);
    let database = server.database();
    let mut s = database.connect();
    s.submit_many("q", 100);
    let leases = s.own_with("w", "q", 60, "timeout => '2 s'");
    leases[..10].iter().for_each(|lease| s.complete(lease));
    server.kill();
    server.start_again();
    let mut s = database.connect();
    assert_eq!((s.tasks("completed"), s.tasks("ready") + s.tasks("running")), (10, 90));
    drain(&database, 90);
}

/// I1: tries that ended by expiry are counted after a crash.
#[test]
fn tries_of_expired_leases_outlive_a_crash() {
    let server = server(&[]);
    let database = server.database();
    let mut s = database.connect();
    let id = s.submit_with("q", "max_tries => 3");
    for _ in 0..2 {
        s.own_one_with("q", "timeout => '100 ms'");
        eventually(seconds(3), "the lease expires", || (s.status(id) == "ready").then_some(()));
    }
    let before = s.entry(id);
    server.kill();
    server.start_again();
    let mut s = database.connect();
    assert_eq!(s.entry(id), before);
    assert_eq!((&before["tries"], s.history(id).len()), (&json!(2), 4));
    assert_eq!(s.own_one("q").tries, 3, "the last try");
}

/// I1: terminal statuses and results are the same after a crash.
#[test]
fn terminal_statuses_and_results_outlive_a_crash() {
    let server = server(&[]);
    let database = server.database();
    let mut s = database.connect();
    s.submit_many("q", 4);
    let leases = s.own("w", "q", 3);
    let sql = "select scylla.return_task($1, $2, result => '{\"n\": [1, 2]}')";
    s.value::<String>(sql, &[&leases[0].id, &leases[0].token]);
    s.return_task(&leases[1], "aborted").unwrap();
    s.cancel(leases[2].id);
    let waiting = s.own_one("q");
    s.return_task(&waiting, "retry").unwrap();
    let ids: Vec<Uuid> = leases.iter().map(|lease| lease.id).chain([waiting.id]).collect();
    let before: Vec<Value> = ids.iter().map(|id| s.entry(*id)).collect();
    server.kill();
    server.start_again();
    let mut s = database.connect();
    let after: Vec<Value> = ids.iter().map(|id| s.entry(*id)).collect();
    assert_eq!(after, before);
    for lease in &leases {
        assert!(!s.extend(lease));
        assert_eq!(s.not_returned(lease).code().code(), "55000");
    }
    assert_eq!(s.own_one("q").id, waiting.id);
    assert!(s.own("w", "q", 5).is_empty());
}

/// After a fast shutdown or an immediate one, no persisted lease is lost.
#[test]
fn stopped_server_goes_on_where_it_was() {
    let server = server(&[]);
    let database = server.database();
    database.connect().submit_many("q", 40);
    let mut held = Vec::new();
    for mode in ["fast", "immediate"] {
        let mut s = database.connect();
        held.extend(s.own_with("w", "q", 10, "timeout => '1 hour'"));
        s.until_leases_are_written(held.len() as i64);
        server.stop(mode);
        server.start_again();
        let mut s = database.connect();
        assert!(held.iter().all(|lease| s.extend(lease)), "{mode}");
        assert_eq!(s.tasks("ready"), 40 - held.len() as i64, "{mode}");
    }
    let mut s = database.connect();
    held.iter().for_each(|lease| s.complete(lease));
    drain(&database, 20);
    server.assert_log_is_clean();
}

/// B61, I9: a terminated scheduler ends, is started again, and expires overdue leases.
#[test]
fn terminated_scheduler_comes_back_and_goes_on() {
    let server = server(&[]);
    let database = server.database();
    let mut s = database.connect();
    for _ in 0..3 {
        let id = s.submit("q");
        s.own_one_with("q", "timeout => '300 ms'");
        server.terminate_scheduler(&database);
        database.scheduler();
        let expired = || (s.status(id) == "ready").then_some(());
        eventually(seconds(4), "expiry goes on", expired);
        let lease = s.own_one("q");
        s.complete(&lease);
    }
}

/// I1: `kill -9` of the scheduler loses the contents of shared memory and no task.
#[test]
fn killed_scheduler_loses_no_task() {
    let server = server(&[]);
    let database = server.database();
    let mut s = database.connect();
    s.submit_many("q", 30);
    let held = s.own_with("w", "q", 10, "timeout => '1 hour'");
    s.until_leases_are_written(10);
    s.own_with("w", "q", 10, "timeout => '300 ms'");
    server.kill_process(database.scheduler());
    let mut s = database.connect();
    assert!(held.iter().all(|lease| s.extend(lease)));
    held.iter().for_each(|lease| s.complete(lease));
    drain(&database, 20);
    server.assert_log_is_clean();
}

/// A terminated launcher is started again. Without it a new database would get no scheduler.
#[test]
fn terminated_launcher_comes_back() {
    let server = server(&[]);
    let mut s = server.connect();
    let launchers = "select coalesce(array_agg(pid), '{}') from pg_stat_activity where backend_type ilike '%scylla%' and datname is null";
    let pids: Vec<i32> = s.value(launchers, &[]);
    assert!(!pids.is_empty(), "a launcher without a database");
    for pid in &pids {
        s.value::<bool>("select pg_terminate_backend($1)", &[pid]);
    }
    let back =
        || s.value::<Vec<i32>>(launchers, &[]).iter().any(|pid| !pids.contains(pid)).then_some(());
    eventually(seconds(15), "the launcher is back", back);
    let database = server.database();
    database.scheduler();
}

/// B26: names of workers are unique even across a crash.
#[test]
fn worker_names_are_unique_across_a_crash() {
    let server = server(&[]);
    let database = server.database();
    let names = "select array_agg(scylla.register_worker()) from generate_series(1, 40)";
    let before: Vec<String> = database.connect().value(names, &[]);
    server.kill();
    server.start_again();
    let after: Vec<String> = database.connect().value(names, &[]);
    assert!(before.iter().all(|name| !after.contains(name)));
}
