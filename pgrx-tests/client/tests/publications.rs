//! Databases in which all tables are published, as Debezium does by default.

use client::*;

/// A database in which all tables are published before the first task.
fn published(lines: &[&str]) -> (Server, Database) {
    let server = Server::start(&[&["wal_level = logical"], lines].concat());
    let database = server.database();
    database.connect().run("create publication everything for all tables");
    (server, database)
}

/// Each table with updates or deletes has a replica identity.
#[test]
fn every_table_has_a_replica_identity() {
    let (_server, database) = published(&[]);
    let mut s = database.connect();
    partitions(&mut s);
    let without = s.query(
        "select c.oid::regclass::text from pg_class c
         where c.relnamespace = 'scylla'::regnamespace and c.relkind in ('r', 'p')
           and not case c.relreplident
               when 'd' then exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary)
               else c.relreplident = 'f' end
         order by 1",
        &[],
    );
    let without: Vec<String> = without.unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(without, [""; 0]);
}

/// Waits until the scheduler has made the partitions ahead. It does so once a task exists.
fn partitions(s: &mut Session) {
    s.submit("other");
    let partitions =
        "select count(*) from pg_inherits where inhparent = 'scylla.finished'::regclass";
    eventually(seconds(10), "partitions are made", || (s.count(partitions) > 3).then_some(()));
}

/// Retries, expiries, firing, cancels and messages work on published tables.
#[test]
fn live_tasks_change_though_they_are_published() {
    let (server, database) = published(&[]);
    let mut s = database.connect();
    partitions(&mut s);
    s.submit("q");
    let lease = s.own_one("q");
    assert_eq!(s.return_task(&lease, "retry").unwrap(), "ready");
    let lease = s.own_one_with("q", "timeout => '50 ms'");
    eventually(seconds(5), "the lease expires", || (s.status(lease.id) == "ready").then_some(()));
    let id = s.submit_with("later", "run_at => now() + interval '50 ms'");
    eventually(seconds(5), "the task fires", || (s.status(id) == "ready").then_some(()));
    assert!(s.value::<bool>("select scylla.delay($1, now() + interval '1 hour')", &[&id]));
    assert!(s.cancel(id));
    s.run("select scylla.delay('m', now() + interval '1 hour', 'out', 'v')");
    assert!(s.value::<bool>("select scylla.cancel_message('out', 'm')", &[]));
    // old enough to be persisted
    let old = s.submit("old");
    let held = s.own_one_with("old", "timeout => '1 hour'");
    let written = "select count(*) from scylla.lease";
    eventually(seconds(10), "the lease is written", || (s.count(written) == 1).then_some(()));
    s.complete(&held);
    eventually(seconds(10), "its row is cleared away", || (s.count(written) == 0).then_some(()));
    assert_eq!(s.delete(&[old, id]), 2);
    server.assert_log_is_clean();
}

/// The scheduler counts down a dependent whose row was locked, on published tables.
#[test]
fn dependencies_go_on_though_they_are_published() {
    let (server, database) = published(&[]);
    let (mut s, mut other) = (database.connect(), database.connect());
    let first = s.submit("q");
    let last = s.submit_after("q", &[first], "action => 'last'");
    other.run("begin");
    let lock = "select count(*) from (select from scylla.task where id = $1 for update) t";
    assert_eq!(other.value::<i64>(lock, &[&last]), 1);
    s.end(first, "completed");
    assert_eq!(s.count("select count(*) from scylla.countdown"), 1);
    other.run("commit");
    eventually(seconds(5), "the dependent is ready", || (s.status(last) == "ready").then_some(()));
    s.end(last, "completed");
    server.assert_log_is_clean();
}

/// A published database can be closed and opened, which changes rows about the database itself.
#[test]
fn a_published_database_is_closed_and_opened() {
    let (server, database) = published(&[]);
    let mut s = database.connect();
    s.submit("q");
    s.run("select scylla.open(false)");
    assert!(s.own("w", "q", 1).is_empty());
    s.run("select scylla.open()");
    s.own_one("q");
    server.assert_log_is_clean();
}

/// Settled tasks are deleted from published tables, by a retention of less than a day and by calls.
#[test]
fn settled_tasks_go_though_they_are_published() {
    let (server, database) = published(&[]);
    let mut s = database.connect();
    partitions(&mut s);
    let id = s.submit("q");
    s.end(id, "completed");
    assert_eq!(s.delete(&[id]), 1);
    let id = s.submit("q");
    s.end(id, "completed");
    server.configure("scylla.retention", "1 s");
    let left = "select count(*) from scylla.finished";
    eventually(seconds(10), "what is past is deleted", || (s.count(left) == 0).then_some(()));
    server.assert_log_is_clean();
}
