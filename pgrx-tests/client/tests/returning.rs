//! Returning tasks: completed, aborted, retried or yielded, singly and in bulk.

use client::*;

/// One task of each terminal status, with the lease that it was settled under.
fn settled(s: &mut Session) -> Vec<(&'static str, Lease)> {
    s.submit_many("settled", 3);
    let leases = s.own_with("w", "settled", 3, "timeout => '2 s'");
    s.complete(&leases[0]);
    assert_eq!(s.return_task(&leases[1], "aborted").unwrap(), "aborted");
    assert!(s.cancel(leases[2].id));
    ["completed", "aborted", "cancelled"].into_iter().zip(leases).collect()
}

/// B39, B40: completing stores the result and keeps the owner.
#[test]
fn completing_stores_the_result_and_keeps_the_owner() {
    let database = database();
    let mut s = database.connect();
    for result in
        [json!({"sha256": "ab'c\"", "size": 12.5}), json!([1, "ü"]), json!("text"), Value::Null]
    {
        let id = s.submit("q");
        let lease = s.own_one("q");
        assert!(s.extend_with(&lease, "progress => 0.5"));
        let sql = "select scylla.return_task($1, $2, 'completed', result => $3)";
        assert_eq!(s.value::<String>(sql, &[&id, &lease.token, &result]), "completed");
        let entry = s.entry(id);
        assert_eq!(
            (&entry["status"], &entry["progress"], &entry["owner"]),
            (&json!("completed"), &json!(1), &json!("w"))
        );
        assert_eq!(
            (&entry["result"], &entry["deadline"], &entry["tries"]),
            (&result, &Value::Null, &json!(1))
        );
        assert_eq!(s.history(id), ["Assignment"], "the history survives the settling");
    }
    let id = s.submit("q");
    let lease = s.own_one("q");
    assert_eq!(
        s.value::<String>("select scylla.return_task($1, $2)", &[&id, &lease.token]),
        "completed",
        "by default"
    );
    assert_eq!(s.entry(id)["result"], Value::Null);
}

/// B2: the spec and the time of creation never change; `updated` grows with every write.
#[test]
fn spec_and_created_never_change_and_updated_does() {
    let database = database();
    let mut s = database.connect();
    let id: Uuid = s.value("select scylla.submit('q', '{\"b\": 1, \"a\": [2]}')", &[]);
    let first = s.entry(id);
    let mut updated = first["updated"].as_str().unwrap().to_owned();
    for outcome in ["retry", "retry", "completed"] {
        let lease = s.own_one("q");
        s.return_task(&lease, outcome).unwrap();
        let entry = s.entry(id);
        for field in ["rn", "created", "spec", "queue", "action", "priority"] {
            assert_eq!(entry[field], first[field], "{field}");
        }
        let now = entry["updated"].as_str().unwrap().to_owned();
        assert!(
            s.value::<bool>(
                "select ($1::text)::timestamptz > ($2::text)::timestamptz",
                &[&now, &updated]
            ),
            "{outcome}"
        );
        updated = now;
    }
}

/// B41: aborting appends the error, and is final.
#[test]
fn aborting_appends_its_error_and_is_final() {
    let database = database();
    let mut s = database.connect();
    let id = s.submit_with("q", "max_tries => 9");
    let lease = s.own_one("q");
    assert_eq!(s.return_task(&lease, "aborted").unwrap(), "aborted");
    let entry = s.entry(id);
    assert_eq!(
        (&entry["errors"], &entry["status"], &entry["deadline"]),
        (&json!([an_error()]), &json!("aborted"), &Value::Null)
    );
    assert!(s.own("w", "q", 1).is_empty());
}

/// B41: an abort without an error is refused, and the lease stays valid.
#[test]
fn aborting_needs_an_error() {
    let database = database();
    let mut s = database.connect();
    s.submit("q");
    let lease = s.own_one("q");
    let sql = "select scylla.return_task($1, $2, 'aborted', error => $3)";
    for none in [None, Some(Value::Null)] {
        let missing = s.refusal(sql, &[&lease.id, &lease.token, &none]);
        assert_eq!(missing.code().code(), "22004", "{none:?}");
    }
    assert!(s.extend(&lease));
    assert_eq!(s.entry(lease.id)["errors"], json!([]));
}

/// B41: any JSON is accepted as an error: missing members get defaults, more members are kept, and
/// other JSON becomes the description.
#[test]
fn any_json_is_an_error() {
    let database = database();
    let mut s = database.connect();
    let described = |text: &str| json!({"code": "error", "args": {}, "description": text});
    for (given, kept) in [
        (json!({}), described("")),
        (json!("text"), described("text")),
        (json!(1.5), described("1.5")),
        (json!(true), described("true")),
        (json!([1, "a"]), described("[1, \"a\"]")),
        (json!({"code": 1, "args": [], "description": null}), described("")),
        (
            json!({"code": "c", "more": [1]}),
            json!({"code": "c", "args": {}, "description": "", "more": [1]}),
        ),
        (
            json!({"code": "c", "args": {"n": 1}, "description": "d"}),
            json!({"code": "c", "args": {"n": 1}, "description": "d"}),
        ),
    ] {
        s.submit("q");
        let lease = s.own_one("q");
        let sql = "select scylla.return_task($1, $2, 'aborted', error => $3)";
        assert_eq!(s.value::<String>(sql, &[&lease.id, &lease.token, &given]), "aborted");
        assert_eq!(s.entry(lease.id)["errors"], json!([kept]), "{given}");
    }
}

/// B37, B43: a second return with the same token fails, in every status.
#[test]
fn second_return_with_the_same_token_fails() {
    let database = database();
    let mut s = database.connect();
    for (status, lease) in settled(&mut s) {
        for outcome in ["completed", "aborted", "retry", "yield"] {
            let complaint = failure(s.return_task(&lease, outcome), outcome);
            assert_eq!(complaint.code().code(), "55000", "{status} {outcome}");
            assert!(complaint.message().contains(status), "{complaint}");
        }
    }
    for outcome in ["retry", "yield"] {
        let id = s.submit("q");
        let lease = s.own_one("q");
        assert_eq!(s.return_task(&lease, outcome).unwrap(), "ready");
        assert_eq!(s.not_returned(&lease).code().code(), "55006", "{outcome}");
        assert!(!s.extend(&lease), "{outcome}");
        s.cancel(id);
    }
}

/// B42, B51: a settled task refuses every operation.
#[test]
fn settled_task_refuses_every_operation() {
    let database = database();
    let mut s = database.connect();
    let all = settled(&mut s);
    let before: Vec<Value> = all.iter().map(|(_, lease)| s.entry(lease.id)).collect();
    for (status, lease) in &all {
        assert!(!s.extend_with(lease, "progress => 0.1"), "{status}");
        assert!(!s.cancel(lease.id), "{status}");
        let complaint = failure(s.try_own_task(lease.id), status);
        assert_eq!(complaint.code().code(), "55000");
        let answer: Vec<Option<String>> =
            s.value("select scylla.return_tasks($1, $2)", &[&vec![lease.id], &vec![lease.token]]);
        assert_eq!(answer, [None], "{status}");
        let duplicate = s.refusal("select scylla.submit('q', id => $1)", &[&lease.id]);
        assert_eq!(duplicate.code().code(), "23505", "{status}: its id stays taken");
    }
    sleep(milliseconds(2_300));
    assert!(s.own("w", "settled", 5).is_empty() && s.own("w", "q", 5).is_empty());
    let after: Vec<Value> = all.iter().map(|(_, lease)| s.entry(lease.id)).collect();
    assert_eq!(after, before, "not even their old deadlines change them");
}

/// B46: an unknown outcome is refused, and the lease stays valid.
#[test]
fn unknown_outcome_is_refused_and_the_lease_stays_valid() {
    let database = database();
    let mut s = database.connect();
    s.submit("q");
    let lease = s.own_one("q");
    for outcome in ["complete", "COMPLETED", "", "cancelled", "ready", "completed "] {
        assert_eq!(failure(s.return_task(&lease, outcome), outcome).code().code(), "22023");
    }
    s.complete(&lease);
}

/// B47: a retry offers the task again and appends its error.
#[test]
fn retry_offers_the_task_again_and_keeps_its_error() {
    let database = database();
    let mut s = database.connect();
    let id = s.submit("q");
    let lease = s.own_one("q");
    let sql = "select scylla.return_task($1, $2, 'retry', error => $3)";
    assert_eq!(s.value::<String>(sql, &[&id, &lease.token, &an_error()]), "ready");
    let entry = s.entry(id);
    assert_eq!(
        (&entry["errors"], &entry["owner"], &entry["deadline"]),
        (&json!([an_error()]), &Value::Null, &Value::Null)
    );
    assert_eq!((&entry["tries"], &entry["history"][1]["_typ"]), (&json!(1), &json!("TaskRetry")));
    assert_eq!(entry["history"][1]["worker"], "w");
    assert_eq!(s.own_one("q").tries, 2);
}

/// B48: a retry of the last try aborts the task.
#[test]
fn retry_of_the_last_try_aborts_the_task() {
    let database = database();
    let mut s = database.connect();
    for max_tries in [1, 2, 5] {
        let id = s.submit_with("q", &format!("max_tries => {max_tries}"));
        for n in 1..=max_tries {
            let lease = s.own_one("q");
            assert_eq!(lease.tries, n);
            let sql = "select scylla.return_task($1, $2, 'retry', error => $3)";
            let status: String = s.value(sql, &[&id, &lease.token, &an_error()]);
            assert_eq!(status, if n < max_tries { "ready" } else { "aborted" });
        }
        let entry = s.entry(id);
        let codes: Vec<&str> = entry["errors"]
            .as_array()
            .unwrap()
            .iter()
            .map(|e| e["code"].as_str().unwrap())
            .collect();
        let given = codes.iter().filter(|code| **code == "test").count();
        assert_eq!(given, max_tries as usize, "{codes:?}");
        assert_eq!(codes.last(), Some(&"tries_exhausted"));
        assert_eq!((&entry["status"], &entry["tries"]), (&json!("aborted"), &json!(max_tries)));
        assert!(s.own("w", "q", 1).is_empty());
    }
}

/// B50: with `max_tries` 0 a task has no limit of tries.
#[test]
fn without_max_tries_there_is_no_limit() {
    let database = database();
    let mut s = database.connect();
    let id = s.submit("q");
    for n in 1..=120 {
        let lease = s.own_one("q");
        assert_eq!(lease.tries, n);
        assert_eq!(s.return_task(&lease, "retry").unwrap(), "ready");
    }
    assert_eq!(s.history(id).len(), 100, "the newest 100 events");
    assert_eq!(s.history(id).last().map(String::as_str), Some("Retry"));
}

/// B36, B38: a yield makes the task ready, and does not count as a try or a timeout.
#[test]
fn yield_makes_the_task_ready_and_undoes_the_try() {
    let database = database();
    let mut s = database.connect();
    let id = s.submit_with("q", "max_tries => 1");
    for _ in 0..3 {
        let lease = s.own_one_with("q", "timeout => '2 s'");
        assert_eq!(lease.tries, 1);
        assert!(s.extend_with(&lease, "progress => 0.25"));
        assert_eq!(s.return_task(&lease, "yield").unwrap(), "ready");
        assert_eq!(s.entry(id)["tries"], 0);
    }
    sleep(milliseconds(2_300));
    assert_eq!(
        s.history(id),
        ["Assignment", "Yield", "Assignment", "Yield", "Assignment", "Yield"]
    );
    let entry = s.entry(id);
    let event = &entry["history"][1];
    assert_eq!((&event["worker"], event["progress"].as_f64()), (&json!("w"), Some(0.25)));
    assert!(event["time"].is_string());
    assert_eq!(
        (&entry["status"], &entry["owner"], &entry["deadline"]),
        (&json!("ready"), &Value::Null, &Value::Null)
    );
}

/// `return_tasks` stores the result of each task. An invalid pair returns NULL and does not affect
/// the others.
#[test]
fn bulk_return_settles_each_with_its_own_result() {
    let database = database();
    let mut s = database.connect();
    s.submit_many("q", 5);
    let leases = s.own("w", "q", 5);
    s.cancel(leases[3].id);
    let ids: Vec<Uuid> = leases.iter().map(|lease| lease.id).chain([Uuid::new_v4()]).collect();
    let mut tokens: Vec<Uuid> =
        leases.iter().map(|lease| lease.token).chain([leases[0].token]).collect();
    tokens[1] = Uuid::new_v4();
    let results: Vec<Option<Value>> = (0..6).map(|n| (n != 2).then(|| json!({"n": n}))).collect();
    let sql = "select scylla.return_tasks($1, $2, 'completed', results => $3)";
    let statuses: Vec<Option<String>> = s.value(sql, &[&ids, &tokens, &results]);
    let completed = || Some("completed".to_owned());
    assert_eq!(statuses, [completed(), None, completed(), None, completed(), None]);
    let stored: Vec<Value> = ids[..5].iter().map(|id| s.entry(*id)["result"].clone()).collect();
    assert_eq!(stored, [json!({"n": 0}), Value::Null, Value::Null, Value::Null, json!({"n": 4})]);
    assert_eq!((s.status(ids[1]).as_str(), s.status(ids[3]).as_str()), ("running", "cancelled"));
    s.complete(&leases[1]);
}

/// `return_tasks` accepts the other outcomes too, with errors.
#[test]
fn bulk_return_knows_every_outcome() {
    let database = database();
    let mut s = database.connect();
    for (outcome, status, tries) in
        [("aborted", "aborted", 1), ("retry", "ready", 1), ("yield", "ready", 0)]
    {
        s.submit_many(outcome, 3);
        let leases = s.own("w", outcome, 3);
        let (ids, tokens): (Vec<Uuid>, Vec<Uuid>) =
            leases.iter().map(|lease| (lease.id, lease.token)).unzip();
        let error = |n: usize| json!({"code": format!("c{n}"), "args": {}, "description": "d"});
        let errors: Option<Vec<Value>> = (outcome != "yield").then(|| (0..3).map(error).collect());
        let sql = "select scylla.return_tasks($1, $2, $3, errors => $4)";
        let statuses: Vec<Option<String>> = s.value(sql, &[&ids, &tokens, &outcome, &errors]);
        assert_eq!(statuses, vec![Some(status.to_owned()); 3]);
        for (n, id) in ids.iter().enumerate() {
            let entry = s.entry(*id);
            assert_eq!((&entry["status"], &entry["tries"]), (&json!(status), &json!(tries)));
            assert_eq!(
                entry["errors"],
                if outcome == "yield" { json!([]) } else { json!([error(n)]) }
            );
        }
        let twice: Vec<Option<String>> = s.value(sql, &[&ids, &tokens, &outcome, &errors]);
        assert_eq!(twice, vec![None; 3], "the tokens are used up");
        assert_eq!(s.own("w", outcome, 5).len(), if status == "ready" { 3 } else { 0 });
    }
}

/// B43: a task named twice in one call is settled once.
#[test]
fn bulk_return_settles_a_task_named_twice_once() {
    let database = database();
    let mut s = database.connect();
    let id = s.submit_with("q", "max_tries => 5");
    let lease = s.own_one("q");
    let sql = "select scylla.return_tasks($1, $2, 'retry')";
    let statuses: Vec<Option<String>> =
        s.value(sql, &[&vec![id, id], &vec![lease.token, lease.token]]);
    assert_eq!(
        statuses.iter().filter(|status| status.as_deref() == Some("ready")).count(),
        1,
        "{statuses:?}"
    );
    assert_eq!(s.history(id), ["Assignment", "Retry"]);
    assert_eq!(s.own("w", "q", 5).len(), 1);
}
