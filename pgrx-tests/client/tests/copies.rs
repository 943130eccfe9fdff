//! A copied or restored database starts closed (I12), and a dump that is restored has equal
//! contents.

use client::*;
use std::time::Instant;

/// Submits tasks of all kinds, unfinished and finished.
fn fill(s: &mut Session) {
    for (n, outcome) in ["completed", "aborted", "retry"].iter().enumerate() {
        s.submit_with("q", &format!("priority => {}, spec => '{{\"é\": [1, null]}}'", 9 - n));
        let lease = s.own_one("q");
        s.return_task(&lease, outcome).unwrap();
    }
    let cancelled = s.submit("q");
    s.cancel(cancelled);
    let first = s.submit_with("q", "key => 'k', max_tries => 3, timeout => '2 s'");
    s.submit_with("later", &format!("after => array['{first}'::uuid], on_failure => 'run'"));
    s.value::<String>("select scylla.register_worker()", &[]);
    s.submit_with("kept", "key => 'k', unique_for => '1 year'");
    s.submit("paused");
    s.run("select scylla.pause('paused'), scylla.configure_queue('q', retention => '20 d')");
}

/// All rows that a dump must keep.
fn all(s: &mut Session) -> Vec<String> {
    let sql = "select to_jsonb(t)::text from scylla.task t
               union all select to_jsonb(d)::text from scylla.dependency d
               union all select to_jsonb(f)::text from scylla.finished f
               union all select to_jsonb(q)::text from scylla.queue q
               union all select to_jsonb(k)::text from scylla.kept_key k
               union all select to_jsonb(w)::text from (select last_value from scylla.worker_number) w
               order by 1";
    s.query(sql, &[]).unwrap().iter().map(|row| row.get(0)).collect()
}

fn own_nothing(s: &mut Session) {
    let begun = Instant::now();
    assert!(s.own("w", "q", 10).is_empty());
    // For a board that is built it would wait for 10 s.
    assert!(begun.elapsed() < seconds(8), "no call waits until a database is opened");
}

#[track_caller]
fn assert_closed(s: &mut Session) {
    own_nothing(s);
    let ready: Uuid =
        s.value("select id from scylla.tasks where queue = 'q' and status = 'ready' limit 1", &[]);
    let complaint = s.refusal("select scylla.own_task($1, 'w')", &[&ready]);
    assert_eq!(complaint.code().code(), "57P03");
    assert!(complaint.hint().is_some_and(|hint| hint.contains("scylla.open()")), "{complaint:?}");
    let why: String = s.value("select scylla.why($1)", &[&ready]);
    assert!(why.contains("closed"), "{why}");
}

/// I12: a copied database hands out nothing until it is opened. The original database goes on.
#[test]
fn copied_database_starts_closed() {
    let server = Server::start(&["scylla.persist_leases_after = '10 ms'"]);
    let database = server.database();
    let mut s = database.connect();
    fill(&mut s);
    s.submit("held");
    let held = s.own_one_with("held", "timeout => '1 hour'");
    eventually(seconds(5), "the lease is written", || {
        s.value::<bool>("select exists (select from scylla.lease where id = $1)", &[&held.id])
            .then_some(())
    });
    let waiting = s.submit_with("due", "run_at => clock_timestamp() + interval '1 s'");
    drop(s);
    let name = format!("{}_copy", database.name);
    server.connect().run(&format!("create database {name} template {}", database.name));
    let copy = database.named(&name);
    let mut c = copy.connect();
    assert_closed(&mut c);
    let line = format!("LOG:  scylla is closed in database \"{name}\"");
    assert!(server.log().contains(&line) && server.log().contains("HINT:  Call scylla.open()"));
    // In the copy, leases remain valid. The original is not affected.
    assert!(c.extend(&held));
    c.complete(&held);
    let mut s = database.connect();
    assert!(s.extend(&held));
    assert_eq!(s.own("w", "q", 10).len(), 2);
    eventually(seconds(5), "it fires", || (s.status(waiting) == "ready").then_some(()));
    assert_eq!(c.status(waiting), "waiting", "but not in the copy");

    // A restart does not open the copy; the server logs the warning again.
    server.stop("fast");
    server.start_again();
    let mut c = copy.connect();
    assert_closed(&mut c);
    assert_eq!(server.log().matches(&line).count(), 2);
    c.run("select scylla.open()");
    assert_eq!(c.own("w", "q", 10).len(), 2, "opened, it hands out at once");
    eventually(seconds(3), "it fires", || (c.status(waiting) == "ready").then_some(()));
    server.stop("fast");
    server.start_again();
    let mut c = copy.connect();
    c.run("select scylla.open(false)");
    let id = c.submit("q");
    server.kill();
    server.start_again();
    assert_closed(&mut copy.connect());
    let mut c = copy.connect();
    c.run("select scylla.open()");
    assert!(c.own("w", "q", 10).iter().any(|lease| lease.id == id));
    drop(c);
    server.assert_log_is_clean();
}

/// A database is open after pg_upgrade: that is not a copy, since the old server must not run
/// again.
#[test]
fn upgraded_database_is_open() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    fill(&mut s);
    let before = all(&mut s);
    drop(s);
    let upgraded = server.upgrade();
    let there = database.on(&upgraded);
    let mut s = there.connect();
    assert_eq!(all(&mut s), before);
    assert_eq!(s.own("w", "q", 10).len(), 2);
    upgraded.assert_log_is_clean();
}

/// The scheduler of a closed database deletes no rows and drops no partitions.
#[test]
fn closed_database_keeps_what_is_past() {
    let server = Server::start(&["scylla.retention = '1 h'"]);
    let database = server.database();
    let mut s = database.connect();
    s.run("select scylla.open(false)");
    s.submit("q");
    s.run(
        "insert into scylla.finished select (jsonb_populate_record(null::scylla.finished, to_jsonb(t) || jsonb_build_object(
             'updated', now() - interval '2 hours', 'progress', 1, 'status', 'completed'))).* from scylla.task t",
    );
    sleep(milliseconds(2_500));
    let count = "select count(*) from scylla.finished";
    assert_eq!(s.count(count), 1);
    s.run("select scylla.open()");
    eventually(seconds(5), "it is deleted", || (s.count(count) == 0).then_some(()));
}

/// After each way to dump and restore, the contents are equal, no error was raised, and no task ran
/// meanwhile.
#[test]
fn dumps_come_out_equal_and_closed() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    fill(&mut s);
    let before = all(&mut s);
    assert!(before.len() > 6, "{before:#?}");
    let path = |name: &str| server.path(name).to_str().unwrap().to_owned();
    let dump = |file: &str, options: &[&str]| {
        server.tool("pg_dump", &[options, &["-f", &path(file), &database.name]].concat());
    };
    dump("plain.sql", &[]);
    dump("custom", &["-Fc"]);
    dump("folder", &["-Fd", "-j2"]);
    dump("data", &["-Fc", "--data-only", "--load-via-partition-root"]);
    let ways: [(&str, &str, &str, &[&str]); 6] = [
        ("plain", "plain.sql", "psql", &["-Xq", "-v", "ON_ERROR_STOP=1", "-f"]),
        ("custom", "custom", "pg_restore", &["-e"]),
        ("at_once", "custom", "pg_restore", &["-e", "-1"]),
        ("parallel", "folder", "pg_restore", &["-e", "-j2"]),
        ("over", "custom", "pg_restore", &["-e", "--clean", "--if-exists"]),
        ("data", "data", "pg_restore", &["-e"]),
    ];
    for (name, file, tool, options) in ways {
        let restored = server.bare_database();
        if ["over", "data"].contains(&name) {
            let mut r = restored.connect();
            r.run("create extension scylla");
            restored.scheduler();
            assert!(r.own("w", "q", 10).is_empty(), "its board is built");
        }
        server.tool(tool, &[&["-d", &restored.name], options, &[&path(file)]].concat());
        let mut r = restored.connect();
        assert_eq!(all(&mut r), before, "{name}");
        assert_closed(&mut r);
        r.run("select scylla.open()");
        assert_eq!(r.own("w", "paused", 10).len(), 0, "{name}: it has its settings at once");
        assert_eq!(r.own("w", "q", 10).len(), 2, "{name}");
        let partitions =
            "select count(*) from pg_inherits where inhparent = 'scylla.finished'::regclass";
        eventually(seconds(5), "its scheduler makes partitions", || {
            (r.count(partitions) == 6).then_some(())
        });
        // Each partition has its indexes, whichever way it was restored.
        let indexed =
            "select count(*) from pg_inherits p join pg_index i on i.indrelid = p.inhrelid
                       where p.inhparent = 'scylla.finished'::regclass and i.indkey::text = '1'";
        assert_eq!(r.count(indexed), 6, "{name}");
    }
    // No task ran under the original's name.
    assert_eq!(all(&mut s), before);
    let log = server.log();
    assert!(!log.contains("already exists"), "{log}");
    server.assert_log_is_clean();
}
