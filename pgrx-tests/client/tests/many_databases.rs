//! More databases than slots for background workers.

use client::*;

/// Databases that use scylla get the slots. The launcher inspects the others one by one, without a
/// warning.
#[test]
fn databases_without_the_extension_delay_no_other() {
    let server = Server::start(&["max_worker_processes = 4"]);
    let mut s = server.connect();
    (0..16).for_each(|n| s.run(&format!("create database bare_{n} template template0")));
    let used = [server.database(), server.database()];
    used.iter().for_each(|database| assert!(database.scheduler() > 0));
    drop(s);
    server.stop("fast");
    let before = server.log().len();
    server.start_again();
    // The launcher has inspected none since; the database of the caller comes first.
    for database in &used {
        let mut s = database.connect();
        assert!(s.own("w", "q", 1).is_empty());
        database.scheduler();
    }
    let log = server.log().split_off(before);
    let warnings: Vec<&str> = log.lines().filter(|it| it.contains("WARNING")).collect();
    assert!(warnings.is_empty(), "{warnings:#?}");
}

/// After a start the launcher inspects every database: one with the extension gets its scheduler
/// without a call, and an expired lease ends.
#[test]
fn every_database_is_inspected_after_a_start() {
    let server =
        Server::start(&["max_worker_processes = 3", "scylla.persist_leases_after = '10 ms'"]);
    let mut s = server.connect();
    (0..12).for_each(|n| s.run(&format!("create database bare_{n} template template0")));
    let database = server.database();
    let mut d = database.connect();
    let id = d.submit("q");
    d.own_one_with("q", "timeout => '500 ms'");
    d.until_leases_are_written(1);
    drop((s, d));
    server.kill();
    let before = server.log().len();
    server.start_again();
    let history = format!("select jsonb_array_length(history) from scylla.task where id = '{id}'");
    let mut d = database.connect();
    eventually(seconds(5), "the lease expires", || {
        (d.value::<i32>(&history, &[]) == 2).then_some(())
    });
    let log = server.log().split_off(before);
    assert!(!log.contains("WARNING"), "{log}");
}

/// The log names each database that has the extension and gets no scheduler, at intervals. It gets
/// one when a slot is free.
#[test]
fn databases_that_find_no_place_are_named_and_served_later() {
    let server = Server::start(&["max_worker_processes = 3"]);
    let first = server.database();
    first.scheduler();
    let others = [server.database(), server.database()];
    let told = |database: &Database| {
        let line = format!(
            "WARNING:  the scylla scheduler of database \"{}\" is not running",
            database.name
        );
        let log = server.log();
        log.lines().filter(|it| it.contains("scylla launcher") && it.contains(&line)).count()
    };
    let mut sessions = others.each_ref().map(Database::connect);
    eventually(seconds(10), "they are named", || {
        sessions.iter_mut().for_each(|s| _ = s.own("w", "q", 1));
        others.iter().all(|it| told(it) > 0).then_some(())
    });
    for _ in 0..20 {
        sessions.iter_mut().for_each(|s| _ = s.own("w", "q", 1));
        sleep(milliseconds(50));
    }
    assert_eq!(others.each_ref().map(told), [1, 1], "once in a while");
    drop(sessions);
    server.connect().run(&format!("drop database {}", first.name));
    let served = || others.iter().any(|it| !it.schedulers().is_empty());
    eventually(seconds(4), "one of them has its place", || served().then_some(()));
}
