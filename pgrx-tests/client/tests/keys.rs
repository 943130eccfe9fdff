//! Keys: one unfinished task for each queue and key, also while many sessions submit, own and
//! return.

use client::*;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

fn submit(s: &mut Session, key: &str, on_conflict: &str) -> Result<Uuid, String> {
    let sql = "select scylla.submit('q', key => $1, on_conflict => $2)";
    s.try_value(sql, &[&key, &on_conflict]).map_err(|error| code(&error))
}

fn holder(s: &mut Session, key: &str) -> Option<Uuid> {
    s.value("select scylla.task_id('q', $1)", &[&key])
}

/// B74: a queue has at most one unfinished task with a key.
#[test]
fn key_admits_one_unfinished_task() {
    let database = database();
    let mut s = database.connect();
    assert_eq!(holder(&mut s, "k"), None);
    let first = submit(&mut s, "k", "error").unwrap();
    assert_eq!(submit(&mut s, "k", "error"), Err("23505".into()));
    assert_eq!(submit(&mut s, "k", "ignore"), Ok(first));
    assert_eq!(holder(&mut s, "k"), Some(first));
    s.submit_with("other", "key => 'k'");
    let lease = s.own_one("q");
    assert_eq!(submit(&mut s, "k", "error"), Err("23505".into()), "a running task is unfinished");
    assert_eq!(submit(&mut s, "k", "ignore"), Ok(first));
    s.complete(&lease);
    assert_eq!(holder(&mut s, "k"), None);
    let second = submit(&mut s, "k", "error").unwrap();
    assert_ne!(second, first, "once it is settled, the key is free");
    // a waiting task has its key too
    let waiting = s.submit_after("q", &[second], "key => 'w'");
    assert_eq!(submit(&mut s, "w", "error"), Err("23505".into()));
    s.cancel(second);
    assert_eq!((s.status(waiting), holder(&mut s, "w")), ("aborted".into(), None));
    let batch = json!([
        {"queue": "q", "key": "a"},
        {"queue": "q", "key": "a"},
        {"queue": "q", "key": "a", "on_conflict": "ignore"},
        {"queue": "other", "key": "k", "on_conflict": "ignore"},
        {"queue": "other", "key": "k"}
    ]);
    let rows = s
        .query(
            "select outcome, id = scylla.task_id('q', 'a') from scylla.submit_tasks($1, false)",
            &[&batch],
        )
        .unwrap();
    let outcomes: Vec<(String, bool)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let words: Vec<&str> = outcomes.iter().map(|it| it.0.as_str()).collect();
    assert_eq!(words, ["inserted", "duplicate", "duplicate", "duplicate", "duplicate"]);
    assert!(outcomes[0].1 && outcomes[2].1);
}

/// A conflict reports its constraint, table and schema, so that drivers can map it.
#[test]
fn conflict_names_its_constraint() {
    let database = database();
    let mut s = database.connect();
    let id = s.submit_with("q", "key => 'k'");
    let conflicts = [
        (format!("submit('q', id => '{id}')"), "task_pkey"),
        (format!("submit_tasks('[{{\"queue\": \"q\", \"id\": \"{id}\"}}]')"), "task_pkey"),
        ("submit('q', key => 'k')".to_owned(), "task_key"),
        ("submit_tasks('[{\"queue\": \"q\", \"key\": \"k\"}]')".to_owned(), "task_key"),
        (
            "submit_tasks('[{\"queue\": \"q\", \"key\": \"l\"}, {\"queue\": \"q\", \"key\": \"l\"}]')"
                .to_owned(),
            "task_key",
        ),
    ];
    for (call, constraint) in &conflicts {
        let error = s.refusal(&format!("select scylla.{call}"), &[]);
        assert_eq!(error.code().code(), "23505", "{call}");
        let named = [error.schema(), error.table(), error.constraint()];
        assert_eq!(named, [Some("scylla"), Some("task"), Some(*constraint)], "{call}");
    }
    let error = s.refusal("select scylla.submit('q', key => 'k')", &[]);
    assert_eq!(error.message(), "key \"k\" already exists in queue \"q\"");
    assert_eq!(error.detail(), Some(format!("Task {id} holds it.").as_str()));
    let error = s.refusal("select scylla.submit('')", &[]);
    assert_eq!((error.code().code(), error.constraint()), ("22023", None));
    // A function that catches the error gets these fields too, every time.
    s.run(&format!(
        "do $$
         declare named text; seen text[] := '{{}}';
         begin
             for n in 1..200 loop
                 begin
                     perform scylla.{};
                 exception when unique_violation then
                     get stacked diagnostics named = constraint_name;
                     seen := seen || named;
                 end;
             end loop;
             assert seen = array_fill('task_key'::text, array[200]), seen::text;
         end $$",
        conflicts[2].0
    ));
    assert_eq!(s.own("w", "q", 9).len(), 1, "the session is usable");
}

/// B71: `replace` cancels the existing task and submits the new one, unless a worker owns the
/// existing task.
#[test]
fn replace_swaps_a_task_that_is_not_running() {
    let database = database();
    let (mut s, mut other) = (database.connect(), database.connect());
    let old = submit(&mut s, "k", "replace").unwrap();
    let dependent = s.submit_after("f", &[old], "on_failure => 'run'");
    let new = submit(&mut s, "k", "replace").unwrap();
    assert_eq!((s.status(old), holder(&mut s, "k")), ("cancelled".into(), Some(new)));
    assert_eq!(
        (s.status(dependent), &s.entry(dependent)["num_failures"]),
        ("ready".into(), &json!(1))
    );
    // owned by a committed transaction, and by an open one
    other.run("begin");
    let lease = other.own_one("q");
    assert_eq!(lease.id, new);
    assert_eq!(submit(&mut s, "k", "replace"), Err("55006".into()));
    other.run("rollback");
    let newer = submit(&mut s, "k", "replace").unwrap();
    let lease = other.own_one("q");
    assert_eq!(lease.id, newer);
    assert_eq!(submit(&mut s, "k", "replace"), Err("55006".into()));
    assert!(other.extend(&lease), "the owner is left alone");
    assert_eq!(other.return_task(&lease, "yield").unwrap(), "ready");
    let newest = submit(&mut s, "k", "replace").unwrap();
    // a task whose lease has expired has no owner
    other.own_one_with("q", "timeout => '20 ms'");
    eventually(seconds(5), "the lease expires", || (s.status(newest) == "ready").then_some(()));
    let last = submit(&mut s, "k", "replace").unwrap();
    let waiting = s.submit_after("q", &[last], "key => 'w'");
    let instead = submit(&mut s, "w", "replace").unwrap();
    assert_eq!((s.status(waiting), s.status(instead)), ("cancelled".into(), "ready".into()));
    s.end(last, "completed");
    s.end(instead, "completed");
    assert_eq!(s.count("select count(*) from scylla.dependency"), 0);
}

/// A replacement that depends on the replaced task, or on one that ends with it, does not wait for
/// ever.
#[test]
fn replacement_may_depend_on_the_task_it_replaces() {
    let database = database();
    let mut s = database.connect();
    for (policy, status) in [("abort", "aborted"), ("run", "ready")] {
        let old = submit(&mut s, policy, "error").unwrap();
        let taken_along = s.submit_after("q", &[old], "action => ''");
        let other = s.submit("q");
        let options =
            format!("key => '{policy}', on_conflict => 'replace', on_failure => '{policy}'");
        let new = s.submit_after("q", &[taken_along, old, other], &options);
        assert_eq!(s.status(taken_along), "aborted");
        s.cancel(other);
        assert_eq!(s.status(new), status);
        s.cancel(new);
    }
    assert_eq!(s.count("select count(*) from scylla.dependency"), 0);
}

/// I2: a replacement that rolls back leaves the old task as it was.
#[test]
fn rolled_back_replacement_leaves_the_old_task() {
    let database = database();
    let (mut s, mut other) = (database.connect(), database.connect());
    let old = submit(&mut s, "k", "error").unwrap();
    for end in ["rollback", "rollback to savepoint s; commit"] {
        s.run("begin; savepoint s");
        let new = submit(&mut s, "k", "replace").unwrap();
        submit(&mut s, "k", "replace").unwrap();
        assert!(other.own("w", "q", 9).is_empty(), "neither can be owned meanwhile");
        assert_eq!(other.try_own_task(old).map_err(|e| code(&e)).unwrap_err(), "55000");
        s.run(end);
        assert_eq!(holder(&mut s, "k"), Some(old));
        assert_eq!(s.refusal("select scylla.task($1)", &[&new]).code().code(), "P0002");
        let leases = other.own("w", "q", 9);
        assert_eq!(leases.iter().map(|lease| lease.id).collect::<Vec<_>>(), [old], "{end}");
        assert_eq!(other.return_task(&leases[0], "yield").unwrap(), "ready");
    }
    // partly rolled back: the first replacement remains
    s.run("begin");
    let kept = submit(&mut s, "k", "replace").unwrap();
    s.run("savepoint s");
    submit(&mut s, "k", "replace").unwrap();
    s.run("rollback to savepoint s; commit");
    let leases = other.own("w", "q", 9);
    assert_eq!(leases.iter().map(|lease| lease.id).collect::<Vec<_>>(), [kept]);
    assert_eq!(s.status(old), "cancelled");
}

/// Two batches with the same keys in opposite orders do not deadlock: none fails with 40P01.
#[test]
fn batches_with_the_same_keys_do_not_deadlock() {
    let database = database();
    let keys: Vec<Value> = (0..100)
        .map(|n| json!({"queue": "q", "key": format!("k{n}"), "on_conflict": "ignore"}))
        .collect();
    let backwards: Vec<Value> = keys.iter().rev().cloned().collect();
    std::thread::scope(|scope| {
        for batch in [keys, backwards] {
            let mut s = database.connect();
            scope.spawn(move || {
                for _ in 0..40 {
                    s.run("begin");
                    s.execute("select * from scylla.submit_tasks($1)", &[&json!(batch)]).unwrap();
                    s.run("rollback");
                }
            });
        }
    });
}

/// I3: with eight connections on two keys, no key has two unfinished tasks, and an owned task is
/// never replaced: each lease can be returned.
#[test]
fn owned_task_is_never_replaced() {
    let database = database();
    let rounds = AtomicI64::new(3_000);
    let leased: Mutex<HashMap<String, i64>> = Mutex::default();
    std::thread::scope(|scope| {
        for n in 0..8 {
            let (mut s, rounds, leased) = (database.connect(), &rounds, &leased);
            scope.spawn(move || {
                if n % 4 == 3 {
                    s.run("set default_transaction_isolation = 'repeatable read'");
                }
                while rounds.fetch_sub(1, Ordering::Relaxed) > 0 {
                    let key = if rand::random_bool(0.5) { "a" } else { "b" };
                    if n < 5 {
                        let how =
                            ["error", "ignore", "replace", "replace"][rand::random_range(0..4)];
                        let in_block = rand::random_bool(0.3);
                        if in_block {
                            s.run("begin");
                        }
                        match submit(&mut s, key, how) {
                            Ok(_) => {}
                            Err(state) if how == "error" && state == "23505" => {}
                            Err(state) if how == "replace" && state == "55006" => {}
                            Err(state) if n == 3 && state == "40001" => {}
                            Err(state) => panic!("{how}: {state}"),
                        }
                        if in_block {
                            s.run(if rand::random_bool(0.5) { "commit" } else { "rollback" });
                        }
                        continue;
                    }
                    let in_block = rand::random_bool(0.3);
                    if in_block {
                        s.run("begin");
                    }
                    let leases = s.own("w", "q", 2);
                    if in_block && rand::random_bool(0.3) {
                        s.run("rollback");
                        continue;
                    }
                    if in_block {
                        s.run("commit");
                    }
                    for lease in leases {
                        assert!(s.extend(&lease), "taken away from its owner");
                        let outcome = ["completed", "retry", "yield"][rand::random_range(0..3)];
                        match s.return_task(&lease, outcome).map_err(|error| code(&error)) {
                            Ok(_) => {
                                *leased.lock().unwrap().entry(outcome.into()).or_default() += 1
                            }
                            Err(state) if n == 7 && state == "40001" => {
                                s.execute("select scylla.cancel($1)", &[&lease.id]).ok();
                            }
                            Err(state) => panic!("{outcome}: {state}"),
                        }
                    }
                }
            });
        }
    });
    let mut s = database.connect();
    let cancelled = s.count(
        "select count(*) from scylla.tasks where status = 'cancelled' and owner is not null and tries > 0
         and history->-1->>'_typ' = 'TaskAssignment'",
    );
    assert_eq!(cancelled, 0, "cancelled while a worker owned it");
    let leased = leased.lock().unwrap();
    assert!(leased.values().sum::<i64>() > 100, "{leased:?}");
    let live = "select count(*) from scylla.task";
    assert!(s.count(live) <= 2);
    let left = s.own("w", "q", 9).len() as i64;
    assert_eq!(s.count(live), left, "each live task can be owned");
}

/// A key that is kept stays taken though its task has settled and is gone, until its time is over;
/// over a crash, too.
#[test]
fn a_kept_key_outlives_its_task() {
    let server = Server::start(&["scylla.retention = '1 s'"]);
    let database = server.database();
    let mut s = database.connect();
    let first = s.submit_with("q", "key => 'k', unique_for => '1 hour'");
    let soon = s.submit_with("q", "key => 'soon', unique_for => '3 s'");
    s.submit_with("q", "key => 'free'");
    for _ in 0..3 {
        let lease = s.own_one("q");
        s.complete(&lease);
    }
    let gone = "select count(*) from scylla.finished";
    eventually(seconds(20), "the tasks are past retention", || (s.count(gone) == 0).then_some(()));
    submit(&mut s, "free", "error").expect("a key that was not kept");
    server.kill();
    server.start_again();
    let mut s = database.connect();
    assert_eq!(submit(&mut s, "k", "error"), Err("23505".into()));
    assert_eq!(submit(&mut s, "k", "ignore"), Ok(first));
    assert_eq!(submit(&mut s, "k", "replace"), Err("55006".into()));
    assert_eq!(holder(&mut s, "k"), None, "no live task has it");
    s.submit_with("other", "key => 'k'");
    let many =
        "select scylla.submit_many('q', array['1', '2']::jsonb[], keys => array['new', 'k'])";
    assert_eq!(s.refused(many), "23505");
    assert_eq!(s.count("select count(*) from scylla.task where key = 'new'"), 0);
    let batch = json!([
        {"queue": "q", "key": "k"},
        {"queue": "q", "key": "k", "on_conflict": "ignore", "unique_for": "1 day"},
        {"queue": "q", "key": "k2", "unique_for": "1 day"}
    ]);
    let rows = s.query("select outcome from scylla.submit_tasks($1, false)", &[&batch]).unwrap();
    let outcomes: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(outcomes, ["duplicate", "duplicate", "inserted"]);
    let again =
        eventually(seconds(10), "its time is over", || submit(&mut s, "soon", "error").ok());
    assert_ne!(again, soon);
    // Its row goes in time; the other two stay.
    let kept = "select count(*) from scylla.kept_key";
    eventually(seconds(20), "the row is gone", || (s.count(kept) == 2).then_some(()));
    server.assert_log_is_clean();
}

/// A task that is replaced leaves its key to the new one; one that repeats a settled task may have
/// the key.
#[test]
fn a_kept_key_goes_to_those_who_take_the_tasks_place() {
    let database = database();
    let mut s = database.connect();
    s.submit_with("q", "key => 'k', unique_for => '1 hour'");
    let second = s.submit_with("q", "key => 'k', on_conflict => 'replace', unique_for => '1 hour'");
    let lease = s.own_one("q");
    assert_eq!(lease.id, second);
    assert_eq!(submit(&mut s, "k", "replace"), Err("55006".into()), "it runs");
    s.return_task(&lease, "aborted").unwrap();
    assert_eq!(submit(&mut s, "k", "replace"), Err("55006".into()), "it has settled");
    let again: Uuid = s.value("select (scylla.resubmit(array[$1::uuid]))[1]", &[&second]);
    assert_eq!(holder(&mut s, "k"), Some(again));
    let lease = s.own_one("q");
    s.return_task(&lease, "aborted").unwrap();
    assert_eq!(submit(&mut s, "k", "ignore"), Ok(again));
    s.value::<Uuid>("select (scylla.resubmit(array[$1::uuid]))[1]", &[&second]);
    assert_eq!(holder(&mut s, "k"), None, "the key is kept for another one");
    s.value::<Uuid>("select (scylla.resubmit(array[$1::uuid]))[1]", &[&again]);
    assert!(holder(&mut s, "k").is_some());
    let replacing = submit(&mut s, "k", "replace").expect("a live task is replaced");
    assert_eq!(holder(&mut s, "k"), Some(replacing));
    s.run("select scylla.cancel(id) from scylla.tasks where status = 'ready'");
    // One that keeps no key frees that of the task which it replaces.
    s.submit_with("q", "key => 'once', unique_for => '1 hour'");
    submit(&mut s, "once", "replace").unwrap();
    let lease = s.own_one("q");
    s.complete(&lease);
    submit(&mut s, "once", "error").unwrap();
    // What is rolled back keeps nothing.
    s.run("begin; select scylla.submit('q', key => 'r', unique_for => '1 day'); rollback");
    submit(&mut s, "r", "error").unwrap();
    for bad in [
        "unique_for => '1 day'",
        "key => 'x', unique_for => '0'",
        "key => 'x', unique_for => '-1 s'",
    ] {
        assert_eq!(s.refused(&format!("select scylla.submit('q', {bad})")), "22023", "{bad}");
    }
}

/// While many submit and others settle, one task of each kept key is inserted.
#[test]
fn a_kept_key_admits_one_task_among_many_sessions() {
    const KEYS: i32 = 300;
    let database = database();
    let inserted = AtomicI64::new(0);
    std::thread::scope(|scope| {
        for n in 0..4 {
            let (database, inserted) = (&database, &inserted);
            scope.spawn(move || {
                let mut s = database.connect();
                for key in 0..KEYS {
                    let key = if n % 2 == 0 { key } else { KEYS - 1 - key };
                    let sql = "select outcome from scylla.submit_tasks(jsonb_build_array(jsonb_build_object(
                        'queue', 'q', 'key', $1::text, 'unique_for', '1 day')), false)";
                    let outcome: String = s.value(sql, &[&format!("key {key}")]);
                    inserted.fetch_add(i64::from(outcome == "inserted"), Ordering::Relaxed);
                }
            });
            scope.spawn(move || {
                let mut s = database.connect();
                while inserted.load(Ordering::Relaxed) < i64::from(KEYS) {
                    for lease in s.own("w", "q", 5) {
                        s.complete(&lease);
                    }
                }
            });
        }
    });
    let mut s = database.connect();
    assert_eq!(inserted.into_inner(), i64::from(KEYS));
    assert_eq!(s.count("select count(*) from scylla.tasks where queue = 'q'"), i64::from(KEYS));
}
