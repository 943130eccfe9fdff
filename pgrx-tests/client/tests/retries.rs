//! Retries with a pause: when a task that was returned, or whose lease expired, is offered again.

use client::*;
use std::time::Instant;

/// B47, B50, B95, B109: each pause is twice as long as the one before, also without a limit of
/// tries.
#[test]
fn retries_wait_longer_each_time() {
    let database = database();
    let mut s = database.connect();
    let id = s.submit_with("q", "retry_interval => '400 ms', retry_jitter => '50 ms'");
    let mut began = Instant::now();
    for n in 0..4 {
        let lease = eventually(seconds(10), "it is offered again", || s.own("w", "q", 1).pop());
        if n > 0 {
            let pause = milliseconds(400 << (n - 1));
            assert!(began.elapsed() >= pause, "try {n} came after {:?}", began.elapsed());
        }
        assert_eq!((lease.id, lease.tries), (id, n + 1));
        began = Instant::now();
        assert_eq!(s.return_task(&lease, "retry").expect("retry"), "waiting");
        assert!(s.own("w", "q", 1).is_empty());
    }
    assert_eq!(s.history(id), ["Assignment", "Retry"].repeat(4));
}

/// B48, B49: the last try ends the task, whether it is returned or expires, and its dependents are
/// counted down.
#[test]
fn the_last_try_is_final() {
    let database = database();
    let mut s = database.connect();
    let retry = "max_tries => 2, retry_interval => '50 ms'";
    let returned = s.submit_with("returned", retry);
    let expired = s.submit_with("expired", retry);
    let after = format!("after => array['{returned}', '{expired}']::uuid[], on_failure => 'run'");
    let dependent = s.submit_with("follower", &after);
    for queue in ["returned", "expired"] {
        let lease = s.own_one(queue);
        assert_eq!(s.return_task(&lease, "retry").expect("retry"), "waiting");
    }
    let lease = eventually(seconds(10), "the last try", || s.own("w", "returned", 1).pop());
    assert_eq!(s.return_task(&lease, "retry").expect("retry"), "aborted");
    let last = eventually(seconds(10), "the last try", || {
        s.own_with("w", "expired", 1, "timeout => '50 ms'").pop()
    });
    eventually(seconds(10), "it expires", || (s.status(expired) == "aborted").then_some(()));
    assert_eq!(s.not_returned(&last).code().code(), "55000", "B111: what is final stays so");
    for id in [returned, expired] {
        assert_eq!(s.entry(id)["errors"][0]["code"], "tries_exhausted");
    }
    let lease =
        eventually(seconds(10), "the dependent is ready", || s.own("w", "follower", 1).pop());
    assert_eq!((lease.id, lease.num_failures), (dependent, 2));
}

/// A task whose lease expires is offered at once. Its late worker may still retry it: the try
/// counts once, and the pause is that of the first try.
#[test]
fn an_expiry_does_not_wait_and_a_late_retry_does() {
    let database = database();
    let mut s = database.connect();
    let id = s.submit_with("q", "retry_interval => '1 hour'");
    let late = s.own_one_with("q", "timeout => '50 ms'");
    eventually(seconds(10), "it expires", || (s.status(id) == "ready").then_some(()));
    assert_eq!(s.return_task(&late, "retry").expect("retry"), "waiting");
    assert!(s.own("w", "q", 1).is_empty());
    let entry = s.entry(id);
    assert_eq!((&entry["tries"], &entry["status"]), (&json!(1), &json!("waiting")));
    let pause: f64 = s.value(
        "select extract(epoch from run_at - updated)::float8 from scylla.tasks where id = $1",
        &[&id],
    );
    assert!((3_600.0..3_601.0).contains(&pause), "{pause}");
    // its token is void now
    assert_eq!(s.not_returned(&late).code().code(), "55006");
}

/// I2: a retry that rolls back changes nothing; `return_tasks` returns one answer for each task.
#[test]
fn retries_are_transactional_and_come_in_bulk() {
    let database = database();
    let mut s = database.connect();
    let tasks = "retry_interval => '200 ms', max_tries => 2";
    let (first, second) = (s.submit_with("q", tasks), s.submit_with("q", "max_tries => 1"));
    let leases = s.own("w", "q", 2);
    s.run("begin");
    assert_eq!(s.return_task(&leases[0], "retry").expect("retry"), "waiting");
    s.run("rollback");
    assert_eq!((s.status(first), s.extend(&leases[0])), ("running".to_owned(), true));
    let (ids, mut tokens): (Vec<Uuid>, Vec<Uuid>) =
        leases.iter().map(|lease| (lease.id, lease.token)).unzip();
    let retry = "select scylla.return_tasks($1, $2, 'retry')";
    let answers: Vec<Option<String>> = s.value(retry, &[&ids, &tokens]);
    assert_eq!(answers, [Some("waiting".to_owned()), Some("aborted".to_owned())]);
    let again = eventually(seconds(10), "it is offered again", || s.own("w", "q", 1).pop());
    assert_eq!((again.id, again.tries, s.status(second)), (first, 2, "aborted".to_owned()));
    tokens[0] = Uuid::new_v4();
    let answers: Vec<Option<String>> = s.value(retry, &[&ids, &tokens]);
    assert_eq!(answers, [None, None]);
}

/// How long a waiting task pauses before its next try, in whole seconds.
fn pause(s: &mut Session, id: Uuid) -> i32 {
    let sql = "select extract(epoch from run_at - updated)::int from scylla.tasks where id = $1";
    s.value(sql, &[&id])
}

/// Owns a task, even while it waits for its pause, and retries it; returns its status.
fn retry(s: &mut Session, id: Uuid) -> String {
    if s.status(id) == "waiting" {
        s.value::<bool>("select scylla.delay($1, now())", &[&id]);
    }
    let lease = s.try_own_task(id).expect("a ready task");
    s.return_task(&lease, "retry").expect("retry")
}

/// B50, B95: a task without its own retry options has the server's, as they are at each retry.
#[test]
fn defaults_of_the_server_hold_for_tasks_without_their_own() {
    let server = Server::start(&[
        "scylla.max_tries = 5",
        "scylla.retry_interval = '1s'",
        "scylla.retry_max_interval = '3s'",
    ]);
    let database = server.database();
    let mut s = database.connect();
    let task = s.submit("q");
    for expected in [1, 2, 3, 3] {
        assert_eq!(retry(&mut s, task), "waiting");
        assert_eq!(pause(&mut s, task), expected, "doubled up to the cap");
    }
    assert_eq!(retry(&mut s, task), "aborted", "the fifth try was the last");
    assert_eq!(s.entry(task)["errors"][0]["args"], json!({"max_tries": 5}));
    assert_eq!(s.entry(task)["max_tries"], Value::Null, "it has none of its own");

    // The task's own values win, zero included; the cap is never below its interval.
    let free = s.submit_with("q", "max_tries => 0, retry_interval => '0'");
    let long = s.submit_with("q", "retry_interval => '10 s'");
    for _ in 0..7 {
        assert_eq!(retry(&mut s, free), "ready");
    }
    for _ in 0..3 {
        assert_eq!(retry(&mut s, long), "waiting");
        assert_eq!(pause(&mut s, long), 10);
    }

    // A change reaches tasks that are there.
    let jittered = s.submit("q");
    server.configure("scylla.retry_jitter", "1h");
    eventually(seconds(10), "the jitter is read", || {
        retry(&mut s, jittered);
        (pause(&mut s, jittered) > 4).then_some(())
    });
    server.configure("scylla.max_tries", "4");
    eventually(seconds(10), "the limit is read", || {
        let task = s.submit("q");
        let last = (0..4).map(|_| retry(&mut s, task)).last();
        (last.as_deref() == Some("aborted")).then_some(())
    });
    assert_eq!(retry(&mut s, long), "aborted", "the fourth try is the last now");
    for setting in ["max_tries", "retry_interval", "retry_jitter"] {
        server.configure(&format!("scylla.{setting}"), "0");
    }
    eventually(seconds(10), "no limit and no pause", || {
        let task = s.submit("q");
        (0..30).all(|_| retry(&mut s, task) == "ready").then_some(())
    });
}

/// B49: a lease that expires again and again ends with the server's limit, and waits for nothing.
#[test]
fn tasks_whose_leases_expire_end_with_the_limit_of_the_server() {
    let server = Server::start(&["scylla.max_tries = 3", "scylla.retry_interval = '1h'"]);
    let database = server.database();
    let mut s = database.connect();
    let task = s.submit_with("q", "timeout => '20 ms'");
    for n in 1..=3 {
        let lease = eventually(seconds(10), "it is offered again", || s.own("w", "q", 1).pop());
        assert_eq!(lease.tries, n);
    }
    eventually(seconds(10), "it is aborted", || (s.status(task) == "aborted").then_some(()));
    assert_eq!(s.entry(task)["errors"][0]["code"], "tries_exhausted");
}
