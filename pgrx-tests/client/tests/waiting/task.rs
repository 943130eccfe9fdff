//! Waiting for the end of a task.

use crate::*;

/// B75: a wait after the end of the task returns its status and result at once.
#[test]
fn waiting_after_the_end_returns_at_once() {
    let database = slow();
    let mut s = database.connect();
    for (outcome, result) in
        [("completed", json!({"n": [1, "two", null]})), ("aborted", json!(null))]
    {
        let id = s.submit_with("q", "post_result => true");
        let lease = s.own_one("q");
        match outcome {
            "completed" => {
                let sql = "select scylla.return_task($1, $2, result => $3)";
                s.value::<String>(sql, &[&id, &lease.token, &result]);
            }
            _ => drop(s.return_task(&lease, outcome).unwrap()),
        }
        assert_eq!(for_task(&mut s, id, "10 s"), ending(outcome, result));
    }
    let id = s.submit_with("q", "post_result => true");
    s.cancel(id);
    assert_eq!(promptly(|| for_task(&mut s, id, "10 s")), ending("cancelled", json!(null)));
}

/// B76: each waiter gets the exact status and result, including large results.
#[test]
fn waiting_before_the_end_returns_the_exact_status_and_result() {
    let database = slow();
    let mut s = database.connect();
    let id = s.submit_with("q", "post_result => true");
    let other = s.submit_with("other", "post_result => true");
    let result = json!({"text": "ü".repeat(300_000), "number": 1e100});
    let waiters: Vec<_> = (0..5)
        .map(|_| waiting(&database, move |s| (for_task(s, id, "20 s"), Instant::now())).1)
        .collect();
    let (_, bystander) = waiting(&database, move |s| for_task(s, other, "1500 ms"));
    let lease = s.own_one("q");
    let returned = Instant::now();
    let sql = "select scylla.return_task($1, $2, result => $3)";
    s.value::<String>(sql, &[&id, &lease.token, &result]);
    for waiter in waiters {
        let (heard, at) = waiter.join().unwrap();
        assert_eq!(heard, ending("completed", result.clone()));
        assert!(at.duration_since(returned) < BACKSTOP);
    }
    assert_eq!(bystander.join().unwrap(), (None, None), "a time-out is no error");
}

/// B77: waiting for a task without `post_result` is an error.
#[test]
fn without_post_result_waiting_is_an_error() {
    let database = slow();
    let mut s = database.connect();
    let id = s.submit("q");
    let refused = |s: &mut Session, id: Uuid| {
        let complaint = s.refusal(FOR_TASK, &[&id, &"10 s"]);
        (complaint.code().code().to_owned(), complaint.message().to_owned())
    };
    let (code, message) = refused(&mut s, id);
    assert_eq!(code, "55000");
    assert!(message.contains(&id.to_string()), "{message}");
    let lease = s.own_one("q");
    s.complete(&lease);
    assert_eq!(refused(&mut s, id).0, "55000", "settled or not");
    assert_eq!(refused(&mut s, Uuid::new_v4()).0, "P0002");
    let gone = s.submit_with("q", "post_result => true");
    let (_, waiter) = waiting(&database, move |s| refused(s, gone).0);
    s.value::<i32>("select scylla.delete_tasks(array[$1::uuid])", &[&gone]);
    assert_eq!(waiter.join().unwrap(), "P0002", "deleted meanwhile");
}

/// B79: each way to settle a task wakes its waiters.
#[test]
fn each_way_to_settle_a_task_wakes_its_waiters() {
    let database = slow();
    let mut s = database.connect();
    let wait = |id: Uuid| waiting(&database, move |s| promptly(|| for_task(s, id, "20 s").0)).1;
    let exhausted = s.submit_with("a", "post_result => true, max_tries => 1");
    let lease = s.own_one("a");
    let waiter = wait(exhausted);
    assert_eq!(s.return_task(&lease, "retry").unwrap(), "aborted");
    assert_eq!(waiter.join().unwrap().as_deref(), Some("aborted"), "the last retry");

    let expired = s.submit_with("a", "post_result => true, max_tries => 1, timeout => '3 s'");
    s.own_one("a");
    let waiter = wait(expired);
    assert_eq!(waiter.join().unwrap().as_deref(), Some("aborted"), "the last expiry");

    let cancelled = s.submit_with("a", "post_result => true");
    let waiter = wait(cancelled);
    s.cancel(cancelled);
    assert_eq!(waiter.join().unwrap().as_deref(), Some("cancelled"));

    let root = s.submit("root");
    let dependent: Uuid = s.value(
        "select scylla.submit('b', after => array[$1::uuid], post_result => true)",
        &[&root],
    );
    let last: Uuid = s.value(
        "select scylla.submit('b', after => array[$1::uuid], post_result => true)",
        &[&dependent],
    );
    let (first, second) = (wait(dependent), wait(last));
    let lease = s.own_one("root");
    s.return_task(&lease, "aborted").unwrap();
    assert_eq!(first.join().unwrap().as_deref(), Some("aborted"), "a cascade");
    assert_eq!(second.join().unwrap().as_deref(), Some("aborted"), "its next step");

    let batch: Vec<Uuid> = (0..3).map(|_| s.submit_with("c", "post_result => true")).collect();
    let leases = s.own("w", "c", 3);
    let waiters: Vec<_> = batch.into_iter().map(wait).collect();
    let (ids, tokens): (Vec<Uuid>, Vec<Uuid>) =
        leases.iter().map(|lease| (lease.id, lease.token)).unzip();
    s.value::<Vec<Option<String>>>("select scylla.return_tasks($1, $2)", &[&ids, &tokens]);
    for waiter in waiters {
        assert_eq!(waiter.join().unwrap().as_deref(), Some("completed"), "in bulk");
    }
}
