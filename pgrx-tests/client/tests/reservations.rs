//! Ownerships in an open transaction: they do not count as tries yet, and the transaction cannot
//! own a task that it made ready itself.

use client::*;

/// Owns a task in an open transaction with a lease that expires before the transaction ends.
/// Returns once other workers can own the task.
#[track_caller]
fn run_out(a: &mut Session, b: &mut Session, id: Uuid) -> Lease {
    a.run("begin");
    let late = a.own_one_with("q", "timeout => '50 ms'");
    assert_eq!(late.id, id);
    eventually(seconds(5), "the reservation expires", || {
        let free = "select scylla.why($1) like '%waits for a worker'";
        (b.value::<bool>(free, &[&id]) && b.status(id) != "running").then_some(())
    });
    sleep(milliseconds(100));
    late
}

/// Status, tries and history, as another session sees them.
fn told(s: &mut Session, id: Uuid) -> (String, i64, Vec<String>) {
    let entry = s.entry(id);
    let status = entry["status"].as_str().expect("a status").to_owned();
    (status, entry["tries"].as_i64().expect("tries"), s.history(id))
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|it| it.to_string()).collect()
}

/// I2: an ownership that rolled back is no try, even if its lease expired before.
#[test]
fn a_rolled_back_ownership_is_no_try_though_its_lease_expired() {
    let database = database();
    let (mut a, mut b) = (database.connect(), database.connect());
    for options in ["max_tries => 1", "max_tries => 3"] {
        let id = a.submit_with("q", options);
        run_out(&mut a, &mut b, id);
        a.run("rollback");
        assert_eq!(told(&mut b, id), ("ready".to_owned(), 0, vec![]), "{options}");
        let lease = b.own_one("q");
        assert_eq!((lease.id, lease.tries), (id, 1), "{options}");
        b.complete(&lease);
        assert_eq!(told(&mut b, id), ("completed".to_owned(), 1, words(&["Assignment"])));
    }
}

/// A rollback to a savepoint, or the end of the session, undoes the try too.
#[test]
fn each_kind_of_rollback_of_an_ownership_undoes_the_try() {
    let database = database();
    let (mut a, mut b) = (database.connect(), database.connect());
    let id = a.submit_with("q", "max_tries => 1");
    a.run("begin; savepoint s");
    a.own_one_with("q", "timeout => '50 ms'");
    sleep(milliseconds(300));
    a.run("rollback to s; commit");
    assert_eq!(told(&mut b, id), ("ready".to_owned(), 0, vec![]));
    run_out(&mut a, &mut b, id);
    b.value::<bool>("select pg_terminate_backend($1, 10000)", &[&a.pid]);
    eventually(seconds(5), "the task is ready", || {
        (told(&mut b, id) == ("ready".to_owned(), 0, vec![])).then_some(())
    });
    b.own_one("q");
}

/// An ownership that commits is a try, even if its lease expired before.
#[test]
fn a_committed_ownership_is_a_try_though_its_lease_expired() {
    let database = database();
    let (mut a, mut b) = (database.connect(), database.connect());
    for (options, status) in [("max_tries => 3", "ready"), ("max_tries => 1", "aborted")] {
        let id = a.submit_with("q", options);
        run_out(&mut a, &mut b, id);
        a.run("commit");
        let expected = (status.to_owned(), 1, words(&["Assignment", "Timeout"]));
        eventually(seconds(5), "the expiry is written", || {
            (told(&mut b, id) == expected).then_some(())
        });
        b.cancel(id);
    }
}

/// While no other worker has owned the task, a transaction whose lease expired may extend and
/// return it.
#[test]
fn a_late_transaction_may_still_extend_and_return() {
    let database = database();
    let (mut a, mut b) = (database.connect(), database.connect());
    for end in ["commit", "rollback"] {
        let id = a.submit("q");
        let late = run_out(&mut a, &mut b, id);
        assert!(a.extend_with(&late, "timeout => '1 hour'"), "{end}");
        assert!(b.own("b", "q", 1).is_empty(), "{end}: it is reserved again");
        a.run(end);
        let expected = if end == "commit" {
            ("running".to_owned(), 1, words(&["Assignment"]))
        } else {
            ("ready".to_owned(), 0, vec![])
        };
        assert_eq!(told(&mut b, id), expected, "{end}");
        b.cancel(id);

        let id = a.submit("q");
        let late = run_out(&mut a, &mut b, id);
        a.complete(&late);
        assert!(b.own("b", "q", 1).is_empty(), "{end}: it is being returned");
        a.run(end);
        let expected = if end == "commit" {
            ("completed".to_owned(), 1, words(&["Assignment"]))
        } else {
            ("ready".to_owned(), 0, vec![])
        };
        assert_eq!(told(&mut b, id), expected, "{end}");
        b.cancel(id);
    }
}

/// A task that is reserved in an open transaction can be extended with its token from every
/// connection.
#[test]
fn a_reserved_task_is_extended_from_every_connection() {
    let database = database();
    let (mut a, mut b) = (database.connect(), database.connect());
    for end in ["commit", "rollback"] {
        let id = a.submit("q");
        a.run("begin");
        let lease = a.own_one_with("q", "timeout => '2 s'");
        for _ in 0..5 {
            sleep(milliseconds(500));
            assert!(b.extend_with(&lease, "timeout => '2 s', progress => 0.5"), "{end}");
        }
        let forged = Lease { token: Uuid::new_v4(), ..lease.clone() };
        assert!(!b.extend(&forged));
        assert!(b.own("b", "q", 1).is_empty(), "{end}: it is reserved");
        assert_eq!(b.not_returned(&lease).code().code(), "55006", "only its transaction may");
        assert!(b.extend_with(&lease, "timeout => '1 hour'"));
        a.run(end);
        let progress = b.entry(id)["progress"].as_f64();
        let (status, tries, _) = told(&mut b, id);
        if end == "commit" {
            assert_eq!((status.as_str(), tries, progress), ("running", 1, Some(0.5)));
            b.complete(&lease);
        } else {
            assert_eq!((status.as_str(), tries, progress), ("ready", 0, Some(0.0)));
            assert!(!b.extend(&lease), "it rolled back");
        }
        b.run("select scylla.delete_tasks(array_agg(id)) from scylla.tasks where queue = 'q'");
    }
}

/// A reservation that expired can be extended from every connection while no other worker has owned
/// the task.
#[test]
fn a_late_reservation_is_extended_from_every_connection() {
    let database = database();
    let (mut a, mut b) = (database.connect(), database.connect());
    for (end, status) in [("commit", "running"), ("rollback", "ready")] {
        let id = a.submit("q");
        let late = run_out(&mut a, &mut b, id);
        assert!(b.extend_with(&late, "timeout => '1 hour'"), "{end}");
        assert!(b.own("b", "q", 1).is_empty(), "{end}: it is reserved again");
        assert!(b.text(&format!("select scylla.why('{id}')")).contains(&a.pid.to_string()));
        a.run(end);
        assert_eq!(b.status(id), status);
        b.cancel(id);
    }
}

/// A reserved task is running for its own transaction, and ready with an owner for others. `why`
/// names the process that has to commit.
#[test]
fn a_reserved_task_is_running_in_its_transaction_and_ready_elsewhere() {
    let database = database();
    let (mut a, mut b) = (database.connect(), database.connect());
    let id = a.submit("q");
    let look = "select row(status, owner, progress, deadline is null, tries,
            jsonb_array_length(history))::text
        from scylla.tasks where id = $1";
    let by_status = "select count(*) from scylla.tasks where queue = 'q' and status = $1";
    a.run("begin");
    let lease = a.own_one_with("q", "timeout => '1 hour'");
    assert!(a.extend_with(&lease, "progress => 0.5"));
    assert_eq!(a.value::<String>(look, &[&id]), "(running,w,0.5,f,1,1)");
    assert_eq!(b.value::<String>(look, &[&id]), "(ready,w,0,t,0,0)");
    for (s, ready, running) in [(&mut a, 0, 1), (&mut b, 1, 0)] {
        assert_eq!(s.value::<i64>(by_status, &[&"ready"]), ready);
        assert_eq!(s.value::<i64>(by_status, &[&"running"]), running);
    }
    let entry = b.entry(id);
    assert_eq!(
        (&entry["status"], &entry["owner"], &entry["tries"]),
        (&json!("ready"), &json!("w"), &json!(0))
    );
    assert_eq!((&entry["deadline"], &entry["history"]), (&Value::Null, &json!([])));
    let why = |s: &mut Session| s.text(&format!("select scylla.why('{id}')"));
    assert_eq!(why(&mut a), "it is running, owned by worker \"w\"");
    let expected = format!(
        "it is reserved for worker \"w\" until the transaction of process {} commits",
        a.pid
    );
    assert_eq!(why(&mut b), expected);
    a.run("commit");
    assert_eq!(b.value::<String>(look, &[&id]), "(running,w,0.5,f,1,1)");
    assert_eq!(why(&mut b), "it is running, owned by worker \"w\"");
}

/// The token of an ownership that rolled back is invalid.
#[test]
fn the_token_of_a_rolled_back_ownership_is_void() {
    let database = database();
    let (mut a, mut b) = (database.connect(), database.connect());
    let id = a.submit("q");
    let late = run_out(&mut a, &mut b, id);
    a.run("rollback");
    assert!(!a.extend(&late));
    assert_eq!(a.not_returned(&late).code().code(), "55006");
    assert_eq!(b.own_one("q").id, id);
}

/// A reservation expires while another transaction changes the task and then rolls back.
#[test]
fn a_reservation_expires_while_another_transaction_changes_its_task() {
    let database = database();
    let (mut a, mut b) = (database.connect(), database.connect());
    for (end, tries) in [("commit", 1), ("rollback", 0)] {
        let id = a.submit("q");
        run_out(&mut a, &mut b, id);
        b.run("begin");
        assert!(b.value::<bool>("select scylla.delay($1, now() + interval '1 hour')", &[&id]));
        a.run(end);
        b.run("rollback");
        let expected = |s: &mut Session| {
            let (status, counted, _) = told(s, id);
            (status, counted) == ("ready".to_owned(), tries)
        };
        eventually(seconds(5), "the task is ready", || expected(&mut b).then_some(()));
        b.cancel(id);
    }
}

/// Restarts the server, so that only the table knows the ready tasks and the first call refills the
/// lane.
fn forget(server: &Server, database: &Database) -> (Session, Session) {
    server.stop("fast");
    server.start_again();
    (database.connect(), database.connect())
}

fn ids(leases: &[Lease]) -> Vec<Uuid> {
    leases.iter().map(|lease| lease.id).collect()
}

/// I2: a transaction cannot own a task that it submitted, whichever call fills the lane. Others can
/// after the commit.
#[test]
fn a_transaction_does_not_own_what_it_has_submitted() {
    let server = Server::start(&[]);
    let database = server.database();
    let old = database.connect().submit("q");
    let (mut a, mut b) = forget(&server, &database);
    a.run("begin");
    let new = a.submit_with("q", "priority => 9");
    a.run("savepoint s");
    let inner = a.submit_with("q", "priority => 8");
    a.run("release s");
    assert_eq!(ids(&a.own("a", "q", 10)), [old]);
    assert!(b.own("b", "q", 10).is_empty());
    a.run("commit");
    assert_eq!(ids(&b.own("b", "q", 10)), [new, inner]);
    server.assert_log_is_clean();
}

/// A task that a transaction fires, brings forward or releases from its predecessors becomes ready
/// at the commit.
#[test]
fn a_transaction_does_not_own_what_it_has_made_ready() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    let old = s.submit("q");
    let delayed = s.submit_with("q", "run_at => now() + interval '1 hour'");
    let first = s.submit("other");
    let second = s.submit_after("q", &[first], "action => ''");
    let (mut a, mut b) = forget(&server, &database);
    let lease = a.own_one("other");
    a.run("begin");
    assert!(a.value::<bool>("select scylla.delay($1, now())", &[&delayed]));
    a.complete(&lease);
    assert_eq!(ids(&a.own("a", "q", 10)), [old]);
    a.run("commit");
    let mut rest = ids(&b.own("b", "q", 10));
    rest.sort_unstable();
    let mut expected = [delayed, second];
    expected.sort_unstable();
    assert_eq!(rest, expected);
}

/// I4: a transaction owns a ready task whose row it changed without making it ready.
#[test]
fn a_transaction_owns_what_it_has_only_touched() {
    let server = Server::start(&[]);
    let database = server.database();
    for end in ["commit", "rollback"] {
        let old = database.connect().submit("q");
        let (mut a, mut b) = forget(&server, &database);
        a.run("begin");
        // marks the predecessor's row
        a.submit_after("later", &[old], "action => ''");
        assert_eq!(ids(&a.own("a", "q", 10)), [old], "{end}");
        a.run(end);
        let left = b.own("b", "q", 10);
        assert_eq!(ids(&left), if end == "commit" { vec![] } else { vec![old] });
        b.cancel(old);
    }
}

/// I4: when a refill reads only tasks of its own transaction, other sessions still find the lane.
#[test]
fn a_lane_read_by_its_submitter_is_found_by_others() {
    let server = Server::start(&[]);
    let database = server.database();
    for end in ["rollback", "commit"] {
        let old = database.connect().submit("q");
        let (mut a, mut b) = forget(&server, &database);
        a.run("begin");
        let new = a.submit_many("q", 3_000);
        assert!(a.value::<bool>("select scylla.delay($1, now() + interval '1 hour')", &[&old]));
        assert!(a.own("a", "q", 10).is_empty(), "{end}");
        a.run(end);
        let owned = b.own("b", "q", 4_000);
        assert_eq!(ids(&owned), if end == "commit" { new } else { vec![old] }, "{end}");
        owned.iter().take(1).for_each(|lease| b.complete(lease));
    }
}

/// Returning from another session, before the owning transaction has committed, says what is
/// missing; also if the lease has expired. With another token it says nothing of the kind.
#[test]
fn returning_too_early_tells_that_the_owner_must_commit() {
    let database = database();
    let (mut a, mut b) = (database.connect(), database.connect());
    for options in ["timeout => '1 min'", "timeout => '50 ms'"] {
        let id = a.submit("q");
        a.run("begin");
        let lease = a.own_one_with("q", options);
        assert_eq!(lease.id, id);
        if options.contains("ms") {
            eventually(seconds(5), "the reservation expires", || {
                let free = "select scylla.why($1) like '%waits for a worker'";
                b.value::<bool>(free, &[&id]).then_some(())
            });
        }
        let error = b.not_returned(&lease);
        assert_eq!(error.code().code(), "55006");
        assert_eq!(
            error.message(),
            format!("the token is not valid yet for task {id}"),
            "{options}"
        );
        assert!(error.detail().unwrap().contains(&format!("process {}", a.pid)));
        assert!(error.hint().unwrap().starts_with("Commit that transaction"));
        let guess = Lease { token: Uuid::from_u128(1), ..lease.clone() };
        assert_eq!(
            b.not_returned(&guess).message(),
            format!("the token is not valid for task {id}")
        );
        a.run("commit");
        b.complete(&lease);
    }
}
