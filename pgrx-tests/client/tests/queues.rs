//! Settings of queues: from when they count, and for how long.

use client::*;
use std::thread;
use std::time::Instant;

/// B60: a setting counts from the next call on, in sessions that are open already and for tasks
/// that are there; the task's own comes before the queue's, and that before the server's.
#[test]
fn a_change_takes_effect_at_the_next_call_for_tasks_that_are_there() {
    let database = database();
    let (mut s, mut worker) = (database.connect(), database.connect());
    let (plain, own) = (s.submit("q"), s.submit_with("q", "max_tries => 3, retry_interval => '0'"));
    worker.own("w", "other", 1);
    worker.run("set scylla.lease_timeout = '10 s'");
    s.run("select scylla.configure_queue('q', timeout => '1 h', max_tries => 2, retry_interval => '1 h')");
    let leases = worker.own("w", "q", 2);
    assert!(leases.iter().all(|lease| lease.seconds_left.is_some_and(|left| left > 3_500.0)));
    let statuses: Vec<String> =
        leases.iter().map(|lease| worker.return_task(lease, "retry").expect("retry")).collect();
    assert_eq!(statuses, ["waiting", "ready"]);
    s.run("select scylla.reset_queue('q', 'retry_interval'), scylla.reset_queue('q', 'timeout')");
    s.value::<bool>("select scylla.delay($1, now())", &[&plain]);
    let leases = worker.own("w", "q", 2);
    assert!(leases.iter().all(|lease| lease.seconds_left.is_some_and(|left| left < 11.0)));
    let statuses: Vec<String> =
        leases.iter().map(|lease| worker.return_task(lease, "retry").expect("retry")).collect();
    assert_eq!(statuses, ["aborted", "ready"], "two tries, and three");
    assert_eq!(s.entry(plain)["errors"][0]["args"], json!({"max_tries": 2}));
    s.run("select scylla.configure_queue('q', max_tries => 0)");
    let lease = worker.own_one("q");
    assert_eq!((lease.id, lease.tries), (own, 3));
    assert_eq!(
        worker.return_task(&lease, "retry").expect("retry"),
        "aborted",
        "the task's own number"
    );
    let free = s.submit("q");
    for _ in 0..30 {
        let lease = worker.own_one("q");
        assert_eq!(
            (lease.id, worker.return_task(&lease, "retry").expect("retry").as_str()),
            (free, "ready")
        );
    }
}

/// Two change one queue at once: the second waits for the first, and neither change is lost.
#[test]
fn of_two_who_change_a_queue_the_later_one_counts() {
    let database = database();
    let (mut a, mut b) = (database.connect(), database.connect());
    a.submit("q");
    a.run("begin; select scylla.configure_queue('q', timeout => '1 h', max_tries => 7)");
    let second = thread::spawn(move || {
        b.run("select scylla.configure_queue('q', timeout => '2 h')");
        b
    });
    sleep(milliseconds(200));
    assert!(!second.is_finished());
    a.run("commit");
    let mut b = second.join().expect("the second one");
    assert!(b.own_one("q").seconds_left.is_some_and(|left| left > 7_000.0));
    assert_eq!(b.count("select max_tries::bigint from scylla.queue"), 7);
    // Many at once: what the board has is what the table has.
    thread::scope(|scope| {
        for n in 0..4 {
            let mut s = database.connect();
            scope.spawn(move || {
                for hours in 0..50 {
                    let timeout = format!("timeout => '{} h'", 1 + (hours * 7 + n * 13) % 40);
                    s.run(&format!("select scylla.configure_queue('q', {timeout})"));
                }
            });
        }
    });
    b.submit("q");
    let left = b.own_one("q").seconds_left.expect("a deadline");
    let hours = b.count("select (extract(epoch from timeout) / 3600)::bigint from scylla.queue");
    assert!((hours as f64 * 3_600.0 - left).abs() < 60.0, "{left} s of {hours} h");
}

/// Settings, a pause and critical mode outlive a restart, a crash and a lost board.
#[test]
fn settings_outlive_restarts_and_crashes() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    for queue in ["paused", "long", "plain"] {
        s.submit(queue);
    }
    s.run("select scylla.pause('paused'), scylla.configure_queue('long', timeout => '1 h', critical => true)");
    s.run("select scylla.critical_only(true)");
    let check = |s: &mut Session, what: &str| {
        assert_eq!(s.own("w", "paused", 1).len(), 0, "{what}");
        assert_eq!(s.own("w", "plain", 1).len(), 0, "{what}");
        let lease = s.own_one("long");
        assert!(lease.seconds_left.is_some_and(|left| left > 3_500.0), "{what}");
        s.return_task(&lease, "yield").expect("yield");
    };
    check(&mut s, "before");
    server.stop("fast");
    server.start_again();
    check(&mut database.connect(), "after a restart");
    server.kill();
    server.start_again();
    let mut s = database.connect();
    check(&mut s, "after a crash");
    server.terminate_scheduler(&database);
    check(&mut s, "with another scheduler");
    s.run("select scylla.critical_only(false), scylla.resume('paused')");
    server.kill();
    server.start_again();
    let mut s = database.connect();
    assert_eq!(["paused", "plain"].map(|queue| s.own("w", queue, 1).len()), [1, 1]);
    server.assert_log_is_clean();
}

/// A queue that the view shows can be paused: one whose only task has settled, too.
#[test]
fn a_queue_exists_as_long_as_the_view_shows_it() {
    let server = Server::start(&["scylla.retention = 0"]);
    let database = server.database();
    let mut s = database.connect();
    let shown = |s: &mut Session| s.text("select string_agg(queue, ' ') from scylla.queues");
    s.submit("q");
    let lease = s.own_one("q");
    s.complete(&lease);
    assert_eq!(shown(&mut s), "q");
    s.run("begin; select scylla.pause('q'); rollback");
    // The scheduler writes the totals as it exits.
    server.stop("fast");
    server.start_again();
    let mut s = database.connect();
    assert_eq!(shown(&mut s), "q");
    s.run("select scylla.pause('q')");
    assert_eq!(s.refused("select scylla.pause('none')"), "P0002");
}

/// Settings count in a database without a scheduler, too.
#[test]
fn settings_count_without_a_scheduler() {
    let server = Server::start(&["max_worker_processes = 1"]);
    let database = server.database();
    let mut s = database.connect();
    s.run("select scylla.configure_queue('q', timeout => '1 h')");
    s.submit("q");
    assert!(s.own_one("q").seconds_left.is_some_and(|left| left > 3_500.0));
    s.submit("q");
    s.run("select scylla.pause('q')");
    assert_eq!(s.own("w", "q", 1).len(), 0);
    s.run("select scylla.resume('q')");
    assert_eq!(s.own("w", "q", 1).len(), 1);
}

/// The migration that creates the extension may configure its queues.
#[test]
fn the_transaction_that_creates_the_extension_may_configure_queues() {
    let database = Server::shared().bare_database();
    let mut s = database.connect();
    s.run(
        "begin; create extension scylla;
         select scylla.configure_queue('q', timeout => '1 h'), scylla.submit('q');
         commit",
    );
    assert!(s.own_one("q").seconds_left.is_some_and(|left| left > 3_500.0));
}

/// A task of a paused queue wakes no process, and costs none; `resume` wakes as many as there are
/// tasks.
#[test]
fn a_paused_queue_wakes_no_process_until_it_is_resumed() {
    let server = Server::start(&["scylla.notify_interval = '1 min'"]);
    let database = server.database();
    let mut s = database.connect();
    s.run("select scylla.configure_queue('q')");
    // Tasks that only the table knows would wake one process; rounds wake the others.
    s.submit("q");
    let lease = s.own_one("q");
    s.complete(&lease);
    s.run("select scylla.pause('q')");
    let waiters = [(); 3].map(|_| wait_for_work(&database, "q"));
    let scheduler = database.scheduler();
    s.submit_many("q", 2);
    sleep(milliseconds(300));
    let pids = waiters.each_ref().map(|(pid, _)| *pid);
    let before = pids.map(sleeps);
    let scheduled = sleeps(scheduler);
    let begun = Instant::now();
    sleep(seconds(2));
    assert!(waiters.iter().all(|(_, waits)| !waits.is_finished()));
    let most = 1 + begun.elapsed().as_secs() as i64 / 5;
    for (pid, before) in pids.iter().zip(before) {
        assert!(sleeps(*pid) - before <= most, "a waiter is only woken by its backstop");
    }
    let most = 12 * begun.elapsed().as_secs() as i64 / 2;
    assert!(sleeps(scheduler) - scheduled <= most, "the scheduler sweeps once a second");

    s.run("begin; select scylla.resume('q'); rollback");
    sleep(milliseconds(300));
    assert!(waiters.iter().all(|(_, waits)| !waits.is_finished()), "a rollback resumes nothing");
    s.run("select scylla.resume('q')");
    eventually(seconds(3), "two wake", || {
        (waiters.iter().filter(|(_, waits)| waits.is_finished()).count() == 2).then_some(())
    });
    sleep(milliseconds(500));
    let left = waiters.iter().filter(|(_, waits)| !waits.is_finished()).count();
    assert_eq!(left, 1, "there are two tasks");
    s.submit("q");
    for (_, waits) in waiters {
        assert!(waits.join().expect("a waiter"));
    }
}

/// B104: the end of critical mode wakes those who wait for other queues.
#[test]
fn the_end_of_critical_mode_wakes_waiting_processes() {
    let database = database();
    let mut s = database.connect();
    s.run("select scylla.critical_only(true)");
    let waiters = ["a", "b", "c"].map(|queue| wait_for_work(&database, queue).1);
    for queue in ["a", "b", "c"] {
        s.submit(queue);
    }
    sleep(milliseconds(300));
    assert!(waiters.iter().all(|waits| !waits.is_finished()));
    s.run("select scylla.critical_only(false)");
    promptly(|| waiters.map(|waits| assert!(waits.join().expect("a waiter"))));
}

/// All leases of a worker end at once, also while their rows are locked: then the call waits.
#[test]
fn release_worker_ends_many_leases_and_waits_for_locked_rows() {
    let database = database();
    let (mut s, mut other) = (database.connect(), database.connect());
    s.submit_many("q", 3_000);
    let mine = s.own_with("gone", "q", 2_500, "timeout => '1 h'");
    assert_eq!(other.own_with("stays", "q", 500, "timeout => '1 h'").len(), 500);
    other.run("begin");
    other.cancel(mine[7].id);
    let release = thread::spawn(move || {
        let released: i32 = s.value("select scylla.release_worker('gone')", &[]);
        (s, released)
    });
    sleep(milliseconds(300));
    assert!(!release.is_finished());
    other.run("commit");
    let (mut s, released) = release.join().expect("the release");
    assert_eq!(released, 2_500);
    assert_eq!((s.tasks("ready"), s.tasks("running"), s.tasks("cancelled")), (2_499, 500, 1));
    assert_eq!(s.own("other", "q", 5_000).len(), 2_499);
}

/// B34: a worker that was released and lives on does not have its tasks back, though no other has
/// them: its heartbeats and returns are refused, from the call on in its own transaction.
#[test]
fn a_released_worker_does_not_have_its_tasks_back() {
    let database = database();
    let (mut s, mut other) = (database.connect(), database.connect());
    s.submit_many("q", 2);
    let leases = s.own_with("w", "q", 2, "timeout => '1 h'");
    let (ids, tokens): (Vec<Uuid>, Vec<Uuid>) = leases.iter().map(|it| (it.id, it.token)).unzip();
    let beat = |s: &mut Session| -> Vec<String> {
        s.value(
            "select array_agg(state) from scylla.heartbeat('w', $1, $2, timeout => '1 h')",
            &[&ids, &tokens],
        )
    };
    let release = "select scylla.release_worker('w')";
    s.run("begin");
    assert_eq!(s.value::<i32>(release, &[]), 2);
    assert_eq!(beat(&mut s), ["lost"; 2]);
    assert_eq!(beat(&mut other), ["held"; 2], "before the commit");
    s.run("rollback");
    assert_eq!(beat(&mut s), ["held"; 2], "a rollback takes nothing from it");
    s.run("select scylla.pause('q')");
    assert_eq!(s.value::<i32>(release, &[]), 2);
    assert_eq!(beat(&mut s), ["lost"; 2]);
    assert!(!s.extend(&leases[0]));
    assert_eq!(s.not_returned(&leases[0]).code().code(), "55006");
    assert_eq!(s.history(ids[0]), ["Assignment", "Timeout"]);
    assert_eq!((s.tasks("ready"), s.tasks("running")), (2, 0));
    s.run("select scylla.resume('q')");
    let again = s.own("w", "q", 2);
    assert_eq!(again.len(), 2, "it may own them again");
    again.iter().for_each(|it| s.complete(it));
}

/// B60: a completed task of such a queue leaves nothing behind, and those that wait for it go on.
#[test]
fn completed_tasks_of_a_queue_that_keeps_none_leave_nothing() {
    let database = database();
    let mut s = database.connect();
    s.run("select scylla.configure_queue('q', keep_finished => false)");
    let ids = s.submit_many("q", 1_000);
    let after = s.submit_after("after", &ids, "priority => 0");
    let leases = s.own("w", "q", 1_000);
    let (ids, tokens): (Vec<Uuid>, Vec<Uuid>) = leases.iter().map(|it| (it.id, it.token)).unzip();
    let answers: Vec<String> = s.value("select scylla.return_tasks($1, $2)", &[&ids, &tokens]);
    assert!(answers.iter().all(|it| it == "completed"));
    assert_eq!(s.count("select count(*) from scylla.finished"), 0);
    assert_eq!(s.own_one("after").id, after);
    assert_eq!(s.not_returned(&leases[0]).code().code(), "P0002");
    let lease = s.submit_with("q", &format!("id => '{}'", ids[0]));
    assert_eq!(lease, ids[0], "its id is free again");
}
