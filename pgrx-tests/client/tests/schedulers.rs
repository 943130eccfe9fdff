//! One scheduler for each database that has the extension, however any of scylla's processes ends.

use client::*;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// Waits until each database has one scheduler, and the server one launcher.
#[track_caller]
fn until_all_are_back(server: &Server, databases: &[&Database]) {
    eventually(seconds(20), "one launcher, and one scheduler for each database", || {
        let one = |database: &&Database| database.schedulers().len() == 1;
        (server.launchers().len() == 1 && databases.iter().all(one)).then_some(())
    });
}

/// Each database has one scheduler at every moment of a while, and there is one launcher.
#[track_caller]
fn assert_one_scheduler_each(server: &Server, databases: &[&Database], time: Duration) {
    until_all_are_back(server, databases);
    let begun = Instant::now();
    while begun.elapsed() < time {
        for database in databases {
            assert_eq!(database.schedulers().len(), 1, "schedulers of {}", database.name);
        }
        assert_eq!(server.launchers().len(), 1, "launchers");
        sleep(milliseconds(20));
    }
}

/// The database's duties are done: a lease expires, and a task fires.
#[track_caller]
fn assert_duties_are_done(database: &Database) {
    let mut s = database.connect();
    let lost = s.submit("duties");
    s.own_one_with("duties", "timeout => '50 ms'");
    let later = s.submit_with("later", "run_at => clock_timestamp() + interval '50 ms'");
    for id in [lost, later] {
        eventually(seconds(5), "it is ready", || (s.status(id) == "ready").then_some(()));
        s.cancel(id);
    }
}

/// A launcher that starts finds the schedulers that run, and adopts them.
#[test]
fn launcher_that_ends_leaves_the_schedulers_as_they_are() {
    let server = Server::start(&["fsync = off"]);
    let databases = [server.database(), server.database()];
    let all: Vec<&Database> = databases.iter().collect();
    until_all_are_back(&server, &all);
    let before: Vec<_> = all.iter().map(|it| it.schedulers()).collect();
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGTERM] {
        // A launcher may let a cancel pass: there is nothing to cancel.
        if signal == libc::SIGTERM {
            server.replace_launcher(signal);
        } else {
            server.launchers().iter().for_each(|pid| server.signal(*pid, signal));
            sleep(milliseconds(1_500));
        }
        server.call_launcher();
        sleep(milliseconds(200));
        let now: Vec<_> = all.iter().map(|it| it.schedulers()).collect();
        assert_eq!(now, before, "after signal {signal}");
    }
    // An adopted one that ends is started again at once.
    for (database, old) in all.iter().zip(&before) {
        server.signal(old[0], libc::SIGTERM);
        let begun = Instant::now();
        eventually(seconds(10), "there is another scheduler", || {
            database.schedulers().iter().any(|pid| *pid != old[0]).then_some(())
        });
        assert!(begun.elapsed() < seconds(2), "took {:?}", begun.elapsed());
        assert_duties_are_done(database);
    }
    assert_one_scheduler_each(&server, &all, milliseconds(200));
    server.assert_log_is_clean();
}

/// A database is dropped at once though the launcher that started its scheduler is gone.
#[test]
fn database_with_an_adopted_scheduler_is_dropped_at_once() {
    let server = Server::start(&["fsync = off"]);
    let database = server.database();
    database.worker();
    for _ in 0..2 {
        server.replace_launcher(libc::SIGTERM);
        server.call_launcher();
    }
    let begun = Instant::now();
    server.connect().run(&format!("drop database {}", database.name));
    assert!(begun.elapsed() < seconds(3), "took {:?}", begun.elapsed());
    // Nor does it take a launcher.
    let database = server.database();
    database.worker();
    server.launchers().iter().for_each(|pid| server.signal(*pid, libc::SIGTERM));
    let begun = Instant::now();
    server.connect().run(&format!("drop database {}", database.name));
    assert!(begun.elapsed() < seconds(3), "took {:?}", begun.elapsed());
}

/// While a database takes no connections its scheduler goes on, and no other is started after.
#[test]
fn database_that_takes_no_connections_keeps_its_scheduler() {
    let server = Server::start(&["fsync = off"]);
    let database = server.database();
    let before = database.worker();
    let mut s = server.connect();
    for _ in 0..3 {
        s.run(&format!("alter database {} allow_connections false", database.name));
        server.call_launcher();
        sleep(milliseconds(200));
        s.run(&format!("alter database {} allow_connections true", database.name));
        server.call_launcher();
        sleep(milliseconds(200));
        assert_eq!(database.schedulers(), [before]);
    }
    // One that ends meanwhile is back as soon as it can connect.
    s.run(&format!("alter database {} allow_connections false", database.name));
    server.signal(before, libc::SIGTERM);
    eventually(seconds(5), "it has ended", || database.schedulers().is_empty().then_some(()));
    server.call_launcher();
    s.run(&format!("alter database {} allow_connections true", database.name));
    server.call_launcher();
    assert_one_scheduler_each(&server, &[&database], milliseconds(200));
    assert_duties_are_done(&database);
}

/// 33, 34: what `extend` says holds, though the launcher has ended: the lease that it was true for can
/// be returned, however close to its deadline that was.
#[test]
fn extend_is_true_to_its_word_after_the_launcher_ends() {
    let server = Server::start(&["fsync = off"]);
    let database = server.database();
    database.worker();
    for _ in 0..2 {
        server.replace_launcher(libc::SIGTERM);
        server.call_launcher();
    }
    let mut lies = Vec::new();
    std::thread::scope(|scope| {
        let races: Vec<_> = (0..4)
            .map(|n| {
                let database = &database;
                scope.spawn(move || race_deadlines(database, &format!("q{n}")))
            })
            .collect();
        races.into_iter().for_each(|race| lies.extend(race.join().expect("a race")));
    });
    assert!(lies.is_empty(), "{} lies, such as {:?}", lies.len(), lies[0]);
}

/// Extends leases in the moment of their deadline and returns what `extend` was true for; what could
/// not be returned.
fn race_deadlines(database: &Database, queue: &str) -> Vec<String> {
    let mut s = database.connect();
    let mut lies = Vec::new();
    for round in 0..150 {
        s.submit(queue);
        let lease = s.own_one_with(queue, "timeout => '8 ms'");
        let left = Duration::from_secs_f64(lease.seconds_left.unwrap().max(0.0));
        sleep(left + Duration::from_micros(round * 137 % 1_500));
        if s.extend_with(&lease, "timeout => '10 s'")
            && let Err(error) = s.give(&lease, "completed")
        {
            lies.push(error.as_db_error().expect("the server's").to_string());
        }
        // What was lost is ready.
        s.own("w", queue, 9).iter().for_each(|lease| drop(s.give(lease, "completed")));
    }
    lies
}

/// However its processes are ended, and at whatever point of their start and end, one scheduler a
/// database remains, no place of a background worker is lost, and the duties are done.
#[test]
fn any_end_of_any_process_leaves_one_scheduler_a_database() {
    let server = Server::start(&["max_worker_processes = 8", "fsync = off"]);
    let databases = [server.database(), server.database()];
    let all: Vec<&Database> = databases.iter().collect();
    let mut s = server.connect();
    let workers = "select pid from pg_stat_activity where backend_type like 'scylla%'";
    for burst in 0..8_u64 {
        until_all_are_back(&server, &all);
        // From a single one to as many as end all that there are.
        for blow in 0..=burst {
            let mix = burst * 6 + blow;
            let rows = s.query(workers, &[]).expect("the workers");
            let pids: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
            // One of them, or now and then all at once.
            let one = pids.iter().skip(mix as usize * 5 % pids.len().max(1)).take(1);
            let some: Vec<&i32> = if mix % 16 == 7 { pids.iter().collect() } else { one.collect() };
            for pid in some {
                let how = ["pg_terminate_backend", "pg_cancel_backend"][(mix % 2) as usize];
                match mix % 4 {
                    0 | 1 => drop(s.query(&format!("select {how}($1)"), &[pid])),
                    2 => server.signal(*pid, libc::SIGTERM),
                    _ => server.signal(*pid, libc::SIGINT),
                }
            }
            // A worker's start takes some milliseconds.
            sleep(Duration::from_micros(mix * 7_919 % 40_000));
        }
    }
    assert_one_scheduler_each(&server, &all, milliseconds(1_500));
    all.iter().for_each(|database| assert_duties_are_done(database));
    let pids: HashSet<i32> = all.iter().flat_map(|it| it.schedulers()).collect();
    assert_eq!(pids.len(), 2);
    // The places of all those that ended are free: other databases get theirs.
    let more: Vec<Database> = (0..3).map(|_| server.database()).collect();
    more.iter().for_each(|database| assert!(database.worker() > 0));
    server.assert_log_is_clean();
}
