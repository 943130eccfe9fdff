//! `max_ready`: a queue that has as many ready tasks as it may refuses more.

use client::*;

const FULL: &str = "53400";

/// A server whose queue q may have three ready tasks, counted already.
fn limited() -> (Server, Database) {
    let server = Server::start(&["scylla.retry_interval = 0"]);
    let database = server.database();
    let mut s = database.connect();
    s.run("select scylla.configure_queue('q', max_ready => 3)");
    counted(&mut s);
    (server, database)
}

/// Waits until the server knows how many tasks are ready.
fn counted(s: &mut Session) {
    eventually(seconds(20), "the tasks are counted", || {
        (s.count("select count(*) from scylla.queues where queue = 'q' and ready is not null") == 1)
            .then_some(())
    });
}

fn ready(s: &mut Session) -> i64 {
    s.count("select ready from scylla.queues where queue = 'q'")
}

/// The reference tells of the error in the entry of the function that a call calls.
#[track_caller]
fn tells_in_the_manual(call: &str) {
    const REFERENCE: &str = include_str!("../../../docs/reference/functions.md");
    let (_, rest) = call.split_once("scylla.").expect("a call");
    let heading = format!("\n### {}\n", rest.split('(').next().expect("a name"));
    let from = REFERENCE.find(&heading).unwrap_or_else(|| panic!("no entry: {heading}"));
    let entry = &REFERENCE[from + 1..];
    let entry = &entry[..entry.find("\n### ").unwrap_or(entry.len())];
    assert!(entry.contains(FULL), "{heading}");
}

#[test]
fn a_full_queue_refuses_what_would_be_ready_at_once() {
    let (_server, database) = limited();
    let mut s = database.connect();
    let failed = s.submit("q");
    s.end(failed, "aborted");
    s.submit_many("q", 3);
    for call in [
        "select scylla.submit('q')",
        "select scylla.submit('q', key => 'k')",
        "select scylla.submit('q', id => gen_random_uuid())",
        "select scylla.submit_many('q', '{1}')",
        "select scylla.submit_tasks('[{\"queue\": \"other\"}, {\"queue\": \"q\"}]')",
        "select scylla.submit_tasks('[{\"queue\": \"other\"}, {\"queue\": \"q\"}]', atomic => false)",
        &format!("select scylla.resubmit('{{{failed}}}')"),
        "select scylla.resubmit_matching('{\"queue\": \"q\"}')",
    ] {
        assert_eq!(s.refused(call), FULL, "{call}");
        tells_in_the_manual(call);
    }
    assert_eq!(s.count("select count(*) from scylla.task"), 3, "nothing was inserted");
    // What waits, and other queues, are not counted.
    s.submit_with("q", "run_at => now() + interval '1 hour'");
    s.submit("other");
    let lease = s.own_one("q");
    s.submit("q");
    assert_eq!((ready(&mut s), s.refused("select scylla.submit('q')")), (3, FULL.into()));
    // What is given back passes, and counts.
    assert_eq!(s.return_task(&lease, "yield").unwrap(), "ready");
    assert_eq!((ready(&mut s), s.refused("select scylla.submit('q')")), (4, FULL.into()));
    s.run("select scylla.reset_queue('q', 'max_ready')");
    s.submit("q");
    s.run("select scylla.configure_queue('q', max_ready => 6)");
    s.submit("q");
    assert_eq!(s.refused("select scylla.submit('q')"), FULL);
}

/// A task that replaces a ready one makes the queue no fuller; one that replaces a waiting one
/// does.
#[test]
fn a_full_queue_takes_what_replaces_a_ready_task() {
    let (_server, database) = limited();
    let (mut s, mut other) = (database.connect(), database.connect());
    s.submit_with("q", "key => 'later', run_at => now() + interval '1 hour'");
    s.submit_with("q", "key => 'k'");
    s.submit_many("q", 2);
    let replace = "select scylla.submit('q', key => 'k', on_conflict => 'replace')";
    s.run(replace);
    // Twice in a transaction, which shows others no room meanwhile.
    s.run("begin");
    s.run(replace);
    s.run(replace);
    assert_eq!(other.refused("select scylla.submit('q')"), FULL);
    s.run("commit");
    let later = "select scylla.submit('q', key => 'later', on_conflict => 'replace')";
    assert_eq!(s.refused(later), FULL);
    let batch = "select scylla.submit_tasks('[{\"queue\": \"q\", \"key\": \"k\", \"on_conflict\": \"replace\"},
        {\"queue\": \"q\", \"key\": \"new\"}]')";
    assert_eq!(s.refused(batch), FULL);
    assert_eq!((ready(&mut s), s.refused("select scylla.submit('q')")), (3, FULL.into()));
    s.own_one("q");
    s.run(batch);
    assert_eq!(ready(&mut s), 3);
}

#[test]
fn a_batch_larger_than_the_room_is_refused_as_a_whole() {
    let (_server, database) = limited();
    let mut s = database.connect();
    assert_eq!(s.refused("select scylla.submit_many('q', '{1, 2, 3, 4}')"), FULL);
    s.run("select scylla.submit_many('q', '{1, 2, 3}')");
    // Duplicates take no room.
    let first = s.value("select id from scylla.tasks limit 1", &[]);
    assert!(s.cancel(first));
    s.run("select scylla.submit('q', key => 'k')");
    s.run("select scylla.submit('q', key => 'k', on_conflict => 'ignore')");
    assert_eq!(ready(&mut s), 3);
}

#[test]
fn open_submissions_take_room_until_they_end() {
    let (_server, database) = limited();
    let (mut one, mut other) = (database.connect(), database.connect());
    one.run(
        "begin; select scylla.submit('q'); savepoint a; select scylla.submit_many('q', '{1, 2}')",
    );
    assert_eq!(other.refused("select scylla.submit('q')"), FULL);
    one.run("rollback to a");
    other.run("select scylla.submit_many('q', '{1, 2}')");
    assert_eq!(other.refused("select scylla.submit('q')"), FULL);
    one.run("rollback");
    other.submit("q");
    assert_eq!(other.refused("select scylla.submit('q')"), FULL);
    // Returned and submitted in one transaction.
    let lease = other.own_one("q");
    other.run("begin");
    other.complete(&lease);
    other.submit("q");
    other.run("commit");
    assert_eq!((ready(&mut other), other.refused("select scylla.submit('q')")), (3, FULL.into()));
}

/// Many producers and consumers: the limit is never exceeded, and all is counted in the end.
#[test]
fn producers_never_exceed_the_limit() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    s.run("select scylla.configure_queue('q', max_ready => 20)");
    counted(&mut s);
    let until = std::time::Instant::now() + seconds(5);
    std::thread::scope(|scope| {
        for client in 0..12 {
            let database = &database;
            scope.spawn(move || {
                let mut s = database.connect();
                while std::time::Instant::now() < until {
                    if client % 3 == 0 {
                        s.own("w", "q", 3).iter().for_each(|lease| s.complete(lease));
                    } else {
                        let n = 1 + client % 4;
                        let sql = format!(
                            "select scylla.submit_many('q', array_fill('1'::jsonb, array[{n}]))"
                        );
                        if let Err(error) = s.batch_execute(&sql) {
                            assert_eq!(code(&error), FULL);
                        }
                    }
                }
            });
        }
        let mut s = database.connect();
        while std::time::Instant::now() < until {
            let rows = s.count("select count(*) from scylla.task where ready and queue = 'q'");
            let running = s.count("select running from scylla.queues where queue = 'q'");
            // Owners hold 12 at most between the two looks.
            assert!(rows <= 20 + 12, "{rows} ready rows, {running} of them running");
        }
    });
    let rows = s.count("select count(*) from scylla.tasks where status = 'ready'");
    assert_eq!(ready(&mut s), rows);
}

#[test]
fn nothing_is_refused_until_the_tasks_are_counted_after_a_crash() {
    let (server, database) = limited();
    let mut s = database.connect();
    s.submit_many("q", 3);
    server.kill();
    server.start_again();
    let mut s = database.connect();
    counted(&mut s);
    assert_eq!((ready(&mut s), s.refused("select scylla.submit('q')")), (3, FULL.into()));
}
