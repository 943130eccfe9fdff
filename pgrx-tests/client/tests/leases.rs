//! Extending a lease, its expiry, and the validity of its token afterwards.

use client::*;
use std::sync::OnceLock;
use std::time::Instant;

/// A database on a server with rare sweeps, where only a scheduler that knows the deadlines is in
/// time.
fn punctual() -> Database {
    static PUNCTUAL: OnceLock<Server> = OnceLock::new();
    extern "C" fn remove() {
        PUNCTUAL.get().inspect(|server| server.remove());
    }
    let server = PUNCTUAL.get_or_init(|| {
        let longest = "select max_val || coalesce(unit, '') from pg_settings where name = 'scylla.sweep_interval'";
        let longest = Server::shared().connect().text(longest);
        // SAFETY: registers a plain function without arguments
        unsafe { libc::atexit(remove) };
        Server::start(&[&format!("scylla.sweep_interval = '{longest}'")])
    });
    server.database()
}

/// Seconds until the deadline that the entry shows.
fn left(s: &mut Session, lease: &Lease) -> f64 {
    let sql = "select extract(epoch from deadline - clock_timestamp())::float8 from scylla.tasks where id = $1";
    s.value(sql, &[&lease.id])
}

/// Owns one task with a short lease and waits until it has expired.
fn expired(s: &mut Session) -> Lease {
    let lease = s.own_one_with("q", "timeout => '100 ms'");
    eventually(seconds(3), "the lease expires", || (s.status(lease.id) == "ready").then_some(()));
    lease
}

/// B30: `extend` sets the deadline to now plus the timeout. Extensions do not add up. The default
/// is the length with which the lease was taken.
#[test]
fn extend_sets_the_deadline_to_now_plus_timeout() {
    let database = database();
    let mut s = database.connect();
    s.submit("q");
    let lease = s.own_one_with("q", "timeout => '20 s'");
    for (options, expected) in [
        ("timeout => '60 s'", 60.0),
        ("timeout => '5 s'", 5.0),
        ("timeout => null", 20.0),
        ("timeout => '1 hour'", 3600.0),
    ] {
        assert!(s.extend_with(&lease, options));
        let left = left(&mut s, &lease);
        assert!(left <= expected && left > expected - 1.0, "{options}: {left}");
    }
    assert!(s.extend_with(&lease, "timeout => '100 years'"));
    assert_eq!(s.entry(lease.id)["deadline"], Value::Null);
    assert_eq!(s.history(lease.id), ["Assignment"], "an extension is no event");
}

/// B30, B58: a task that is extended in time stays leased long after its first deadline.
#[test]
fn heartbeats_keep_a_lease_alive() {
    let database = database();
    let mut s = database.connect();
    s.submit("q");
    let lease = s.own_one_with("q", "timeout => '2500 ms'");
    for _ in 0..10 {
        sleep(milliseconds(300));
        assert!(s.extend(&lease));
        assert!(s.own("thief", "q", 1).is_empty());
    }
    assert_eq!(s.history(lease.id), ["Assignment"]);
    s.complete(&lease);
}

/// B33: in the transaction that has ended a task, its lease is over.
#[test]
fn a_lease_is_over_in_the_transaction_that_ends_it() {
    let database = database();
    let mut s = database.connect();
    s.submit_many("q", 3);
    let leases = s.own_with("w", "q", 3, "timeout => '1 min'");
    let ids: Vec<Uuid> = leases.iter().map(|it| it.id).collect();
    let tokens: Vec<Uuid> = leases.iter().map(|it| it.token).collect();
    let states = |s: &mut Session| -> Vec<String> {
        s.value(
            "select array_agg(state order by n) from scylla.heartbeat('w', $1, $2)
                     with ordinality as h (id, state, deadline, n)",
            &[&ids, &tokens],
        )
    };
    s.run("begin");
    s.complete(&leases[0]);
    assert!(s.cancel(leases[1].id));
    assert_eq!(states(&mut s), ["settled", "cancelled", "held"]);
    assert_eq!([0, 1, 2].map(|at| s.extend(&leases[at])), [false, false, true]);
    s.run("savepoint a");
    s.return_task(&leases[2], "retry").unwrap();
    assert_eq!(states(&mut s), ["settled", "cancelled", "lost"]);
    s.run("rollback to a");
    assert_eq!(states(&mut s), ["settled", "cancelled", "held"]);
    s.run("rollback");
    assert_eq!(states(&mut s), ["held"; 3]);
    leases.iter().for_each(|it| s.complete(it));
}

/// B35: progress is optional, may decrease, and is kept until the next report.
#[test]
fn progress_is_kept_until_the_next_report() {
    let database = database();
    let mut s = database.connect();
    s.submit("q");
    let lease = s.own_one("q");
    for (options, expected) in [
        ("progress => 0.5", 0.5),
        ("progress => null", 0.5),
        ("progress => 0.25", 0.25),
        ("progress => 1", 1.0),
        ("progress => 0", 0.0),
        ("progress => 0.125, timeout => '1 minute'", 0.125),
    ] {
        assert!(s.extend_with(&lease, options));
        assert_eq!(s.entry(lease.id)["progress"].as_f64(), Some(expected), "{options}");
    }
}

/// B32, B33: `extend_tasks` returns one answer for each pair, in order.
#[test]
fn bulk_extend_answers_for_each_task() {
    let database = database();
    let mut s = database.connect();
    s.submit_many("q", 4);
    let leases = s.own_with("w", "q", 4, "timeout => '20 s'");
    s.complete(&leases[1]);
    s.cancel(leases[2].id);
    let ids =
        vec![leases[0].id, leases[1].id, leases[2].id, leases[3].id, Uuid::new_v4(), leases[0].id];
    let tokens = vec![
        leases[0].token,
        leases[1].token,
        leases[2].token,
        Uuid::new_v4(),
        leases[0].token,
        leases[0].token,
    ];
    let answers: Vec<bool> =
        s.value("select scylla.extend_tasks($1, $2, timeout => '60 s')", &[&ids, &tokens]);
    assert_eq!(answers, [true, false, false, false, false, true]);
    assert!(left(&mut s, &leases[0]) > 50.0);
    assert!(left(&mut s, &leases[3]) < 21.0, "a wrong token moves nothing");
    let all: Vec<bool> = s.value(
        "select scylla.extend_tasks($1, $2)",
        &[&vec![leases[3].id], &vec![leases[3].token]],
    );
    assert_eq!(all, [true]);
}

/// B33, I7: a wrong, foreign or outdated token, or one of an absent task, returns false and changes
/// nothing.
#[test]
fn wrong_token_is_false_and_changes_nothing() {
    let database = database();
    let mut s = database.connect();
    s.submit_many("q", 2);
    let leases = s.own_with("w", "q", 2, "timeout => '20 s'");
    let before = s.entry(leases[0].id);
    for wrong in [Uuid::new_v4(), leases[1].token, leases[0].id, Uuid::nil()] {
        let forged = Lease { token: wrong, ..leases[0].clone() };
        assert!(!s.extend_with(&forged, "timeout => '1 hour', progress => 0.5"));
        assert_eq!(s.not_returned(&forged).code().code(), "55006");
        let answer: Vec<Option<String>> =
            s.value("select scylla.return_tasks($1, $2)", &[&vec![forged.id], &vec![wrong]]);
        assert_eq!(answer, [None]);
    }
    assert_eq!(s.entry(leases[0].id), before);
    assert!(!s.extend(&Lease { id: Uuid::new_v4(), ..leases[0].clone() }), "no such task");
    let never_owned = s.submit("q");
    let forged = Lease { id: never_owned, ..leases[0].clone() };
    assert!(!s.extend(&forged));
    assert_eq!(s.not_returned(&forged).code().code(), "55006");
    assert!(leases.iter().all(|lease| s.extend(lease)));
}

/// B22, B56, B57: an expired lease returns its task to ready at the deadline, independent of the
/// sweep.
#[test]
fn expired_lease_returns_to_ready_at_its_deadline() {
    let database = punctual();
    let (mut a, mut b) = (database.connect(), database.connect());
    let late = [300, 700, 150].map(|wait| {
        let id = a.submit("q");
        let lease = a.own_one_with("q", &format!("timeout => '{wait} ms'"));
        assert!(a.extend_with(&lease, "progress => 0.375"));
        let look = "select t.status::text = 'ready', clock_timestamp() - ($2::text)::timestamptz < '0', (clock_timestamp() - ($2::text)::timestamptz)::text,
                    extract(epoch from clock_timestamp() - ($2::text)::timestamptz)::float8 from scylla.tasks t where id = $1";
        let deadline: String =
            a.value("select deadline::text from scylla.tasks where id = $1", &[&id]);
        let late: f64 = eventually(seconds(5), "the lease expires", || {
            let row = b.query_one(look, &[&id, &deadline]).unwrap();
            assert!(
                !row.get::<_, bool>(0) || !row.get::<_, bool>(1),
                "expired before its deadline: {}",
                row.get::<_, String>(2)
            );
            row.get::<_, bool>(0).then(|| row.get(3))
        });
        let entry = b.entry(id);
        assert_eq!(
            (&entry["progress"], &entry["owner"], &entry["deadline"]),
            (&json!(0), &Value::Null, &Value::Null)
        );
        assert_eq!((&entry["tries"], &entry["errors"]), (&json!(1), &json!([])));
        assert_eq!(b.history(id), ["Assignment", "Timeout"]);
        let event = &entry["history"][1];
        assert_eq!((&event["worker"], event["progress"].as_f64()), (&json!("w"), Some(0.375)));
        let again = b.own_one("q");
        assert_eq!((again.id, again.tries), (id, 2));
        assert_ne!(again.token, lease.token);
        b.complete(&again);
        late
    });
    assert!(late.iter().any(|late| *late < 0.2), "{late:?} s after the deadline");
}

/// B22: a worker that polls gets the expired task within 200 ms of the deadline, and not before.
#[test]
fn expired_task_is_ownable_without_delay() {
    let database = punctual();
    let (mut a, mut b) = (database.connect(), database.connect());
    let begun = Instant::now();
    a.submit_many("q", 300);
    // 200 ms on a machine that submits in no time: the scheduler writes as many rows as this call.
    let soon = 0.2 + 20.0 * begun.elapsed().as_secs_f64();
    let ask = "select count(*) filter (where clock_timestamp() < ($1::text)::timestamptz), count(*),
                      clock_timestamp() > ($1::text)::timestamptz + $2 * interval '1 s' from scylla.own_tasks('b', 'q', 300)";
    let deadline: String = a.value(
        "select min(deadline)::text from scylla.own_tasks('a', 'q', 300, timeout => '500 ms')",
        &[],
    );
    let mut got = 0;
    while got < 300 {
        let row = b.query_one(ask, &[&deadline, &soon]).unwrap();
        assert_eq!(row.get::<_, i64>(0), 0, "before the deadline");
        got += row.get::<_, i64>(1);
        assert!(got == 300 || !row.get::<_, bool>(2), "only {got} of 300 within {soon} s");
    }
    assert_eq!(b.count("select count(*) from scylla.tasks where tries = 2"), 300);
}

/// B58: of many leases, each expires at its own deadline.
#[test]
fn only_what_has_expired_is_touched() {
    let database = punctual();
    let mut s = database.connect();
    s.submit_many("q", 60);
    for n in 0..60 {
        let timeout = ["300 ms", "1 hour", "100 years"][n % 3];
        s.own_one_with("q", &format!("timeout => '{timeout}'"));
    }
    eventually(seconds(3), "20 leases expire", || (s.tasks("ready") == 20).then_some(()));
    sleep(milliseconds(300));
    assert_eq!((s.tasks("ready"), s.tasks("running")), (20, 40));
}

/// B34: `extend` succeeds after the deadline while no other worker has owned the task.
#[test]
fn late_extend_is_accepted_while_no_other_worker_owned_the_task() {
    let database = database();
    let mut s = database.connect();
    let id = s.submit("q");
    let lease = expired(&mut s);
    assert!(s.extend_with(&lease, "timeout => '20 s', progress => 0.5"));
    let entry = s.entry(id);
    assert_eq!(
        (&entry["status"], &entry["owner"], entry["progress"].as_f64()),
        (&json!("running"), &json!("w"), Some(0.5))
    );
    assert!(s.own("thief", "q", 1).is_empty(), "the lease is valid again");
    s.complete(&lease);
    assert_eq!(s.status(id), "completed");
}

/// B44: a return succeeds after the deadline while no other worker has owned the task.
#[test]
fn late_return_is_accepted_while_no_other_worker_owned_the_task() {
    let database = database();
    let mut s = database.connect();
    for (outcome, status) in
        [("completed", "completed"), ("aborted", "aborted"), ("retry", "ready")]
    {
        let id = s.submit("q");
        let lease = expired(&mut s);
        assert_eq!(s.return_task(&lease, outcome).unwrap(), status);
        assert_eq!(s.status(id), status);
        let again = s.own("w", "q", 5);
        assert_eq!(again.len(), usize::from(status == "ready"), "{outcome}");
        again.iter().for_each(|lease| s.complete(lease));
    }
}

/// B45, I7: once another worker owns the task, the old token stays invalid.
#[test]
fn after_theft_only_the_new_token_works() {
    let database = database();
    let (mut a, mut b) = (database.connect(), database.connect());
    let id = a.submit("q");
    let old = expired(&mut a);
    let new = b.own_one_with("q", "timeout => '150 ms'");
    assert_eq!(new.id, id);
    assert!(!a.extend(&old));
    assert_eq!(a.not_returned(&old).code().code(), "55006");
    let refused: Vec<Option<String>> =
        a.value("select scylla.return_tasks($1, $2)", &[&vec![id], &vec![old.token]]);
    assert_eq!(refused, [None]);
    eventually(seconds(3), "the new lease expires", || (a.status(id) == "ready").then_some(()));
    assert!(!a.extend(&old), "the expiry of the second lease does not revive the old token");
    assert!(b.extend(&new), "the newest one may be late");
    b.complete(&new);
    let complaint = a.not_returned(&old);
    assert_eq!(complaint.code().code(), "55000");
    assert!(complaint.message().contains("completed"), "{complaint}");
    assert_eq!(a.history(id), ["Assignment", "Timeout", "Assignment", "Timeout"]);
}

/// B49: when the lease of the last try expires, the task is aborted.
#[test]
fn last_try_that_expires_aborts_the_task() {
    let database = database();
    let mut s = database.connect();
    let id = s.submit_with("q", "max_tries => 2");
    expired(&mut s);
    let last = s.own_one_with("q", "timeout => '100 ms'");
    assert_eq!(last.tries, 2);
    eventually(seconds(3), "the task is aborted", || (s.status(id) == "aborted").then_some(()));
    let entry = s.entry(id);
    let errors = entry["errors"].as_array().expect("errors");
    assert_eq!((errors.len(), &errors[0]["code"]), (1, &json!("tries_exhausted")));
    assert!(errors[0]["args"].is_object() && errors[0]["description"].is_string());
    assert_eq!(s.history(id), ["Assignment", "Timeout", "Assignment", "Timeout"]);
    assert!(s.own("w", "q", 1).is_empty() && !s.extend(&last));
    let complaint = s.not_returned(&last);
    assert_eq!(complaint.code().code(), "55000");
    assert!(complaint.message().contains("aborted"), "{complaint}");
}

/// I10: a locked row delays neither the scheduler nor the expiry of other tasks.
#[test]
fn row_that_is_locked_delays_no_other_expiry() {
    let database = database();
    let (mut a, mut b) = (database.connect(), database.connect());
    let ids = a.submit_many("q", 20);
    assert_eq!(a.own_with("w", "q", 20, "timeout => '1 s'").len(), 20);
    b.run(&format!("begin; select from scylla.task where id = '{}' for update", ids[0]));
    eventually(milliseconds(1_700), "the others expire", || (a.tasks("ready") == 19).then_some(()));
    assert_eq!(a.status(ids[0]), "running");
    b.run("rollback");
    eventually(seconds(2), "the locked one expires too", || {
        (a.status(ids[0]) == "ready").then_some(())
    });
}

/// No lease is longer than the administrator wants, a call, a task or a queue; that of an SQL
/// command ends with its process.
#[test]
fn no_lease_is_longer_than_the_longest() {
    let server = Server::start(&["scylla.max_lease_timeout = '1 min'"]);
    let database = server.database();
    let mut s = database.connect();
    s.run("select scylla.configure_queue('q', timeout => '2 hours')");
    for (submitted, owned) in [
        ("priority => 0", "timeout => '200 years'"),
        ("timeout => '1 day'", "actions => null"),
        ("priority => 0", "actions => null"),
        ("priority => 0", "timeout => '59 s'"),
    ] {
        s.submit_with("q", submitted);
        let lease = s.own_one_with("q", owned);
        let seconds_left = left(&mut s, &lease);
        assert!((1.0..=60.0).contains(&seconds_left), "{submitted} {owned}: {seconds_left}");
        assert!(s.extend_with(&lease, "timeout => '100 years'"));
        let seconds_left = left(&mut s, &lease);
        assert!((1.0..=60.0).contains(&seconds_left), "extended: {seconds_left}");
        s.complete(&lease);
    }
    let id = s.submit("q");
    let own = "select extract(epoch from deadline - clock_timestamp())::float8
               from scylla.own_task($1, 'w', '1 year')";
    assert!((1.0..=60.0).contains(&s.value::<f64>(own, &[&id])));
    let id: Uuid = s.value("select scylla.run_sql('select pg_sleep(600)')", &[]);
    eventually(seconds(20), "it runs", || (s.status(id) == "running").then_some(()));
    assert_eq!(s.entry(id)["deadline"], Value::Null);
}
