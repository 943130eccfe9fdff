//! Which tasks a worker gets, in which order, and what the returned row contains.

use client::*;
use std::collections::HashSet;

fn priorities(leases: &[Lease]) -> Vec<i64> {
    leases.iter().map(|lease| lease.priority).collect()
}

fn ids(leases: &[Lease]) -> Vec<Uuid> {
    leases.iter().map(|lease| lease.id).collect()
}

/// B13: priorities are compared as numbers: 10 comes before 9, and the highest possible priority
/// before both.
#[test]
fn highest_priority_is_owned_first_as_a_number() {
    let database = database();
    let mut s = database.connect();
    for priority in [9_i64, 10, 0, 100, 4_294_967_295, 2, 1000] {
        s.submit_with("q", &format!("priority => {priority}"));
    }
    assert_eq!(s.own_one("q").priority, 4_294_967_295);
    assert_eq!(priorities(&s.own("w", "q", 10)), [1000, 100, 10, 9, 2, 0]);
}

/// B14: tasks of equal priority are owned oldest first.
#[test]
fn equal_priorities_are_owned_oldest_first() {
    let database = database();
    let mut s = database.connect();
    let submitted: Vec<Uuid> =
        (0..40).map(|n| s.submit_with("q", &format!("action => 'a{}'", n % 3))).collect();
    let mut owned: Vec<Uuid> = (0..10).map(|_| s.own_one("q").id).collect();
    owned.extend(ids(&s.own("w", "q", 25)));
    owned.extend(ids(&s.own("w", "q", 25)));
    assert_eq!(owned, submitted);
}

/// B14: a returned task keeps its age.
#[test]
fn returned_task_keeps_its_place_among_its_equals() {
    let database = database();
    let mut s = database.connect();
    let submitted: Vec<Uuid> = (0..5).map(|_| s.submit("q")).collect();
    for outcome in ["retry", "yield"] {
        let lease = s.own_one("q");
        assert_eq!(lease.id, submitted[0]);
        assert_eq!(s.return_task(&lease, outcome).unwrap(), "ready");
    }
    assert_eq!(ids(&s.own("w", "q", 5)), submitted);
}

/// B15: only tasks of the given actions are owned, in the order of the queue across actions.
#[test]
fn only_the_actions_asked_for_are_owned() {
    let database = database();
    let mut s = database.connect();
    for (action, priority) in [("a", 1), ("b", 9), ("A", 5), ("", 7), ("c", 3), ("a", 8), ("%", 6)]
    {
        s.submit_with("q", &format!("action => '{action}', priority => {priority}"));
    }
    let mut own = |options: &str| -> Vec<(String, i64)> {
        s.own_with("w", "q", 10, options)
            .into_iter()
            .map(|lease| (lease.action, lease.priority))
            .collect()
    };
    let row = |action: &str, priority| (action.to_owned(), priority);
    assert_eq!(own("actions => array['missing']"), []);
    assert_eq!(
        own("actions => array['a', 'c', 'missing']"),
        [row("a", 8), row("c", 3), row("a", 1)]
    );
    assert_eq!(own("actions => array['%']"), [row("%", 6)]);
    assert_eq!(own("actions => array['']"), [row("", 7)]);
    assert_eq!(own("actions => null"), [row("b", 9), row("A", 5)]);
}

/// B15: an action named twice has its tasks offered once.
#[test]
fn action_named_twice_counts_once() {
    let database = database();
    let mut s = database.connect();
    s.submit_with("q", "action => 'a'");
    s.submit_with("q", "action => 'a'");
    let owned = ids(&s.own_with("w", "q", 10, "actions => array['a', 'a']"));
    assert_eq!(owned.iter().collect::<HashSet<_>>().len(), 2);
    assert_eq!(owned.len(), 2);
}

/// B16: a call never returns more tasks than `max_tasks`.
#[test]
fn never_more_than_max_tasks_are_owned() {
    let database = database();
    let mut s = database.connect();
    s.submit_many("q", 20);
    assert_eq!(s.count("select count(*) from scylla.own_tasks('w', 'q')"), 1);
    assert_eq!(s.own("w", "q", 7).len(), 7);
    assert_eq!(s.own("w", "q", i32::MAX).len(), 12);
    assert_eq!(s.own("w", "q", 7).len(), 0);
}

/// B17: 8 owners share 4,000 tasks, and no task has two owners.
#[test]
fn concurrent_owners_get_disjoint_tasks() {
    let database = database();
    let submitted = database.connect().submit_many("q", 4000);
    let owned: Vec<Uuid> = std::thread::scope(|scope| {
        let owners: Vec<_> = (1..=8)
            .map(|n| {
                let mut s = database.connect();
                scope.spawn(move || {
                    let mut mine = Vec::new();
                    loop {
                        let leases = s.own(&format!("w{n}"), "q", n);
                        if leases.is_empty() {
                            return mine;
                        }
                        mine.extend(ids(&leases));
                    }
                })
            })
            .collect();
        owners.into_iter().flat_map(|owner| owner.join().unwrap()).collect()
    });
    assert_eq!(owned.len(), 4000, "each task once");
    assert_eq!(
        owned.into_iter().collect::<HashSet<_>>(),
        submitted.into_iter().collect::<HashSet<_>>()
    );
}

/// B17: a task that an open transaction has owned, returned or cancelled blocks no other worker.
#[test]
fn open_transaction_that_owns_does_not_block_others() {
    let database = database();
    let (mut a, mut b) = (database.connect(), database.connect());
    let submitted = a.submit_many("q", 10);
    a.run("begin");
    let mine = a.own("a", "q", 4);
    a.complete(&mine[0]);
    a.cancel(mine[1].id);
    // A call that waits for the other one would do so for ever.
    b.run("set statement_timeout = '30 s'");
    let theirs = b.own("b", "q", 10);
    assert_eq!(theirs.len(), 6);
    assert!(theirs.iter().all(|lease| b.extend(lease)));
    theirs.iter().for_each(|lease| b.complete(lease));
    a.run("commit");
    let all: HashSet<Uuid> = mine.iter().chain(&theirs).map(|lease| lease.id).collect();
    assert_eq!(all, submitted.into_iter().collect());
    assert!(a.extend(&mine[2]) && a.extend(&mine[3]));
}

/// B19, B20: each ownership has a new token and counts as a try.
#[test]
fn each_ownership_has_a_fresh_token_and_counts_a_try() {
    let database = database();
    let mut s = database.connect();
    let id = s.submit("q");
    let mut tokens = HashSet::from([id]);
    for n in 1..=50 {
        let lease = s.own_one("q");
        assert_eq!((lease.id, lease.tries), (id, n));
        assert!(tokens.insert(lease.token), "a token came twice");
        assert_eq!(s.entry(id)["tries"], n);
        assert_eq!(s.return_task(&lease, "retry").unwrap(), "ready");
    }
}

/// B18: the returned row contains what was submitted.
#[test]
fn owned_row_carries_what_was_submitted() {
    let database = database();
    let mut s = database.connect();
    let spec = json!({"path": "/usr/share/it's 100% \"ünïcode\" 🦑", "n": [1, 2.5, null]});
    let sql = "select scylla.submit('q', $1, action => 'do it', priority => 77)";
    let id: Uuid = s.value(sql, &[&spec]);
    let lease = s.own_one("q");
    assert_eq!((lease.id, lease.action.as_str(), lease.priority), (id, "do it", 77));
    assert_eq!((lease.spec, lease.num_failures), (spec, 0));
}

/// B21: with a timeout of 100 years or more the deadline is NULL.
#[test]
fn lease_of_a_hundred_years_never_expires() {
    let database = database();
    let mut s = database.connect();
    for timeout in ["100 years", "1000 years", "170000000 years"] {
        let id = s.submit("q");
        let lease = s.own_one_with("q", &format!("timeout => '{timeout}'"));
        assert_eq!(lease.seconds_left, None, "{timeout}");
        assert_eq!(s.entry(id)["deadline"], Value::Null);
        assert!(s.extend(&lease));
        assert_eq!(
            s.entry(id)["deadline"],
            Value::Null,
            "extended by the length it was taken with"
        );
        s.complete(&lease);
    }
    let id = s.submit_with("q", "timeout => '100 years'");
    assert_eq!(s.own_one("q").seconds_left, None, "the task's own timeout");
    assert_eq!(s.entry(id)["status"], "running");
    s.submit("q");
    let long = s.own_one_with("q", "timeout => '99 years'").seconds_left.expect("a deadline");
    assert!(long > 98.9 * 365.0 * 86_400.0, "{long}");
}

/// B23: a lease lasts 10 s, unless the task or the call sets another length.
#[test]
fn lease_lasts_ten_seconds_unless_task_or_call_says_otherwise() {
    let database = database();
    let mut s = database.connect();
    let setting = "select set_config(name, boot_val, false) from pg_settings where name = $1";
    s.value::<String>(setting, &[&"scylla.lease_timeout"]);
    for (submitted, owned, expected) in [
        ("null", "null", 10.0),
        ("'4 s'", "null", 4.0),
        ("'4 s'", "'77 s'", 77.0),
        ("null", "'1 s'", 1.0),
    ] {
        s.submit_with("q", &format!("timeout => {submitted}"));
        let left =
            s.own_one_with("q", &format!("timeout => {owned}")).seconds_left.expect("a deadline");
        assert!(left <= expected && left > expected - 0.5, "{submitted} {owned}: {left}");
    }
}

/// B24: the deadline is the database's clock plus the timeout, independent of the start of the
/// transaction.
#[test]
fn deadline_is_the_database_clock_plus_timeout() {
    let database = database();
    let mut s = database.connect();
    s.submit("q");
    s.run("begin; select pg_sleep(0.6)");
    let late: f64 = s.value("select extract(epoch from deadline - now())::float8 from scylla.own_tasks('w', 'q', timeout => '5 s')", &[]);
    s.run("commit");
    assert!((5.6..60.0).contains(&late), "{late}");
}

/// B25, B1: owning a task adds an assignment to its history and sets the fields of the entry.
#[test]
fn owning_puts_an_assignment_into_the_history() {
    let database = database();
    let mut s = database.connect();
    let id = s.submit_with("q", "action => 'a', priority => 3, max_tries => 4");
    let before = s.entry(id);
    assert_eq!(before["rn"], id.to_string());
    assert_eq!(
        (&before["queue"], &before["action"], &before["priority"]),
        (&json!("q"), &json!("a"), &json!(3))
    );
    assert_eq!(
        (&before["status"], &before["progress"], &before["tries"]),
        (&json!("ready"), &json!(0), &json!(0))
    );
    assert_eq!(
        (&before["errors"], &before["history"], &before["spec"]),
        (&json!([]), &json!([]), &json!({}))
    );
    for field in ["owner", "deadline", "result", "key"] {
        assert_eq!(before.get(field), Some(&Value::Null), "{field}");
    }
    s.own_with("worker-1", "q", 1, "timeout => '20 s'");
    let after = s.entry(id);
    assert_eq!(
        (&after["status"], &after["owner"], &after["tries"]),
        (&json!("running"), &json!("worker-1"), &json!(1))
    );
    assert_eq!(
        (&after["max_tries"], &after["created"], &after["rn"]),
        (&json!(4), &before["created"], &before["rn"])
    );
    let event = &after["history"][0];
    assert_eq!(
        (&event["_typ"], &event["worker"], event.get("progress")),
        (&json!("TaskAssignment"), &json!("worker-1"), None)
    );
    assert_eq!(after["history"].as_array().unwrap().len(), 1);
    let near = "select abs(extract(epoch from clock_timestamp() - ($1::text)::timestamptz)) < 2";
    assert!(s.value::<bool>(near, &[&event["time"].as_str().expect("a time")]));
    let sql = "select status = 'running' and owner = 'worker-1' and tries = 1
               and deadline between clock_timestamp() + '15 s' and clock_timestamp() + '20 s' from scylla.tasks where id = $1";
    assert!(s.value::<bool>(sql, &[&id]), "the view shows the lease");
}

/// B26: `register_worker` never returns a name twice, not even after a rollback.
#[test]
fn worker_name_is_never_handed_out_twice() {
    let database = database();
    let mut first = database.connect();
    first.run("begin");
    let rolled_back = first.text("select scylla.register_worker()");
    first.run("rollback");
    let mut names: Vec<String> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..8)
            .map(|_| {
                let mut s = database.connect();
                scope.spawn(move || {
                    (0..100).map(|_| s.text("select scylla.register_worker()")).collect::<Vec<_>>()
                })
            })
            .collect();
        callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect()
    });
    names.push(rolled_back);
    assert!(
        names
            .iter()
            .all(|name| name.strip_prefix("worker-").is_some_and(|n| n.parse::<u64>().is_ok())),
        "{names:?}"
    );
    assert_eq!(names.iter().collect::<HashSet<_>>().len(), 801);
}

/// B27: a task is owned by its id only when it is ready.
#[test]
fn task_is_owned_by_id_only_when_ready() {
    let database = database();
    let mut s = database.connect();
    let (id, other) = (s.submit("q"), s.submit("q"));
    let lease = s.try_own_task(other).expect("a ready task");
    assert_eq!((lease.id, lease.tries), (other, 1));
    assert_eq!(failure(s.try_own_task(other), "running").code().code(), "55000");
    assert_eq!(ids(&s.own("w", "q", 5)), [id], "the other one has left the lane");
    s.complete(&lease);
    assert_eq!(failure(s.try_own_task(other), "completed").code().code(), "55000");
    assert_eq!(failure(s.try_own_task(Uuid::new_v4()), "absent").code().code(), "P0002");
    let cancelled = s.submit("q");
    s.cancel(cancelled);
    assert_eq!(failure(s.try_own_task(cancelled), "cancelled").code().code(), "55000");
}

/// B12: names match exactly; a queue without tasks returns none.
#[test]
fn owning_from_another_queue_returns_nothing() {
    let database = database();
    let mut s = database.connect();
    s.submit("abc");
    for queue in ["a%", "a_c", "ABC", "ab", "abc ", "unknown", "%"] {
        assert_eq!(s.own("w", queue, 5).len(), 0, "{queue}");
    }
    s.submit("a%");
    assert_eq!(s.own("w", "a%", 5).len(), 1);
    assert_eq!(s.own("w", "abc", 5).len(), 1);
}

/// B28: any worker may own a returned task.
#[test]
fn returned_task_may_go_to_any_worker() {
    let database = database();
    let (mut a, mut b) = (database.connect(), database.connect());
    let id = a.submit("q");
    let lease = a.own_one("q");
    a.return_task(&lease, "retry").unwrap();
    assert_eq!(ids(&b.own("other", "q", 1)), [id]);
    assert_eq!(b.entry(id)["owner"], "other");
}

/// I8: each action counts once, however often the call names it.
#[test]
fn repeated_actions_cost_no_more() {
    let database = database();
    let mut s = database.connect();
    s.run(
        "select from scylla.submit_tasks((
             select jsonb_agg(jsonb_build_object('queue', 'q', 'action', 'a'))
             from generate_series(1, 60000) i))",
    );
    let mut cost = |actions: &str| {
        let before = processor_time(s.pid);
        let own = format!("select count(*) from scylla.own_tasks('w', 'q', 20000, {actions})");
        assert_eq!(s.count(&own), 20_000);
        processor_time(s.pid) - before
    };
    cost("'{a}'");
    let (once, often) = (cost("'{a}'"), cost("array_fill('a'::text, array[1024])"));
    assert!(often <= 3 * once + 5, "{often} ticks, and {once} for one");
}

/// I5: tasks whose rows were deleted directly are passed over in one go, not one refill after
/// another.
#[test]
fn rows_that_were_deleted_directly_cost_one_look_each() {
    let database = database();
    let mut s = database.connect();
    s.submit_many("q", 3_000);
    s.run("delete from scylla.task");
    let left = s.submit_many("q", 500);
    s.run("begin");
    let owned = s.own("w", "q", 3);
    assert_eq!(owned.iter().map(|it| it.id).collect::<Vec<_>>(), left[..3]);
    let read = s.count(
        "select idx_tup_fetch + seq_tup_read from pg_stat_xact_all_tables
         where relid = 'scylla.task'::regclass",
    );
    assert!(read < 10_000, "{read} rows were read");
    s.run("commit");
    assert_eq!(s.own("w", "q", 1_000).len(), 497);
}
