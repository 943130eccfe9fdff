//! Cancelling tasks, and its races with returning and owning.

use client::*;
use std::sync::Barrier;
use std::time::Instant;

/// B52, B53: a cancelled task is never owned.
#[test]
fn cancelled_task_is_never_owned() {
    let database = database();
    let mut s = database.connect();
    let kept = s.submit_with("q", "priority => 1");
    let gone = s.submit_with("q", "priority => 2");
    assert!(s.cancel(gone));
    assert!(!s.cancel(gone), "it was already terminal");
    let owned: Vec<Uuid> = s.own("w", "q", 5).iter().map(|lease| lease.id).collect();
    assert_eq!(owned, [kept]);
    let entry = s.entry(gone);
    assert_eq!(
        (&entry["status"], &entry["errors"], &entry["tries"]),
        (&json!("cancelled"), &json!([]), &json!(0))
    );
    let absent = s.refusal("select scylla.cancel($1)", &[&Uuid::new_v4()]);
    assert_eq!(absent.code().code(), "P0002");
}

/// B54: the worker of a cancelled task learns of the cancel at its next call. Neither that call nor
/// the deadline makes the task ready again.
#[test]
fn worker_of_a_cancelled_task_learns_at_its_next_call() {
    let database = database();
    let (mut worker, mut other) = (database.connect(), database.connect());
    worker.submit_many("q", 2);
    let leases = worker.own_with("w", "q", 2, "timeout => '300 ms'");
    for lease in &leases {
        assert!(other.cancel(lease.id));
        assert!(!worker.extend_with(lease, "timeout => '1 hour', progress => 0.5"));
        for outcome in ["completed", "aborted", "retry", "yield"] {
            let complaint = failure(worker.return_task(lease, outcome), outcome);
            assert_eq!(complaint.code().code(), "55000");
            assert!(complaint.message().contains("cancelled"), "{complaint}");
        }
    }
    let (ids, tokens): (Vec<Uuid>, Vec<Uuid>) =
        leases.iter().map(|lease| (lease.id, lease.token)).unzip();
    let answers: Vec<Option<String>> =
        worker.value("select scylla.return_tasks($1, $2)", &[&ids, &tokens]);
    assert_eq!(answers, [None, None]);
    sleep(milliseconds(600));
    for lease in &leases {
        assert_eq!(other.status(lease.id), "cancelled");
        assert!(!other.history(lease.id).contains(&"Timeout".to_owned()));
    }
    assert!(other.own("w", "q", 5).is_empty());
}

/// `cancel_tasks` returns one answer for each id, in order; NULL if there is no such task.
#[test]
fn bulk_cancel_answers_for_each_task() {
    let database = database();
    let mut s = database.connect();
    let (running, completed) = (s.submit("q"), s.submit("q"));
    let leases = s.own("w", "q", 2);
    s.complete(&leases[1]);
    let (ready, again) = (s.submit("q"), s.submit("q"));
    s.cancel(again);
    let ids = vec![ready, completed, Uuid::new_v4(), running, again];
    let answers: Vec<Option<bool>> = s.value("select scylla.cancel_tasks($1)", &[&ids]);
    assert_eq!(answers, [Some(true), Some(false), None, Some(true), Some(false)]);
    assert_eq!((s.tasks("cancelled"), s.tasks("completed")), (3, 1));
    assert!(!s.extend(&leases[0]) && s.own("w", "q", 5).is_empty());
}

/// B52: a task whose lease has expired can be cancelled.
#[test]
fn expired_task_is_cancelled_like_any_other() {
    let database = database();
    let mut s = database.connect();
    let id = s.submit("q");
    let lease = s.own_one_with("q", "timeout => '100 ms'");
    eventually(seconds(3), "the lease expires", || (s.status(id) == "ready").then_some(()));
    assert!(s.cancel(id));
    assert!(!s.extend(&lease));
    assert_eq!(s.not_returned(&lease).code().code(), "55000");
    assert!(s.own("w", "q", 5).is_empty());
}

/// I3: a cancel succeeds while the task's owner has not committed. The end of the owner's
/// transaction frees only the slot.
#[test]
fn cancel_overtakes_an_uncommitted_own() {
    let database = database();
    let (mut a, mut b) = (database.connect(), database.connect());
    for end in ["commit", "rollback"] {
        let id = a.submit("q");
        a.run("begin");
        let lease = a.own_one("q");
        assert_eq!(lease.id, id);
        assert!(b.cancel(id));
        a.run(end);
        assert!(!a.extend(&lease), "{end}");
        assert_eq!(a.not_returned(&lease).code().code(), "55000", "{end}");
        assert!(b.own("w", "q", 5).is_empty(), "{end}");
        assert_eq!(b.status(id), "cancelled");
    }
}

/// B55: of a return and a cancel at the same moment, exactly one settles the task, and the table
/// agrees with the answers. Repeated for 2,000 tasks.
#[test]
fn cancel_against_return_has_one_winner() {
    let database = database();
    let mut s = database.connect();
    s.submit_many("q", 2000);
    let leases = s.own_with("w", "q", 2000, "timeout => '10 minutes'");
    let verdicts: Vec<(Uuid, Result<String, String>, bool)> = std::thread::scope(|scope| {
        let pairs: Vec<_> = leases
            .chunks(500)
            .map(|mine| {
                let barrier: &'static Barrier = Box::leak(Box::new(Barrier::new(2)));
                let (mut returner, mut canceller) = (database.connect(), database.connect());
                let returns = scope.spawn(move || {
                    let outcomes = ["completed", "aborted", "retry", "completed"];
                    let end = |(n, lease): (usize, &Lease)| {
                        barrier.wait();
                        returner.return_task(lease, outcomes[n % 4]).map_err(|error| code(&error))
                    };
                    mine.iter().enumerate().map(end).collect::<Vec<_>>()
                });
                let cancels = scope.spawn(move || {
                    let cancel = |(n, lease): (usize, &Lease)| {
                        barrier.wait();
                        // now earlier and then later, so that both sides win sometimes
                        let until =
                            Instant::now() + std::time::Duration::from_micros((n % 7) as u64 * 60);
                        while Instant::now() < until {}
                        canceller.cancel(lease.id)
                    };
                    mine.iter().enumerate().map(cancel).collect::<Vec<_>>()
                });
                (mine, returns, cancels)
            })
            .collect();
        pairs
            .into_iter()
            .flat_map(|(mine, returns, cancels)| {
                let answers = returns.join().unwrap().into_iter().zip(cancels.join().unwrap());
                mine.iter()
                    .zip(answers)
                    .map(|(lease, (returned, cancelled))| (lease.id, returned, cancelled))
                    .collect::<Vec<_>>()
            })
            .collect()
    });
    assert_eq!(verdicts.len(), 2000);
    let mut cancels = 0;
    for (id, returned, cancelled) in verdicts {
        let status = s.status(id);
        match (&returned, cancelled) {
            // a retry does not settle the task, so a cancel may follow it
            (Ok(now), true) => assert_eq!((now.as_str(), status.as_str()), ("ready", "cancelled")),
            (Ok(now), false) => assert_eq!(*now, status),
            (Err(code), true) => {
                assert_eq!((code.as_str(), status.as_str()), ("55000", "cancelled"))
            }
            (Err(code), false) => panic!("{id}: both lost: {code}, {status}"),
        }
        cancels += i32::from(cancelled && returned.is_err());
    }
    assert!((20..1980).contains(&cancels), "not much of a race: {cancels} cancels won");
    assert!(s.own("w", "q", 5).iter().all(|lease| lease.tries == 2), "only retried tasks are left");
}

/// B53: no worker owns a task after its cancel was acknowledged, while cancels and owners run
/// concurrently.
#[test]
fn cancel_against_own_never_hands_out_a_cancelled_task() {
    let database = database();
    let ids = database.connect().submit_many("q", 2000);
    let (owned, cancelled) = std::thread::scope(|scope| {
        let owners: Vec<_> = (0..4)
            .map(|_| {
                let mut s = database.connect();
                scope.spawn(move || {
                    let mut mine = Vec::new();
                    loop {
                        let asked = Instant::now();
                        let leases = s.own("w", "q", 3);
                        if leases.is_empty() {
                            return mine;
                        }
                        mine.extend(leases.into_iter().map(|lease| (lease, asked)));
                    }
                })
            })
            .collect();
        let cancellers: Vec<_> = ids
            .chunks(500)
            .map(|mine| {
                let mut s = database.connect();
                let cancel = move |id: &Uuid| s.cancel(*id).then(|| (*id, Instant::now()));
                scope.spawn(move || mine.iter().rev().filter_map(cancel).collect::<Vec<_>>())
            })
            .collect();
        let owned: Vec<(Lease, Instant)> =
            owners.into_iter().flat_map(|owner| owner.join().unwrap()).collect();
        let cancelled: Vec<(Uuid, Instant)> =
            cancellers.into_iter().flat_map(|c| c.join().unwrap()).collect();
        (owned, cancelled)
    });
    assert_eq!(cancelled.len(), 2000, "every task was cancelled, ready or running");
    let mut s = database.connect();
    let when: std::collections::HashMap<Uuid, Instant> = cancelled.into_iter().collect();
    for (lease, asked) in &owned {
        assert!(*asked < when[&lease.id], "{} was handed out after its cancel", lease.id);
        assert!(!s.extend(lease));
    }
    assert_eq!(s.tasks("cancelled"), 2000);
    assert!(s.own("w", "q", 5).is_empty());
}
