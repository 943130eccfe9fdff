//! A transaction that settles a task never waits for a lock on a dependent.

use crate::{assert_empty, return_all};
use client::*;
use std::time::Instant;

/// An open transaction that returned, aborted, cancelled or deleted one predecessor does not delay
/// the return of another. When it ends, the dependent is counted down correctly, at once.
#[test]
fn open_transactions_delay_no_return() {
    let database = database();
    let (mut s, mut holder) = (database.connect(), database.connect());
    // A return that waits for the holder would do so for ever.
    s.run("set statement_timeout = '30 s'");
    let ways =
        ["completed", "aborted", "cancel", "cancel dependent", "delete dependent", "submit", "add"];
    let mut late = Vec::new();
    for way in ways {
        for (mine, end) in [
            ("completed", "commit"),
            ("completed", "rollback"),
            ("aborted", "commit"),
            ("aborted", "rollback"),
        ] {
            let (first, second) = (s.submit("p"), s.submit("p"));
            let dependent = s.submit_after("q", &[first, second], "action => ''");
            let (lease, held) =
                (s.try_own_task(second).unwrap(), holder.try_own_task(first).unwrap());
            holder.run("begin");
            match way {
                "completed" | "aborted" => drop(holder.return_task(&held, way).unwrap()),
                "cancel" => assert!(holder.cancel(first)),
                "cancel dependent" => assert!(holder.cancel(dependent)),
                "delete dependent" => assert_eq!(holder.delete(&[dependent]), 1),
                "submit" => drop(holder.submit_after("later", &[dependent], "action => ''")),
                _ => assert_eq!(holder.link(held.id, dependent).unwrap(), 0),
            }
            assert_eq!(s.return_task(&lease, mine).unwrap(), mine, "{way}");
            holder.run(end);
            let ended = Instant::now();
            let gone = end == "commit" && way == "delete dependent";
            let expected = match (mine, way, end) {
                _ if gone => "",
                (_, "cancel dependent", "commit") => "cancelled",
                ("aborted", ..) | (_, "aborted" | "cancel", "commit") => "aborted",
                (_, "completed", "commit") => "ready",
                _ => "waiting",
            };
            let look = "select coalesce((select status from scylla.tasks where id = $1), '')";
            eventually(seconds(5), &format!("{way} {mine} {end}: {expected}"), || {
                (s.value::<String>(look, &[&dependent]) == expected).then_some(())
            });
            late.push(ended.elapsed());
            if expected == "waiting" {
                // the countdown is correct: one more end is enough
                assert!(s.own("w", "q", 9).is_empty());
                holder.complete(&held);
            }
            if ["ready", "waiting"].contains(&expected) {
                let lease = eventually(seconds(5), "the dependent is ready", || {
                    s.own("w", "q", 9).into_iter().next()
                });
                assert_eq!(lease.id, dependent, "{way} {mine} {end}");
                s.complete(&lease);
            }
            s.execute("select scylla.cancel_tasks(array(select id from scylla.task))", &[])
                .unwrap();
        }
    }
    late.sort();
    let median = late[late.len() / 2];
    assert!(median < milliseconds(60), "the scheduler counts down at once: {median:?} of {late:?}");
    // An edge whose removal was rolled back may remain.
    assert_eq!(s.count("select count(*) from scylla.countdown"), 0);
}

/// An open submission that depends on a task does not delay that task.
#[test]
fn open_submission_after_a_task_does_not_delay_it() {
    let database = database();
    let (mut s, mut holder) = (database.connect(), database.connect());
    let first = s.submit("p");
    let dependent = s.submit_after("q", &[first], "action => ''");
    s.submit_after("q", &[dependent], "action => ''");
    holder.run("begin");
    let last = holder.submit_after("q", &[dependent], "action => ''");
    s.end(first, "completed");
    assert_eq!(s.own_one("q").id, dependent);
    holder.run("commit");
    assert_eq!(s.status(last), "waiting");
}

/// Two aborts with the same dependents do not deadlock.
#[test]
fn aborts_with_shared_dependents_do_not_deadlock() {
    let database = database();
    let mut s = database.connect();
    for _ in 0..150 {
        let roots = [s.submit("p"), s.submit("p")];
        for _ in 0..20 {
            s.submit_after("q", &roots, "action => ''");
        }
        std::thread::scope(|scope| {
            for lease in s.own("w", "p", 2) {
                let mut s = database.connect();
                scope.spawn(move || s.return_task(&lease, "aborted").expect("aborts"));
            }
        });
    }
    eventually(seconds(5), "all are aborted", || (s.tasks("aborted") == 150 * 22).then_some(()));
    assert_empty(&mut s);
}

/// I10: thousands of dependents whose rows are locked neither keep the scheduler from its other
/// duties nor keep it busy.
#[test]
fn locked_dependents_do_not_occupy_the_scheduler() {
    let database = database();
    let (mut s, mut holder) = (database.connect(), database.connect());
    let roots = [s.submit("p"), s.submit("p")];
    let batch: Vec<Value> = (0..3_000).map(|_| json!({"queue": "q", "after": roots})).collect();
    s.execute("select * from scylla.submit_tasks($1)", &[&json!(batch)]).unwrap();
    let leases = s.own("w", "p", 2);
    holder.run("begin");
    holder.complete(&leases[0]);
    s.complete(&leases[1]);
    let expiring = s.submit("e");
    s.own_one_with("e", "timeout => '50 ms'");
    eventually(seconds(2), "leases expire meanwhile", || {
        (s.status(expiring) == "ready").then_some(())
    });
    sleep(milliseconds(300));
    let written = "select (pg_current_wal_insert_lsn() - '0/0')::int8";
    let before = s.count(written);
    sleep(milliseconds(500));
    let written = s.count(written) - before;
    assert!(written < 20_000_000, "{written} bytes in half a second");
    holder.run("commit");
    eventually(seconds(5), "all are ready", || {
        (s.count("select count(*) from scylla.task where ready") == 3_001).then_some(())
    });
    assert_eq!(s.own("w", "q", 5_000).len(), 3_000);
}

/// I1: deferred countdowns are run after the scheduler or the server ends in any way.
#[test]
fn countdowns_outlive_the_scheduler_and_the_server() {
    let server = Server::start(&[]);
    let database = server.database();
    let (mut s, mut holder) = (database.connect(), database.connect());
    let graph = |s: &mut Session, holder: &mut Session| {
        let roots = [s.submit("p"), s.submit("p")];
        let dependent = s.submit_after("q", &roots, "action => ''");
        let leases = s.own("w", "p", 2);
        holder.run("begin");
        holder.complete(&leases[0]);
        s.complete(&leases[1]);
        assert_eq!(s.count("select sum(settled) from scylla.countdown"), 1, "deferred");
        (dependent, leases[0].clone())
    };
    for _ in 0..3 {
        sleep(milliseconds(600)); // a scheduler that died just after its start is not restarted at once
        let (dependent, _) = graph(&mut s, &mut holder);
        server.terminate_scheduler(&database);
        holder.run("commit");
        eventually(seconds(10), "another scheduler runs it", || {
            (s.status(dependent) == "ready").then_some(())
        });
        let leases = s.own("w", "q", 2);
        return_all(&mut s, &leases);
    }
    let (dependent, lease) = graph(&mut s, &mut holder);
    server.kill();
    server.start_again();
    let mut s = database.connect();
    eventually(seconds(10), "the holder has rolled back", || {
        (s.count("select count(*) from scylla.countdown") == 0).then_some(())
    });
    assert_eq!(s.status(dependent), "waiting");
    assert!(s.own("w", "q", 2).is_empty());
    // its lease was young and is lost
    s.end(lease.id, "completed");
    assert_eq!(s.own_one("q").id, dependent);
    server.assert_log_is_clean();
}
