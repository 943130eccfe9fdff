//! Wide and deep graphs.

use crate::{assert_empty, new_ids, return_all, submit_graph};
use client::*;
use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// B73: when 16 connections return 50,000 predecessors in batches of 100, their dependent becomes
/// ready exactly once.
#[test]
fn fan_in_of_fifty_thousand_makes_one_dependent_ready() {
    const TASKS: usize = 50_000;
    let database = database();
    let mut s = database.connect();
    let ids = new_ids(TASKS);
    let mut graph: Vec<(Uuid, Vec<Uuid>)> = ids.iter().map(|id| (*id, Vec::new())).collect();
    let dependent = Uuid::new_v4();
    graph.push((dependent, ids));
    submit_graph(&mut s, "q", &graph);
    let (returned, early) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..16 {
            let (mut s, returned, early) = (database.connect(), &returned, &early);
            scope.spawn(move || {
                loop {
                    let leases = s.own("w", "q", 100);
                    if leases.iter().any(|lease| lease.id == dependent) {
                        early.fetch_add(1, Ordering::SeqCst);
                    }
                    if leases.is_empty() {
                        return;
                    }
                    // Count before owning, so that the owner of the dependent sees all of them
                    // counted.
                    let before = returned.fetch_add(leases.len(), Ordering::SeqCst);
                    if leases.iter().any(|lease| lease.id == dependent) {
                        assert_eq!((before, leases.len()), (TASKS, 1), "alone, and after all");
                    }
                    return_all(&mut s, &leases);
                }
            });
        }
    });
    // The countdowns of the last batches may be deferred.
    let more = eventually(seconds(10), "the dependent is ready", || {
        let owned = early.load(Ordering::SeqCst);
        let leases = if owned == 0 { s.own("w", "q", 9) } else { Vec::new() };
        (owned + leases.len() > 0).then_some(leases)
    });
    return_all(&mut s, &more);
    assert_eq!(early.load(Ordering::SeqCst) + more.len(), 1);
    assert!(s.own("w", "q", 9).is_empty());
    assert_eq!(s.status(dependent), "completed");
    assert_empty(&mut s);
}

/// When task n depends on its proper divisors and 8 connections own batches of 17, no task is owned
/// before its divisors.
#[test]
fn no_number_comes_before_its_divisors() {
    let database = database();
    let mut s = database.connect();
    for _ in 0..10 {
        let ids = new_ids(64);
        let divisors = |n: usize| (1..n).filter(move |d| n.is_multiple_of(*d));
        let mut graph: Vec<(Uuid, Vec<Uuid>)> =
            (1..64).map(|n| (ids[n], divisors(n).map(|d| ids[d]).collect())).collect();
        graph.reverse();
        submit_graph(&mut s, "q", &graph);
        let done: Mutex<HashSet<usize>> = Mutex::default();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                let (mut s, ids, done) = (database.connect(), &ids, &done);
                scope.spawn(move || {
                    while done.lock().unwrap().len() < 63 {
                        let leases = s.own("w", "q", 17);
                        for lease in &leases {
                            let n = ids.iter().position(|id| *id == lease.id).unwrap();
                            let mut done = done.lock().unwrap();
                            assert!(divisors(n).all(|d| done.contains(&d)), "{n} came early");
                            assert!(done.insert(n), "{n} came twice");
                        }
                        if !leases.is_empty() {
                            return_all(&mut s, &leases);
                        }
                    }
                });
            }
        });
        assert_empty(&mut s);
    }
}

/// I9: an abort goes down a chain of 10,000 and through a tree of 100,000 in one call, and the call
/// can be interrupted.
#[test]
fn abort_goes_deep_and_wide_and_can_be_interrupted() {
    let database = database();
    let mut s = database.connect();
    let chain = new_ids(10_000);
    let after = |n: usize| if n == 0 { Vec::new() } else { vec![chain[n - 1]] };
    let graph: Vec<_> = (0..chain.len()).map(|n| (chain[n], after(n))).collect();
    submit_graph(&mut s, "chain", &graph);
    let tree = new_ids(100_000);
    let parent = |n: usize| if n == 0 { Vec::new() } else { vec![tree[(n - 1) / 10]] };
    let graph: Vec<_> = (0..tree.len()).map(|n| (tree[n], parent(n))).collect();
    submit_graph(&mut s, "tree", &graph);
    for root in [chain[0], tree[0]] {
        s.run("set statement_timeout = '50 ms'");
        let complaint = s.refusal("select scylla.cancel($1)", &[&root]);
        assert_eq!(complaint.code().code(), "57014");
        s.run("reset statement_timeout");
        assert_eq!(s.count("select count(*) from scylla.task"), 110_000, "nothing is half done");
    }
    s.end(chain[0], "aborted");
    s.end(tree[0], "aborted");
    assert_eq!(s.tasks("aborted"), 110_000);
    assert_empty(&mut s);
}

/// A task can have 100,000 predecessors, and another 100,000 dependents.
#[test]
fn hundred_thousand_wait_and_are_waited_for() {
    let database = database();
    let mut s = database.connect();
    let many = new_ids(100_000);
    let graph: Vec<_> = many.iter().map(|id| (*id, Vec::new())).collect();
    submit_graph(&mut s, "q", &graph);
    let last = s.submit_after("last", &many, "action => ''");
    let added = s.submit("last");
    let links: Vec<(Uuid, Uuid)> = many[..50_000].iter().map(|id| (*id, added)).collect();
    assert_eq!(s.link_all(&links).unwrap(), 50_000);
    assert!(s.own("w", "last", 9).is_empty());
    loop {
        let leases = s.own("w", "q", 50_000);
        if leases.is_empty() {
            break;
        }
        return_all(&mut s, &leases);
    }
    let leases = s.own("w", "last", 9);
    assert_eq!(leases.len(), 2);
    assert!(leases.iter().any(|lease| lease.id == last));
    return_all(&mut s, &leases);
    let first = s.submit("first");
    let graph: Vec<_> = new_ids(100_000).iter().map(|id| (*id, vec![first])).collect();
    submit_graph(&mut s, "q", &graph);
    assert!(s.own("w", "q", 9).is_empty());
    s.end(first, "completed");
    let leases = s.own("w", "q", 100_001);
    assert_eq!(leases.len(), 100_000);
    return_all(&mut s, &leases);
    assert_empty(&mut s);
}
