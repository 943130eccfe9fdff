//! `cancel_matching`, `resubmit_matching` and `delete_matching`.

use client::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

fn act(s: &mut Session, what: &str, arguments: &str) -> i64 {
    s.value(&format!("select scylla.{what}_matching({arguments})"), &[])
}

/// A dry run counts what the call then does, and changes nothing.
#[test]
fn a_dry_run_counts_and_changes_nothing() {
    let database = database();
    let mut s = database.connect();
    s.submit_many("q", 5);
    s.submit_many("other", 3);
    s.own_with("w", "q", 2, "timeout => '1 day'");
    s.submit_with("q", "run_at => now() + interval '1 day'");
    for (filter, wanted) in [
        (r#"{"queue": "q"}"#, 6),
        (r#"{"queue": "q", "status": "running"}"#, 2),
        (r#"{"worker": "w"}"#, 2),
        (r#"{"queue": "q", "status": "ready"}"#, 3),
        (r#"{"status": "waiting"}"#, 1),
        (r#"{"status": "completed"}"#, 0),
        (r#"{"queue": "none"}"#, 0),
        ("{}", 9),
    ] {
        let counted = act(&mut s, "cancel", &format!("'{filter}', dry_run => true"));
        assert_eq!(counted, wanted, "{filter}");
        s.run("begin");
        assert_eq!(act(&mut s, "cancel", &format!("'{filter}'")), wanted, "{filter}");
        assert_eq!(act(&mut s, "cancel", &format!("'{filter}'")), 0, "{filter} again");
        assert_eq!(s.tasks("cancelled"), wanted, "{filter}");
        s.run("rollback");
        assert_eq!(s.tasks("cancelled"), 0);
    }
    s.run("begin read only");
    assert_eq!(act(&mut s, "cancel", "'{}', dry_run => true"), 9);
    assert_eq!(s.refused("select scylla.cancel_matching('{}')"), "25006");
    s.run("rollback");
    for wrong in ["'{}', 0", "'{}', -1"] {
        assert_eq!(s.refused(&format!("select scylla.cancel_matching({wrong})")), "22023");
    }
    assert_eq!(s.refused("select scylla.cancel_matching('{}', dry_run => null)"), "22004");
    assert_eq!(act(&mut s, "cancel", "'{}', 2147483647"), 9);
}

/// With `max_tasks` a call ends some, and calls that are repeated end all, each once.
#[test]
fn repeated_calls_end_all_tasks_once() {
    let database = database();
    let mut s = database.connect();
    s.submit_many("q", 2_500);
    let mut calls = Vec::new();
    loop {
        match act(&mut s, "cancel", r#"'{"queue": "q"}', 1000"#) {
            0 => break,
            some => calls.push(some),
        }
    }
    assert_eq!(calls, [1_000, 1_000, 500]);
    assert_eq!(act(&mut s, "resubmit", r#"'{"queue": "q"}', 2000"#), 2_000);
    assert_eq!(act(&mut s, "resubmit", r#"'{"queue": "q"}', dry_run => true"#), 500);
    assert_eq!(act(&mut s, "resubmit", r#"'{"queue": "q"}'"#), 500);
    assert_eq!(act(&mut s, "resubmit", r#"'{"queue": "q"}'"#), 0);
    assert_eq!(s.tasks("ready"), 2_500);
    let distinct =
        "select count(distinct resubmitted_from) from scylla.tasks where status = 'ready'";
    assert_eq!(s.count(distinct), 2_500);
    assert_eq!(s.own("w", "q", 3_000).len(), 2_500);
    assert_eq!(act(&mut s, "delete", r#"'{"status": "cancelled"}', 100"#), 100);
    assert_eq!(act(&mut s, "delete", "'{}'"), 4_900);
    assert_eq!(s.count("select count(*) from scylla.tasks"), 0);
    let numbers = "select ready + waiting + running from scylla.queues where queue = 'q'";
    eventually(seconds(10), "nothing is counted", || (s.count(numbers) == 0).then_some(()));
}

/// Only aborted and cancelled tasks are resubmitted, with what `resubmit` copies; those of an
/// earlier `resubmit` are left out.
#[test]
fn what_was_resubmitted_is_left_out() {
    let database = database();
    let mut s = database.connect();
    let ids = s.submit_many("q", 4);
    for (id, outcome) in ids.iter().zip(["completed", "aborted", "aborted"]) {
        s.end(*id, outcome);
    }
    s.cancel(ids[3]);
    s.value::<Vec<Option<Uuid>>>("select scylla.resubmit($1)", &[&vec![ids[1]]]);
    assert_eq!(act(&mut s, "resubmit", r#"'{"status": "completed"}'"#), 0);
    assert_eq!(act(&mut s, "resubmit", r#"'{"status": "aborted"}'"#), 1);
    assert_eq!(act(&mut s, "resubmit", "'{}'"), 1);
    assert_eq!(s.tasks("ready"), 3);
    assert_eq!(act(&mut s, "cancel", "'{}'"), 3);
    // The repetitions are cancelled tasks themselves.
    assert_eq!(act(&mut s, "resubmit", "'{}'"), 3);
    s.run("select scylla.configure_queue('q', max_ready => 4)");
    s.submit("q");
    let lease = s.own("w", "q", 2);
    for it in &lease {
        s.return_task(it, "aborted").expect("a lease");
    }
    s.run("select scylla.configure_queue('q', max_ready => 2)");
    assert_eq!(s.refused("select scylla.resubmit_matching('{}')"), "53400");
    assert_eq!(s.tasks("ready"), 2);
    assert_eq!(act(&mut s, "resubmit", "'{}', dry_run => true"), 2);
}

/// Deleting takes dependents along that are left with nothing to wait for; it counts what the
/// filter takes.
#[test]
fn deleting_takes_dependents_along() {
    let database = database();
    let mut s = database.connect();
    let first = s.submit("first");
    let both = s.submit_after("second", &[first], "priority => 0");
    s.submit_after("first", &[first], "priority => 0");
    s.submit_after("third", &[both], "priority => 0");
    assert_eq!(act(&mut s, "delete", r#"'{"queue": "first"}', dry_run => true"#), 2);
    assert_eq!(act(&mut s, "delete", r#"'{"queue": "first"}'"#), 2);
    assert_eq!(s.count("select count(*) from scylla.task"), 0);
    // Without the right to delete a dependent, nothing goes.
    let first = s.submit("first");
    s.submit_after("second", &[first], "priority => 0");
    s.run("create role deletes_first; select scylla.grant('first', 'deletes_first', '{cancel}')");
    s.run("set role deletes_first");
    let error = s.refusal(r#"select scylla.delete_matching('{"queue": "first"}')"#, &[]);
    assert_eq!(error.code().code(), "42501");
    assert!(error.hint().unwrap().contains("'deletes_first'"), "{error:?}");
    s.run("reset role");
    assert_eq!(s.count("select count(*) from scylla.task"), 2);
}

/// A role acts on the queues that it may, and learns nothing of what is in those that it may not
/// look at.
#[test]
fn a_role_acts_where_it_may() {
    let database = database();
    let mut s = database.connect();
    s.run("create role some_of_it; select scylla.grant('a', 'some_of_it', '{cancel}')");
    s.run("select scylla.grant('b', 'some_of_it', '{cancel,look,manage}'), scylla.grant('c', 'some_of_it', '{look}')");
    for queue in ["a", "b", "c"] {
        s.submit_with(queue, r#"spec => '{"secret": 1}', key => 'k'"#);
    }
    s.run("set role some_of_it");
    for (filter, answer) in [
        (r#"{"queue": "c"}"#, Err("42501")),
        (r#"{"queue": "a", "spec": {"secret": 1}}"#, Err("42501")),
        (r#"{"queue": "a", "key": "k"}"#, Err("42501")),
        (r#"{"queue": "a", "worker": "w"}"#, Err("42501")),
        (r#"{"queue": "a", "meta": {}}"#, Err("42501")),
        (r#"{"spec": {"secret": 1}}"#, Ok(1)),
        (r#"{"queue": "a"}"#, Ok(1)),
        ("{}", Ok(2)),
    ] {
        for what in ["cancel", "delete"] {
            let arguments = format!("'{filter}', dry_run => true");
            match answer {
                Ok(count) => assert_eq!(act(&mut s, what, &arguments), count, "{filter}"),
                Err(code) => {
                    let call = format!("select scylla.{what}_matching({arguments})");
                    assert_eq!(s.refused(&call), code, "{what} {filter}");
                }
            }
        }
    }
    assert_eq!(act(&mut s, "cancel", "'{}'"), 2);
    assert_eq!(s.refused(r#"select scylla.resubmit_matching('{"queue": "a"}')"#), "42501");
    assert_eq!(act(&mut s, "resubmit", "'{}'"), 1);
    assert_eq!(act(&mut s, "delete", "'{}'"), 3);
    s.run("reset role");
    assert_eq!(
        s.count("select count(*) from scylla.tasks where queue = 'c' and status = 'ready'"),
        1
    );
    assert_eq!(s.count("select count(*) from scylla.tasks"), 1);
}

/// A right that is taken away while the call waits for a row is gone when it goes on.
#[test]
fn rights_are_those_when_the_row_is_locked() {
    let database = database();
    let (mut s, mut holder, mut caller) =
        (database.connect(), database.connect(), database.connect());
    let id = s.submit("q");
    let aborted = s.submit("q");
    s.end(aborted, "aborted");
    s.run("create role cancels_q; select scylla.grant('q', 'cancels_q', '{cancel,manage}')");
    for (call, named) in [
        ("select scylla.cancel_matching('{\"queue\": \"q\"}')", true),
        ("select scylla.cancel_matching('{}')", false),
        ("select scylla.delete_matching('{\"status\": \"ready\"}')", false),
    ] {
        s.run("select scylla.grant('q', 'cancels_q', '{cancel,manage}')");
        holder.run("begin");
        holder.run(&format!("select from scylla.task where id = '{id}' for update"));
        caller.run("set role cancels_q");
        let (pid, answer) = thread::scope(|scope| {
            let (pid, caller) = (caller.pid, &mut caller);
            let waits = scope.spawn(move || caller.try_value::<i64>(call, &[]));
            eventually(seconds(10), "the call waits", || {
                let sql = "select count(*) from pg_stat_activity where pid = $1 and wait_event_type = 'Lock'";
                (s.value::<i64>(sql, &[&pid]) == 1).then_some(())
            });
            s.run("select scylla.revoke('q', 'cancels_q', '{cancel,manage}')");
            holder.run("commit");
            (pid, waits.join().expect("the call ends"))
        });
        assert_ne!(pid, 0);
        match named {
            true => assert_eq!(code(&answer.expect_err("refused")), "42501"),
            false => assert_eq!(answer.expect("nothing matches"), 0, "{call}"),
        }
        assert_eq!(s.status(id), "ready", "{call}");
    }
}

/// What a task has become while the call waited for its row decides.
#[test]
fn what_changed_meanwhile_does_not_match() {
    let database = database();
    let (mut s, mut holder, mut caller) =
        (database.connect(), database.connect(), database.connect());
    let id = s.submit("q");
    for (change, wanted) in
        [("select scylla.delay($1, now() + interval '1 day')", 0), ("select scylla.cancel($1)", 0)]
    {
        holder.run("begin");
        holder.value::<bool>(change, &[&id]);
        let answer = thread::scope(|scope| {
            let (pid, caller) = (caller.pid, &mut caller);
            let sql = r#"select scylla.cancel_matching('{"queue": "q"}')"#;
            let sql = if change.contains("delay") {
                r#"select scylla.cancel_matching('{"status": "ready"}')"#
            } else {
                sql
            };
            let waits = scope.spawn(move || caller.try_value::<i64>(sql, &[]));
            eventually(seconds(10), "the call waits", || {
                let sql = "select count(*) from pg_stat_activity where pid = $1 and wait_event_type = 'Lock'";
                (s.value::<i64>(sql, &[&pid]) == 1).then_some(())
            });
            holder.run("commit");
            waits.join().expect("the call ends")
        });
        assert_eq!(answer.expect("a number"), wanted, "{change}");
    }
    assert_eq!(s.history(id).len(), 0);
    assert_eq!(s.status(id), "cancelled");
}

/// While workers own and return, bulk cancels, deletes and resubmissions lose nothing, and each
/// task ends once.
#[test]
fn bulk_calls_beside_workers_lose_nothing() {
    let database = database();
    let mut s = database.connect();
    s.submit_many("q", 5_000);
    let is_over = AtomicBool::new(false);
    let (mut cancelled, mut resubmitted) = (0, 0);
    thread::scope(|scope| {
        for n in 0..3 {
            let (database, is_over) = (&database, &is_over);
            scope.spawn(move || {
                let mut s = database.connect();
                while !is_over.load(Ordering::Relaxed) {
                    for lease in s.own(&format!("w{n}"), "q", 20) {
                        // 55000: cancelled meanwhile.
                        if let Err(error) = s.return_task(&lease, "completed") {
                            assert_eq!(code(&error), "55000");
                        }
                    }
                }
            });
        }
        for at in 0..40 {
            let filter = [
                r#"{"queue": "q", "status": "ready"}"#,
                r#"{"queue": "q"}"#,
                r#"{"worker": "w1"}"#,
            ][at % 3];
            cancelled += act(&mut s, "cancel", &format!("'{filter}', 60"));
            if at % 4 == 0 {
                resubmitted += act(&mut s, "resubmit", r#"'{"queue": "q"}', 50"#);
            }
        }
        eventually(seconds(60), "all is done", || {
            (s.count("select count(*) from scylla.task") == 0).then_some(())
        });
        is_over.store(true, Ordering::Relaxed);
    });
    let settled = "select count(*) from scylla.finished where queue = 'q'";
    assert_eq!(s.count(settled), 5_000 + resubmitted);
    assert_eq!(s.count("select count(distinct id) from scylla.finished"), 5_000 + resubmitted);
    assert_eq!(s.tasks("cancelled"), cancelled);
    assert!(cancelled > 0 && resubmitted > 0);
    let numbers = "select ready + waiting + running from scylla.queues where queue = 'q'";
    eventually(seconds(10), "nothing is counted", || (s.count(numbers) == 0).then_some(()));
}

/// A server that dies in the middle of a bulk call has done nothing of it.
#[test]
fn a_crash_in_the_middle_undoes_all_of_it() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    for _ in 0..5 {
        s.submit_many("q", 20_000);
    }
    let mut other = database.connect();
    other.run("begin");
    assert_eq!(act(&mut other, "cancel", r#"'{"queue": "q"}', 60000"#), 60_000);
    assert_eq!(act(&mut other, "resubmit", r#"'{"queue": "q"}', 100"#), 100);
    server.kill();
    server.start_again();
    let mut s = database.connect();
    assert_eq!(s.count("select count(*) from scylla.task"), 100_000);
    assert_eq!(s.count("select count(*) from scylla.finished"), 0);
    assert_eq!(act(&mut s, "cancel", r#"'{"queue": "q"}'"#), 100_000);
    assert!(s.own("w", "q", 1).is_empty());
}

/// Sessions that resubmit and delete what has the same few keys wait for each other in one order:
/// for the settled tasks first, then for the live one.
#[test]
fn deleting_and_resubmitting_what_has_one_key_takes_turns() {
    let database = database();
    let ends = AtomicBool::new(false);
    let calls = ["fill", "resubmit", "resubmit", "delete", "delete"];
    thread::scope(|scope| {
        let sessions = calls.map(|what| {
            let (mut s, ends) = (database.connect(), &ends);
            scope.spawn(move || {
                let mut done = 0;
                while !ends.load(Ordering::Relaxed) {
                    for key in ["a", "b", "c"] {
                        let filter = format!(r#"{{"queue": "q", "key": "{key}"}}"#);
                        let submit =
                            format!("scylla.submit('q', key => '{key}', on_conflict => 'ignore')");
                        let calls = match what {
                            "fill" => vec![
                                submit.clone(),
                                format!("scylla.cancel_matching('{filter}')"),
                                submit,
                            ],
                            _ => vec![format!("scylla.{what}_matching('{filter}')")],
                        };
                        for call in calls {
                            s.run(&format!("select {call}"));
                            done += 1;
                        }
                    }
                }
                done
            })
        });
        sleep(seconds(3));
        ends.store(true, Ordering::Relaxed);
        let done = sessions.map(|it| it.join().expect("no deadlock"));
        assert!(done.iter().all(|it| *it > 20), "{done:?}");
    });
    Server::shared().assert_log_is_clean();
}
