//! Each database with the extension has one scheduler, however any process of scylla ends.

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

/// Asserts that during `time` each database always has one scheduler, and the server one launcher.
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

/// Asserts that the scheduler works: a lease expires, and a task fires.
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

/// A launcher that starts finds the running schedulers, and adopts them.
#[test]
fn launcher_that_ends_leaves_the_schedulers_as_they_are() {
    let server = Server::start(&[]);
    let databases = [server.database(), server.database()];
    let all: Vec<&Database> = databases.iter().collect();
    until_all_are_back(&server, &all);
    let before: Vec<_> = all.iter().map(|it| it.schedulers()).collect();
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGTERM] {
        // A launcher may ignore a cancel: it runs no query to cancel.
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
    // An adopted scheduler that ends is started again at once: a launcher that is not told looks
    // once in 5 s, as it did just now.
    let times: Vec<Duration> = all
        .iter()
        .zip(&before)
        .map(|(database, old)| {
            server.signal(old[0], libc::SIGTERM);
            let begun = Instant::now();
            eventually(seconds(10), "there is another scheduler", || {
                database.schedulers().iter().any(|pid| *pid != old[0]).then_some(())
            });
            begun.elapsed()
        })
        .collect();
    assert!(times.iter().any(|it| *it < seconds(3)), "{times:?}");
    all.iter().for_each(|database| assert_duties_are_done(database));
    assert_one_scheduler_each(&server, &all, milliseconds(200));
    server.assert_log_is_clean();
}

/// A database is dropped at once, even after the launcher that started its scheduler has ended.
#[test]
fn database_with_an_adopted_scheduler_is_dropped_at_once() {
    let server = Server::start(&[]);
    let database = server.database();
    database.scheduler();
    for _ in 0..2 {
        server.replace_launcher(libc::SIGTERM);
        server.call_launcher();
    }
    // With a scheduler in it, it would fail.
    server.connect().run(&format!("drop database {}", database.name));
    // The drop does not need a launcher.
    let database = server.database();
    database.scheduler();
    server.launchers().iter().for_each(|pid| server.signal(*pid, libc::SIGTERM));
    server.connect().run(&format!("drop database {}", database.name));
}

/// While a database allows no connections, its scheduler goes on, and no second one is started
/// later.
#[test]
fn database_that_takes_no_connections_keeps_its_scheduler() {
    let server = Server::start(&[]);
    let database = server.database();
    let before = database.scheduler();
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
    // A scheduler that ends meanwhile is back as soon as it can connect.
    s.run(&format!("alter database {} allow_connections false", database.name));
    server.signal(before, libc::SIGTERM);
    eventually(seconds(5), "it has ended", || database.schedulers().is_empty().then_some(()));
    server.call_launcher();
    s.run(&format!("alter database {} allow_connections true", database.name));
    server.call_launcher();
    assert_one_scheduler_each(&server, &[&database], milliseconds(200));
    assert_duties_are_done(&database);
}

/// 33, 34: when `extend` returns true, the lease can be returned, however close its deadline was,
/// also after the launcher has ended.
#[test]
fn extended_lease_can_be_returned_after_the_launcher_ends() {
    let server = Server::start(&[]);
    let database = server.database();
    database.scheduler();
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

/// Extends leases close to their deadline and returns those that `extend` was true for. Returns the
/// errors.
fn race_deadlines(database: &Database, queue: &str) -> Vec<String> {
    let mut s = database.connect();
    let mut lies = Vec::new();
    for round in 0..150 {
        s.submit(queue);
        let lease = s.own_one_with(queue, "timeout => '8 ms'");
        let left = Duration::from_secs_f64(lease.seconds_left.unwrap().max(0.0));
        sleep(left + Duration::from_micros(round * 137 % 1_500));
        if s.extend_with(&lease, "timeout => '10 s'")
            && let Err(error) = s.return_task(&lease, "completed")
        {
            lies.push(error.as_db_error().expect("the server's").to_string());
        }
        // The tasks of lost leases are ready.
        s.own("w", queue, 9).iter().for_each(|lease| drop(s.return_task(lease, "completed")));
    }
    lies
}

/// However and whenever scylla's processes are ended, each database has one scheduler afterwards,
/// the slots of background workers are free again, and the schedulers work.
#[test]
fn any_end_of_any_process_leaves_one_scheduler_a_database() {
    let server = Server::start(&["max_worker_processes = 8"]);
    let databases = [server.database(), server.database()];
    let all: Vec<&Database> = databases.iter().collect();
    let mut s = server.connect();
    let workers = "select pid from pg_stat_activity where backend_type like 'scylla%'";
    for burst in 0..8_u64 {
        until_all_are_back(&server, &all);
        // From one process up to all of them.
        for blow in 0..=burst {
            let mix = burst * 6 + blow;
            let rows = s.query(workers, &[]).expect("the workers");
            let pids: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
            // One of them, or sometimes all at once.
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
            // The start of a process takes some milliseconds.
            sleep(Duration::from_micros(mix * 7_919 % 40_000));
        }
    }
    assert_one_scheduler_each(&server, &all, milliseconds(1_500));
    all.iter().for_each(|database| assert_duties_are_done(database));
    let pids: HashSet<i32> = all.iter().flat_map(|it| it.schedulers()).collect();
    assert_eq!(pids.len(), 2);
    // The slots of ended processes are free: other databases get them.
    let more: Vec<Database> = (0..3).map(|_| server.database()).collect();
    more.iter().for_each(|database| assert!(database.scheduler() > 0));
    server.assert_log_is_clean();
}

/// A refresh that is asked for while the board is being built, after the tables were read, finds
/// what was inserted meanwhile.
#[test]
fn refresh_while_the_board_is_built_is_not_lost() {
    let server = Server::start(&[]);
    let database = server.database();
    let insert = "insert into scylla.task
        (id, queue, action, priority, ready, post_result, created, updated, spec)
        select gen_random_uuid(), queue, '', 0, true, false, now(), now(), '{}' from ";
    let many = "(select 'q' || n from generate_series(1, 25000) n) q (queue)";
    database.connect().run(&format!("{insert} {many}"));
    // The build reads the table through the index, and holds it until it has ended.
    let is_building = "select count(*) from pg_locks join pg_stat_activity using (pid)
        where relation = 'scylla.task_lane'::regclass and backend_type = 'scylla scheduler'";
    for round in 0..20 {
        let queue = format!("late {round}");
        server.stop("fast");
        server.start_again();
        let mut s = database.connect();
        let begun = Instant::now();
        while s.count(is_building) == 0 && begun.elapsed() < seconds(5) {}
        s.run(&format!("{insert} (values ('{queue}')) q (queue)"));
        s.run("select scylla.refresh()");
        let was_in_time = s.count(is_building) > 0;
        eventually(seconds(20), "the task is found", || {
            (s.own("w", &queue, 1).len() == 1).then_some(())
        });
        if was_in_time {
            return;
        }
    }
    panic!("the board was built before the refresh each time");
}
