//! The extension is created, dropped and changed directly in the tables; the scheduler follows.

use client::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Asserts that the scheduler runs: a lease of this database expires.
#[track_caller]
fn assert_scheduler_runs(database: &Database) {
    let mut s = database.connect();
    let id = s.submit("scheduler");
    s.own_one_with("scheduler", "timeout => '100 ms'");
    eventually(seconds(5), "a lease expires", || (s.status(id) == "ready").then_some(()));
    s.cancel(id);
}

/// Each database gets its scheduler at once.
#[test]
fn each_database_gets_its_scheduler() {
    let (first, second) = (database(), database());
    let (a, b) = (first.scheduler(), second.scheduler());
    assert_ne!(a, b);
    assert_scheduler_runs(&second);
    assert_scheduler_runs(&first);
}

/// DROP EXTENSION and a query of a view wait for each other in one order only.
#[test]
fn views_are_queried_while_the_extension_is_dropped() {
    let server = Server::start(&["deadlock_timeout = '50 ms'"]);
    let database = server.database();
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        for view in ["tasks", "failed", "schedules", "queues", "workers", "stats", "groups"] {
            let (database, ends) = (&database, &ends);
            scope.spawn(move || {
                let mut s = database.connect();
                while !ends.load(Ordering::Relaxed) {
                    let failed = s.query(&format!("select count(*) from scylla.{view}"), &[]).err();
                    let code = failed.as_ref().and_then(|it| it.code()).map(|it| it.code());
                    assert_ne!(code, Some("40P01"), "{view}");
                }
            });
        }
        let mut s = database.connect();
        let mut failed = Vec::new();
        for _ in 0..40 {
            for command in ["drop extension scylla", "create extension scylla"] {
                failed.extend(s.query(command, &[]).err());
            }
        }
        ends.store(true, Ordering::Relaxed);
        assert!(failed.is_empty(), "{failed:?}");
    });
    assert!(!server.log().contains("deadlock detected"));
}

/// Databases share neither queues nor tokens.
#[test]
fn databases_are_apart() {
    let (first, second) = (database(), database());
    let (mut a, mut b) = (first.connect(), second.connect());
    let id = Uuid::new_v4();
    for s in [&mut a, &mut b] {
        s.value::<Uuid>("select scylla.submit('q', id => $1)", &[&id]);
    }
    let lease = a.own_one("q");
    assert!(!b.extend(&lease));
    let other = b.own_one("q");
    assert_eq!((lease.id, other.id), (id, id));
    a.complete(&lease);
    assert_eq!(b.status(id), "running");
}

/// I12: after the extension is created again, tasks of the dropped one are unknown.
#[test]
fn extension_created_again_starts_empty() {
    let database = database();
    let mut s = database.connect();
    for round in 0..3 {
        let ids = s.submit_many("q", 30);
        let lease = s.own_one_with("q", "timeout => '300 ms'");
        let mut bystander = database.connect();
        bystander.submit("q");
        s.run("drop extension scylla; create extension scylla");
        for s in [&mut s, &mut bystander] {
            assert!(s.own("w", "q", 50).is_empty(), "round {round}");
            assert!(!s.extend(&lease));
            assert_eq!(s.not_returned(&lease).code().code(), "P0002");
        }
        assert_eq!(s.count("select count(*) from scylla.tasks"), 0);
        let reused: Uuid = s.value("select scylla.submit('q', id => $1)", &[&ids[0]]);
        assert_eq!(bystander.own_one("q").id, reused);
        assert!(bystander.cancel(reused));
        assert_scheduler_runs(&database);
    }
}

/// Objects of another version than the library's are not used; the update brings everything back.
#[test]
fn another_versions_objects_are_refused_until_the_update() {
    let database = database();
    let mut admin = database.connect();
    let ids = admin.submit_many("q", 3);
    admin.own_one_with("q", "timeout => '100 ms'");
    let version: String =
        admin.value("select extversion from pg_extension where extname = 'scylla'", &[]);
    let scheduler = database.scheduler();
    admin.run("update pg_extension set extversion = '0.0.1' where extname = 'scylla'");
    eventually(seconds(10), "the scheduler leaves", || {
        let count = "select count(*) from pg_stat_activity where pid = $1";
        (admin.value::<i64>(count, &[&scheduler]) == 0).then_some(())
    });

    let mut s = database.connect();
    let error = s.refusal("select scylla.submit('q')", &[]);
    assert_eq!(error.code().code(), "55000");
    assert!(error.message().contains(&version), "{error}");
    assert_eq!(error.detail(), Some("In this database it is of version 0.0.1."));
    assert!(error.hint().unwrap().starts_with("Run ALTER EXTENSION scylla UPDATE"), "{error}");
    // The script that creates another version calls it.
    s.run("select scylla.refresh()");

    admin.run(&format!(
        "update pg_extension set extversion = '{version}' where extname = 'scylla';
         select scylla.refresh()"
    ));
    let mut owned = s.own("w", "q", 3);
    owned.sort_by_key(|it| it.id);
    let mut ids = ids;
    ids.sort();
    eventually(seconds(5), "all tasks are owned", || {
        owned.extend(s.own("w", "q", 3));
        owned.sort_by_key(|it| it.id);
        (owned.iter().map(|it| it.id).collect::<Vec<_>>() == ids).then_some(())
    });
    assert_scheduler_runs(&database);
}

/// I2: a creation or a removal of the extension that rolls back changes nothing.
#[test]
fn rolled_back_drop_and_create_change_nothing() {
    let database = database();
    let mut s = database.connect();
    s.submit_many("q", 3);
    let lease = s.own_one("q");
    s.run("begin; drop extension scylla; create extension scylla");
    s.submit("q");
    s.run("rollback");
    assert!(s.extend(&lease));
    assert_eq!(s.own("w", "q", 5).len(), 2);
    s.run("begin; drop extension scylla; rollback");
    assert!(s.extend(&lease));
    assert_scheduler_runs(&database);
    let bare = Server::shared().bare_database();
    let mut s = bare.connect();
    s.run("begin; create extension scylla");
    s.submit("q");
    s.run("rollback; create extension scylla");
    assert!(s.own("w", "q", 5).is_empty());
    assert_scheduler_runs(&bare);
}

/// I9: a database with a running scheduler is dropped at once.
#[test]
fn database_with_a_scheduler_is_dropped_at_once() {
    let database = database();
    let mut s = Server::shared().connect();
    database.connect().submit_many("q", 10);
    database.scheduler();
    // With a scheduler in it, it would fail.
    s.run(&format!("drop database {}", database.name));
    let again = format!("create database {} template template0", database.name);
    s.run(&again);
    let mut s = database.connect();
    s.run("create extension scylla");
    assert!(s.own("w", "q", 5).is_empty());
    assert_scheduler_runs(&database);
}

/// I9: a database with a running scheduler is copied and renamed at once, and its scheduler runs
/// again afterwards.
#[test]
fn database_with_a_scheduler_is_copied_and_renamed_at_once() {
    let database = database();
    let mut s = Server::shared().connect();
    database.connect().submit_many("q", 1);
    database.scheduler();
    let (name, copy) = (&database.name, format!("{}_copy", database.name));
    s.run(&format!("create database {copy} template {name}"));
    s.run(&format!("alter database {copy} rename to {copy}_renamed"));
    s.run(&format!("drop database {copy}_renamed"));
    assert_scheduler_runs(&database);
}

/// I9: the extension is dropped at once while the scheduler runs, and the scheduler is not killed.
#[test]
fn extension_is_dropped_at_once() {
    let database = database();
    let mut s = database.connect();
    s.submit_many("q", 100);
    s.own_with("w", "q", 50, "timeout => '200 ms'");
    // It would wait for a scheduler that keeps a lock.
    s.run("set statement_timeout = '30 s'; drop extension scylla; reset statement_timeout");
    sleep(milliseconds(300));
    s.run("create extension scylla");
    assert_scheduler_runs(&database);
}

/// I5: a slot whose row was deleted is dropped; its neighbours are not.
#[test]
fn deleted_row_is_not_handed_out() {
    let database = database();
    let mut s = database.connect();
    let ids = s.submit_many("q", 10);
    s.run(&format!("delete from scylla.task where id = '{}'", ids[0]));
    assert_eq!(s.own("w", "q", 4).len(), 4);
    s.run("delete from scylla.task where id not in (select id from scylla._leases())");
    assert!(s.own("w", "q", 10).is_empty());
}

/// I4: `refresh` finds rows that an administrator changed directly, and ends no lease.
#[test]
fn refresh_finds_what_an_administrator_changed() {
    let database = database();
    let mut s = database.connect();
    let model = s.submit("q");
    let lease = s.own_one("q");
    let copy = format!(
        "insert into scylla.task select (jsonb_populate_record(t, jsonb_build_object('id', i.id, 'priority', i.priority))).*
         from scylla.task t, (values ('{}'::uuid, 5), ('{}', 7)) i (id, priority) where t.id = '{model}'",
        Uuid::new_v4(),
        Uuid::new_v4()
    );
    s.run(&copy);
    s.run("select scylla.refresh()");
    let owned = eventually(seconds(5), "both are found", || {
        let leases = s.own("w", "q", 10);
        (!leases.is_empty()).then_some(leases)
    });
    assert_eq!(owned.iter().map(|lease| lease.priority).collect::<Vec<_>>(), [7, 5]);
    assert!(s.extend(&lease), "leases remain valid");
    s.complete(&lease);
    s.run("delete from scylla.task; select scylla.refresh()");
    assert!(s.own("w", "q", 10).is_empty());
    assert_eq!(s.tasks("running"), 0);
    s.submit("q");
    s.own_one("q");
}

/// A utility command that fails raises its own error, and only the statement fails.
#[test]
fn failing_utility_command_does_no_harm() {
    let database = database();
    let mut s = database.connect();
    let started = s.text("select pg_postmaster_start_time()::text");
    for (command, expected) in [
        ("select 1; commit prepared 'missing'", "25001"),
        ("commit prepared 'missing'", "42704"),
        ("drop database missing", "3D000"),
        ("select 1; drop database missing", "25001"),
        ("drop database template1", "42809"),
        ("create database postgres", "42P04"),
        ("alter database missing rename to other", "3D000"),
        ("create extension scylla", "42710"),
        ("drop extension missing", "42704"),
    ] {
        assert_eq!(s.refused(command), expected, "{command}");
        assert_eq!(s.value::<i32>("select pg_backend_pid()", &[]), s.pid, "{command}");
    }
    assert_eq!(s.text("select pg_postmaster_start_time()::text"), started);
    assert_scheduler_runs(&database);
    Server::shared().assert_log_is_clean();
}
