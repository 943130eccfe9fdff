//! The life of the server: settings, shutdown, and schedulers that end, cannot start, or must not
//! start.

use client::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const WORKERS: &str = "select count(*) from pg_stat_activity where backend_type like 'scylla%'";

/// A changed setting takes effect at once, even while the scheduler sleeps for an hour.
#[test]
fn settings_change_while_the_scheduler_sleeps() {
    let server =
        Server::start(&["scylla.sweep_interval = '1 h'", "scylla.persist_leases_after = '1 h'"]);
    let database = server.database();
    let mut s = database.connect();
    s.submit("q");
    let lease = s.own_one_with("q", "timeout => '1 hour'");
    let written = "select count(*) from scylla.lease";
    sleep(milliseconds(300));
    assert_eq!(s.count(written), 0);
    server.configure("scylla.persist_leases_after", "10 ms");
    eventually(seconds(1), "the lease is written", || (s.count(written) == 1).then_some(()));
    // So does the length of a lease for an owner.
    server.configure("scylla.lease_timeout", "77 s");
    eventually(seconds(1), "the length of a lease changes", || {
        s.submit("q");
        let left = s.own_one("q").seconds_left.unwrap();
        (70.0..=77.0).contains(&left).then_some(())
    });
    assert!(s.extend(&lease));
}

/// How long a fast shutdown takes without the extension, while nine sessions compute.
fn plain_shutdown() -> Duration {
    let server = Server::start(&["shared_preload_libraries = ''"]);
    let sessions: Vec<_> = (0..9).map(|_| server.connect()).collect();
    std::thread::scope(|scope| {
        for mut s in sessions {
            scope
                .spawn(move || _ = s.batch_execute("do $$ begin loop perform 1; end loop; end $$"));
        }
        sleep(milliseconds(500));
        let begun = Instant::now();
        server.stop("fast");
        begun.elapsed()
    })
}

/// I9: a fast shutdown under load takes less than three seconds, where one without the extension
/// takes no time.
#[test]
fn fast_shutdown_takes_less_than_three_seconds_under_load() {
    let server = Server::start(&[]);
    let databases: Vec<Database> = (0..3).map(|_| server.database()).collect();
    databases.iter().for_each(|database| drop(database.connect().submit_many("full", 5_000)));
    let ended = AtomicBool::new(false);
    let took = std::thread::scope(|scope| {
        for database in databases.iter().flat_map(|database| [database; 3]) {
            let ended = &ended;
            scope.spawn(move || {
                let mut s = database.connect();
                let sql = "select count(scylla.return_task(id, token)) from scylla.own_tasks('w', 'full', 50, timeout => '50 ms')";
                // On a slow machine, leases may end before their tasks are returned.
                let is_late = |error| ["55000", "55006"].contains(&&*code(&error));
                while s.query(sql, &[]).map_or_else(is_late, |_| true) {
                    let batch = "select count(*) from scylla.submit_tasks(
                        (select jsonb_agg('{\"queue\": \"full\"}'::jsonb) from generate_series(1, 50)))";
                    let _ = s.query(batch, &[]);
                }
                assert!(ended.load(Ordering::Relaxed) || s.is_dead());
            });
        }
        sleep(milliseconds(500));
        ended.store(true, Ordering::Relaxed);
        let begun = Instant::now();
        server.stop("fast");
        begun.elapsed()
    });
    let plain = plain_shutdown();
    assert!(took < seconds(3) + 5 * plain, "took {took:?}, and {plain:?} without the extension");
    server.start_again();
    databases.iter().for_each(|database| assert!(database.scheduler() > 0));
    server.assert_log_is_clean();
}

/// B61: a scheduler that ended is started again within a second. For one that keeps dying, the
/// pause grows.
#[test]
fn ended_scheduler_is_back_within_a_second() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    s.submit("q");
    let lease = s.own_one_with("q", "timeout => '1 hour'");
    let mut other = server.connect();
    let times = [(); 3].map(|_| {
        let pid = database.scheduler();
        sleep(milliseconds(600));
        other.value::<bool>("select pg_terminate_backend($1)", &[&pid]);
        let begun = Instant::now();
        eventually(seconds(3), "a scheduler runs", || (database.scheduler() != pid).then_some(()));
        begun.elapsed()
    });
    // A launcher that is not told looks 5 s after it has started one.
    assert!(times.iter().any(|it| *it < seconds(3)), "{times:?}");
    assert!(s.extend(&lease));

    // Without this file no new session can connect to the database.
    let oid = s.text("select oid::text from pg_database where datname = current_database()");
    let [file, aside] = ["PG_VERSION", "aside"].map(|it| server.path(&format!("base/{oid}/{it}")));
    std::fs::rename(&file, &aside).unwrap();
    let before = server.log().matches("FATAL").count();
    other.value::<bool>("select pg_terminate_backend($1)", &[&database.scheduler()]);
    sleep(milliseconds(2_500));
    let died = eventually(seconds(3), "it is started again and again", || {
        Some(server.log().matches("FATAL").count() - before).filter(|died| *died >= 3)
    });
    assert!(died <= 12, "it was started {died} times");
    std::fs::rename(&aside, &file).unwrap();
    eventually(seconds(10), "a scheduler runs", || {
        (other.value::<i64>("select count(*) from pg_stat_activity where datname = $1 and backend_type = 'scylla scheduler'", &[&database.name]) == 1)
            .then_some(())
    });
    assert!(s.extend(&lease));
}

/// Without a scheduler, owning and returning go on, and the next caller finds expired leases.
fn serves_without_a_scheduler(server: &Server, database: &Database, held: &Lease) {
    let mut s = database.connect();
    assert!(
        server
            .connect()
            .count("select count(*) from pg_stat_activity where backend_type = 'scylla scheduler'")
            == 0
    );
    assert!(s.extend(held), "the caller builds the board, with the persisted leases");
    s.complete(held);
    let id = s.submit("q");
    let lease = s.own_one("q");
    assert_eq!(lease.id, id);
    s.complete(&lease);
    // B102, B106, B107, B108: the next caller finds it.
    let id = s.submit("q");
    let lost = s.own_one_with("q", "timeout => '100 ms'");
    let mut other = database.connect();
    sleep(milliseconds(150));
    let again = eventually(seconds(2), "it is offered again", || other.own("w2", "q", 1).pop());
    assert_eq!((again.id, again.tries), (id, 2));
    assert_eq!(other.history(id), ["Assignment", "Timeout", "Assignment"]);
    assert_eq!(s.not_returned(&lost).code().code(), "55006");
    other.complete(&again);
    // A rollback of that caller undoes the expiry, and loses nothing.
    let id = s.submit("q");
    s.own_one_with("q", "timeout => '50 ms'");
    sleep(milliseconds(60));
    s.run("begin");
    s.own("w", "q", 1);
    s.run("rollback");
    let again = eventually(seconds(2), "it is offered again", || s.own("w", "q", 1).pop());
    assert_eq!((again.id, s.history(id).len()), (id, 3));
    s.complete(&again);
    // The next caller also finds due tasks.
    let id = s.submit_with("due", "run_at => clock_timestamp() + interval '1 s'");
    assert!(s.own("w", "due", 1).is_empty());
    let lease = eventually(milliseconds(2_900), "it fires", || other.own("w", "due", 1).pop());
    assert_eq!(lease.id, id);
    other.complete(&lease);
    // The last try.
    let id = s.submit_with("q", "max_tries => 1");
    s.own_one_with("q", "timeout => '50 ms'");
    sleep(milliseconds(60));
    assert!(s.own("w", "q", 1).is_empty());
    assert_eq!(s.status(id), "aborted");
    // A caller with an older snapshot would fail on rows changed since: it leaves the expired
    // leases to others.
    s.run("begin isolation level repeatable read");
    assert!(s.own("w", "q", 1).is_empty());
    s.run("commit");
}

/// I1: without background workers, owning and returning go on, and no lease that was persisted is
/// lost.
#[test]
fn owning_and_returning_go_on_without_workers() {
    let server = Server::start(&["scylla.persist_leases_after = '10 ms'"]);
    let database = server.database();
    for (workers, launcher) in [(2, 1), (0, 0)] {
        let mut s = database.connect();
        s.submit("held");
        let held = s.own_one_with("held", "timeout => '1 hour'");
        eventually(seconds(5), "the lease is written", || {
            s.value::<bool>("select exists (select from scylla.lease where id = $1)", &[&held.id])
                .then_some(())
        });
        drop(s);
        server.stop("fast");
        let before = server.log().len();
        server.start_with(&[&format!("max_worker_processes = {workers}")]);
        let count = "select count(*) from pg_stat_activity where backend_type = 'scylla launcher'";
        eventually(seconds(3), "the launcher", || {
            (server.connect().count(count) == launcher).then_some(())
        });
        serves_without_a_scheduler(&server, &database, &held);
        let log = server.log().split_off(before);
        let warning =
            log.lines().position(|it| it.contains("WARNING:  the scylla scheduler of database"));
        let warning = warning.unwrap_or_else(|| panic!("a warning in {log}"));
        let hint = log.lines().skip(warning).take(3).find(|it| it.contains("HINT:"));
        assert!(hint.is_some_and(|hint| hint.contains("max_worker_processes")), "{log}");
        // A transaction that has written cannot build the board.
        server.stop("fast");
        server.start_with(&["max_worker_processes = 40"]);
        eventually(seconds(5), "its scheduler is back", || {
            (database.connect().count(WORKERS) >= 2).then_some(())
        });
    }
    server.assert_log_is_clean();
}

/// I9, B81: in a database without schedulers, due tasks fire for a caller that asks for work, since
/// this call shows that the database is in use.
#[test]
fn tasks_fire_for_a_caller_after_a_restart_without_workers() {
    let server = Server::start(&["max_worker_processes = 0"]);
    let database = server.database();
    let mut s = database.connect();
    s.run("select scylla.open()");
    s.run("select scylla.submit('q', run_at => clock_timestamp() + '1 s')");
    drop(s);
    server.stop("fast");
    server.start_with(&[]);
    let mut s = database.connect();
    assert!(!s.value::<bool>("select used from scylla.incarnation", &[]));
    eventually(seconds(10), "the task is owned", || s.own("w", "q", 1).pop());
}

/// pg_upgrade starts no scheduler, and the database is open afterwards.
#[test]
fn binary_upgrade_starts_no_scheduler() {
    let server = Server::start(&[]);
    let database = server.database();
    let id = database.connect().submit("q");
    database.scheduler();
    server.restart_for_upgrade();
    let mut s = server.connect();
    for _ in 0..10 {
        assert_eq!(s.count(WORKERS), 0);
        sleep(milliseconds(100));
    }
    server.stop("fast");
    server.start_again();
    assert_eq!(database.connect().own_one("q").id, id);
}

/// The launcher starts no scheduler for a database that is being dropped.
#[test]
fn dropping_databases_leaves_the_log_quiet() {
    let server = Server::start(&[]);
    let mut s = server.connect();
    for _ in 0..3 {
        let database = server.database();
        database.connect().submit("q");
        database.scheduler();
        s.run(&format!("drop database {}", database.name));
    }
    s.run("create database renamed");
    s.run("begin; alter database renamed rename to again; rollback");
    sleep(milliseconds(500));
    let log = server.log();
    let noise =
        |line: &&str| line.contains("FATAL") && !line.contains("due to administrator command");
    let noise: Vec<&str> = log.lines().filter(noise).collect();
    assert!(noise.is_empty(), "{noise:#?}");
}

/// I10: neither a row that cannot be written nor the index that refuses it stops the scheduler.
#[test]
fn scheduler_survives_a_bad_row() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    let bad = s.submit_with("q", "action => 'bad'");
    let ids = s.submit_many("q", 30);
    s.run(
        "create function public.refuse(action text, updated timestamptz, created timestamptz)
             returns boolean language plpgsql immutable as $$ begin
                 if action = 'bad' and updated > created then raise exception 'no'; end if;
                 return true;
             end $$;
         create index refuse on scylla.task (public.refuse(action, updated, created))",
    );
    let pid = database.scheduler();
    s.own_with("w", "q", 50, "timeout => '100 ms'");
    eventually(seconds(10), "the others are ready again", || {
        let ready = s.value::<i64>(
            "select count(*) from scylla.tasks where status = 'ready' and id = any ($1)",
            &[&ids],
        );
        (ready == 30).then_some(())
    });
    eventually(seconds(5), "it is quarantined and named", || {
        server
            .log()
            .contains(&format!("scylla could not expire the lease of task {bad}"))
            .then_some(())
    });
    assert_eq!(database.scheduler(), pid, "the same scheduler");
}
