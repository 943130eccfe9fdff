//! Two concurrent returns with one token, and the state of a task while its return commits.

use client::*;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// B43: the second return raises an error: the task is being returned (55006), or has been returned
/// (55000).
#[test]
fn the_loser_of_two_returns_is_told_why() {
    let database = database();
    let mut s = database.connect();
    let pairs = 400;
    s.submit_many("q", pairs);
    let leases = s.own("w", "q", pairs);
    let barrier = Barrier::new(2);
    let answers = thread::scope(|scope| {
        let returning = |mut s: Session| {
            let (leases, barrier) = (&leases, &barrier);
            scope.spawn(move || {
                let answer = |lease| {
                    barrier.wait();
                    s.return_task(lease, "completed").unwrap_or_else(|error| code(&error))
                };
                leases.iter().map(answer).collect::<Vec<String>>()
            })
        };
        [returning(database.connect()), returning(database.connect())].map(|it| it.join().unwrap())
    });
    let [one, other] = answers;
    for (one, other) in one.iter().zip(&other) {
        let mut pair = [one.as_str(), other.as_str()];
        pair.sort_unstable();
        assert!(pair == ["55000", "completed"] || pair == ["55006", "completed"], "{pair:?}");
    }
}

/// A task that its worker returns is running until the commit, and never ready in between.
#[test]
fn a_task_is_not_ready_while_its_return_commits() {
    let database = database();
    let mut s = database.connect();
    let tasks = 1_500;
    for how in ["scylla.task($1) ->> 'status'", "scylla.why($1)"] {
        s.submit_many("q", tasks);
        let leases = s.own_with("w", "q", tasks, "timeout => '1 hour'");
        let done = AtomicBool::new(false);
        let seen = thread::scope(|scope| {
            let look = |part: usize| {
                let (mut s, leases, done) = (database.connect(), &leases, &done);
                scope.spawn(move || {
                    let look = s.prepare(&format!("select {how}")).unwrap();
                    let mut wrong = Vec::new();
                    for lease in leases.iter().skip(part).step_by(2) {
                        loop {
                            let said: String = s.query_one(&look, &[&lease.id]).unwrap().get(0);
                            let over = said.contains("completed");
                            if !over && !said.contains("running") {
                                wrong.push(said);
                            }
                            if over || done.load(Ordering::Relaxed) {
                                break;
                            }
                        }
                    }
                    wrong
                })
            };
            let lookers = [look(0), look(1)];
            leases.iter().for_each(|lease| s.complete(lease));
            done.store(true, Ordering::Relaxed);
            lookers.map(|it| it.join().unwrap()).concat()
        });
        assert!(seen.is_empty(), "{how}: {} times: {:?}", seen.len(), seen.first());
    }
}
