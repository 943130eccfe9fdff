//! The view `workers`, and the release of a worker.

use client::*;

/// What the view says of each worker: its name, its queue, how many tasks it has.
fn shown(s: &mut Session) -> String {
    shown_at(s, "clock_timestamp()")
}

/// As `shown`, at another time.
fn shown_at(s: &mut Session, time: &str) -> String {
    s.text(&format!(
        "select coalesce(string_agg(format('%s %s %s', worker, queue, running), ', '
             order by worker, queue), '') from scylla._known_workers({time})"
    ))
}

/// When a worker was last seen.
fn last_seen(s: &mut Session, worker: &str) -> String {
    s.text(&format!("select last_seen::text from scylla.workers where worker = '{worker}'"))
}

#[test]
fn view_shows_each_worker_of_each_queue_with_its_leases() {
    let database = database();
    let mut s = database.connect();
    assert_eq!(shown(&mut s), "");
    s.submit_many("a", 5);
    s.submit_many("b", 5);
    s.own_with("w1", "a", 2, "timeout => '1 h'");
    s.own_with("w1", "a", 1, "timeout => '10 min'");
    s.own_with("w1", "b", 1, "timeout => '200 years'");
    assert_eq!(s.own("w2", "none", 1).len(), 0);
    assert_eq!(shown(&mut s), "w1 a 3, w1 b 1, w2 none 0");
    let view = "select string_agg(format('%s %s %s %s %s', worker, queue, running,
            round(extract(epoch from next_deadline - last_seen)), last_seen > now() - interval '1 min'),
            ', ' order by worker, queue) from scylla.workers";
    assert_eq!(s.text(view), "w1 a 3 600 t, w1 b 1  t, w2 none 0  t");
    let leases = "select coalesce(string_agg(format('%s %s %s', owner, queue, n), ', '), '')
        from (select owner, queue, count(*) as n from scylla.tasks where status = 'running'
              group by owner, queue order by owner, queue) t";
    assert_eq!(s.text(leases), "w1 a 3, w1 b 1");
}

/// A worker is seen with each call that has its name or its token.
#[test]
fn each_call_of_a_worker_is_seen() {
    let database = database();
    let mut s = database.connect();
    s.submit_many("q", 3);
    let mut last = String::new();
    let mut seen = |s: &mut Session, what: &str| {
        let now = last_seen(s, "w");
        assert_ne!(now, last, "{what} is seen");
        last = now;
    };
    let leases = s.own("w", "q", 2);
    seen(&mut s, "own_tasks");
    let id = s.text("select id::text from scylla.tasks where status = 'ready'");
    s.run(&format!("select scylla.own_task('{id}', 'w')"));
    seen(&mut s, "own_task");
    assert_eq!(s.own("w", "q", 1).len(), 0);
    seen(&mut s, "own_tasks without a task");
    assert!(s.extend(&leases[0]));
    seen(&mut s, "extend");
    s.value::<Vec<bool>>(
        "select scylla.extend_tasks($1, $2)",
        &[&vec![leases[0].id], &vec![leases[0].token]],
    );
    seen(&mut s, "extend_tasks");
    s.complete(&leases[0]);
    seen(&mut s, "return_task");
    s.value::<Vec<String>>(
        "select scylla.return_tasks($1, $2)",
        &[&vec![leases[1].id], &vec![leases[1].token]],
    );
    seen(&mut s, "return_tasks");
    // Others' calls with the queue's tasks, and tokens that are not valid, are not.
    let before = last_seen(&mut s, "w");
    assert!(!s.extend(&leases[0]));
    s.not_returned(&leases[0]);
    assert!(s.cancel(id.parse().unwrap()));
    assert_eq!(last_seen(&mut s, "w"), before);
    assert_eq!(shown(&mut s), "w q 0");
}

/// A worker without leases leaves an hour after its last call; one with leases stays.
#[test]
fn worker_without_leases_leaves_after_an_hour() {
    let database = database();
    let mut s = database.connect();
    s.submit_many("q", 2);
    let lease = s.own_with("busy", "q", 1, "timeout => '1 day'").remove(0);
    s.own("idle", "none", 1);
    let other = s.own_with("other", "q", 1, "timeout => '1 day'").remove(0);
    s.complete(&other);
    let after = |time: &str| format!("clock_timestamp() + interval '{time}'");
    assert_eq!(shown_at(&mut s, &after("59 min")), "busy q 1, idle none 0, other q 0");
    assert_eq!(shown_at(&mut s, &after("1 h")), "busy q 1");
    assert_eq!(shown_at(&mut s, &after("10 years")), "busy q 1");
    s.complete(&lease);
    assert_eq!(shown_at(&mut s, &after("59 min")), "busy q 0, idle none 0, other q 0");
    assert_eq!(shown_at(&mut s, &after("1 h")), "");
    assert_eq!(s.refused("select * from scylla._known_workers(null)"), "22004");
}

/// What a transaction reserves counts at once, and no more after its rollback; the call was seen.
#[test]
fn reserved_tasks_count_until_they_are_rolled_back() {
    let database = database();
    let (mut s, mut other) = (database.connect(), database.connect());
    s.submit_many("q", 3);
    s.run("begin");
    s.own("w", "q", 2);
    assert_eq!((shown(&mut s), shown(&mut other)), ("w q 2".into(), "w q 2".into()));
    assert_eq!(other.text("select running::text from scylla.queues"), "2");
    s.run("rollback");
    assert_eq!(shown(&mut other), "w q 0");
    // While a transaction ends a lease, it counts; when the lease has expired, it does not.
    let lease = s.own_with("w", "q", 1, "timeout => '1 h'").remove(0);
    s.run("begin");
    s.complete(&lease);
    assert_eq!(shown(&mut other), "w q 1");
    s.run("commit");
    assert_eq!(shown(&mut other), "w q 0");
    s.own_with("w", "q", 1, "timeout => '10 ms'");
    eventually(seconds(5), "the lease expires", || (shown(&mut other) == "w q 0").then_some(()));
}

/// Names of each legal length, also of several bytes a character, come back as they are.
#[test]
fn names_of_each_length_are_told_apart() {
    let database = database();
    let mut s = database.connect();
    s.submit_many("q", 400);
    for length in 1..=128 {
        assert_eq!(s.own(&"w".repeat(length), "q", 1).len(), 1);
    }
    s.own(&"ö".repeat(64), "q", 1);
    s.own(&"w".repeat(128), &"q".repeat(48), 1);
    assert_eq!(s.count("select count(*) from scylla.workers where running = 1"), 129);
    let kept = "select count(*) from scylla.workers w join scylla.tasks t on t.owner = w.worker
        where w.running = 1";
    assert_eq!(s.count(kept), 129);
    for length in 1..=128 {
        let released = s.value::<i32>("select scylla.release_worker($1)", &[&"w".repeat(length)]);
        assert_eq!(released, 1, "{length}");
    }
    assert_eq!(s.count("select scylla.release_worker('none')::int8"), 0);
    assert_eq!(s.count("select sum(running)::int8 from scylla.workers"), 1);
}

#[test]
fn ten_thousand_workers_are_shown() {
    let database = database();
    let mut s = database.connect();
    s.run("select scylla.submit_many('q', array_fill('{}'::jsonb, array[10000]))");
    s.run(
        "select from generate_series(1, 10000) n,
            lateral scylla.own_tasks('worker-' || n, 'q', 1, timeout => '1 h')",
    );
    assert_eq!(s.count("select count(*) from scylla.workers where running = 1"), 10_000);
    assert_eq!(s.count("select sum(running)::int8 from scylla.workers"), 10_000);
    assert_eq!(s.count("select scylla.release_worker('worker-77')::int8"), 1);
    assert_eq!(s.count("select count(*) from scylla.workers where running = 1"), 9_999);
}

/// I8: a release costs the worker's leases, not those of others.
#[test]
fn release_costs_the_workers_leases_only() {
    let database = database();
    let mut s = database.connect();
    let ticks = |s: &mut Session| {
        s.run(
            "select from generate_series(1, 1000) n,
                lateral scylla.own_tasks('few-' || n, 'q', 1, timeout => '1 h')",
        );
        let release =
            "select sum(scylla.release_worker('few-' || n))::int8 from generate_series(1, 1000) n";
        let before = processor_time(s.pid);
        assert_eq!(s.count(release), 1000);
        processor_time(s.pid) - before
    };
    s.run("select scylla.submit_many('q', array_fill('{}'::jsonb, array[1000]), max_tries => 0)");
    let alone = ticks(&mut s);
    s.run("select scylla.submit_many('big', array_fill('{}'::jsonb, array[100000]))");
    assert_eq!(s.own_with("many", "big", 100_000, "timeout => '1 h'").len(), 100_000);
    let beside = ticks(&mut s);
    println!(
        "1,000 releases: {alone} ticks alone, {beside} beside 100,000 leases of another worker"
    );
    assert!(beside <= 2 * alone + 10);
}

/// I1: after a crash, restored leases have their workers.
#[test]
fn restored_leases_show_their_workers() {
    let server = Server::start(&["scylla.persist_leases_after = '100 ms'"]);
    let database = server.database();
    let mut s = database.connect();
    s.submit_many("q", 4);
    let lease = s.own_with("w1", "q", 1, "timeout => '1 h'").remove(0);
    s.own_with("w2", "q", 2, "timeout => '1 h'");
    s.until_leases_are_written(3);
    server.kill();
    server.start_again();
    let mut s = database.connect();
    eventually(seconds(20), "the board is loaded", || {
        (shown(&mut s) == "w1 q 1, w2 q 2").then_some(())
    });
    assert_eq!(s.entry(lease.id)["owner"], "w1");
    let since = "select last_seen = t.began from scylla.workers,
        (select (history -> -1 ->> 'time')::timestamptz as began from scylla.tasks where owner = 'w1') t
        where worker = 'w1'";
    assert!(s.value::<bool>(since, &[]), "seen when its lease began");
    assert!(s.extend(&lease));
    assert!(!s.value::<bool>(since, &[]), "seen again");
    s.complete(&lease);
    let owner = format!("select owner from scylla.finished where id = '{}'", lease.id);
    assert_eq!((shown(&mut s), s.text(&owner)), ("w1 q 0, w2 q 2".into(), "w1".into()));
    assert_eq!(s.count("select scylla.release_worker('w2')::int8"), 2);
}

/// The board is full of leases, each of another worker: a call for tasks never fails for want of a
/// record, and each task is some worker's.
#[test]
fn each_lease_of_a_full_board_has_its_worker() {
    let server = Server::start(&["scylla.board_size = 64"]);
    let database = server.database();
    let mut s = database.connect();
    for n in 0..200 {
        s.own(&format!("idle-{n:03}"), "none", 1);
    }
    assert_eq!(s.count("select count(*) from scylla.workers"), 64);
    assert_eq!(s.text("select min(worker) from scylla.workers"), "idle-136");
    s.submit_many("q", 64);
    for n in 0..64 {
        assert_eq!(s.own_with(&format!("busy-{n:02}"), "q", 1, "timeout => '1 h'").len(), 1);
    }
    let busy = "select count(*) from scylla.workers where worker like 'busy-%' and running = 1";
    assert_eq!((s.count(busy), s.count("select count(*) from scylla.workers")), (64, 64));
    assert_eq!(s.own("late", "q", 1).len(), 0);
    let owners = "select count(distinct owner) from scylla.tasks where status = 'running'";
    assert_eq!((s.count(busy), s.count(owners)), (64, 64));
}

/// A request to stop survives a crash; a worker that was not heard of for a minute may have its
/// name again.
#[test]
fn a_worker_still_drains_after_a_crash() {
    still_drains(Server::start(&[]));
    // Here a caller builds the board.
    still_drains(Server::start(&["max_worker_processes = 0"]));
}

fn still_drains(server: Server) {
    let database = server.database();
    let mut s = database.connect();
    let worker = s.text("select scylla.register_worker('{\"host\": \"a\"}')");
    assert!(s.value::<bool>("select scylla.drain_worker($1)", &[&worker]));
    s.submit_many("q", 2);
    server.kill();
    server.start_again();
    let mut s = database.connect();
    let own = "select count(*) from scylla.own_tasks($1, 'q')";
    assert_eq!(s.value::<i64>(own, &[&worker]), 0);
    let shown = "select bool_and(draining and meta = '{\"host\": \"a\"}') from scylla.workers where worker = $1";
    assert!(s.value::<bool>(shown, &[&worker]));
    assert_eq!(s.value::<i64>("select count(*) from scylla.own_tasks('other', 'q', 9)", &[]), 2);
}
