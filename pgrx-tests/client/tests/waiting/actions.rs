//! Waiting for tasks of given actions.

use crate::*;

/// How often a backend has slept.
fn sleeps(pid: i32) -> i64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a backend");
    let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches"));
    line.and_then(|line| line.split_whitespace().nth(1)).expect("a count").parse().unwrap()
}

fn act(s: &mut Session, action: &str) {
    s.submit_with("q", &format!("action => '{action}'"));
}

/// While only tasks of other actions are ready or submitted, a worker that waits gets no answer and
/// is not woken.
#[test]
fn while_only_other_actions_are_ready_nothing_happens() {
    let server = Server::start(&[]);
    let database = open(&server);
    let mut s = database.connect();
    (0..50).for_each(|_| act(&mut s, "scan"));
    let mut worker = database.connect();
    let started = Instant::now();
    let mut calls = 0;
    while started.elapsed() < seconds(1) {
        assert!(!for_actions(&mut worker, "q", &["print", "fax"], "200 ms"));
        calls += 1;
    }
    assert!(calls <= 6, "{calls} calls in a second");

    let (pid, waiter) = waiting(&database, |s| for_actions(s, "q", &["print", "fax"], "20 s"));
    sleep(milliseconds(100));
    let (before, begun) = (sleeps(pid), Instant::now());
    for _ in 0..200 {
        act(&mut s, "scan");
    }
    let lease = s.own_one_with("q", "actions => '{scan}'");
    s.return_task(&lease, "retry").unwrap();
    // Rounds of notifications continue for a while.
    sleep(milliseconds(300));
    let most = 2 + begun.elapsed().as_secs() as i64 / 5;
    assert!(sleeps(pid) - before <= most, "woken {} times", sleeps(pid) - before);
    act(&mut s, "fax");
    assert!(promptly(|| waiter.join().unwrap()));
}

/// Each waiter is woken for its own actions, in any order of the waiters.
#[test]
fn each_action_wakes_a_process_that_would_own_it() {
    let database = slow();
    let names = ["print", "scan", "fax", "mail"];
    let waiters = names.map(|name| {
        waiting(&database, move |s| {
            assert!(promptly(|| for_actions(s, "q", &[name, "other"], "20 s")));
            s.own_one_with("q", &format!("actions => '{{{name},other}}'")).action
        })
        .1
    });
    let mut s = database.connect();
    for name in names.into_iter().rev() {
        act(&mut s, name);
    }
    assert_eq!(waiters.map(|waiter| waiter.join().unwrap()), names);
}

/// The board cannot distinguish these two actions, so it wakes a process for the wrong one. That
/// process wakes the next.
#[test]
fn a_process_woken_for_another_action_wakes_the_next() {
    let database = slow();
    const LOOK_ALIKE: &str = "print 56";
    let mut s = database.connect();
    let (wrong, waits_on) = waiting(&database, |s| for_actions(s, "q", &[LOOK_ALIKE], "20 s"));
    let (_, waiter) = waiting(&database, |s| promptly(|| for_actions(s, "q", &["print"], "20 s")));
    let before = sleeps(wrong);
    act(&mut s, "print");
    assert!(waiter.join().unwrap());
    // It wakes the next before it sleeps again.
    eventually(seconds(1), "it was woken", || (sleeps(wrong) > before).then_some(()));
    sleep(milliseconds(100));
    assert!(!waits_on.is_finished());
    act(&mut s, LOOK_ALIKE);
    assert!(promptly(|| waits_on.join().unwrap()));
}

/// I8: a waiter is woken behind more waiters than one lock of the board inspects.
#[test]
fn a_process_behind_a_hundred_others_is_woken() {
    let database = slow();
    let others: Vec<_> = (0..100)
        .map(|_| waiting(&database, |s| for_actions(s, "q", &["print"], "30 s")).1)
        .collect();
    let (_, waiter) = waiting(&database, |s| promptly(|| for_actions(s, "q", &["scan"], "20 s")));
    let mut s = database.connect();
    act(&mut s, "scan");
    assert!(waiter.join().unwrap());
    assert!(others.iter().all(|other| !other.is_finished()));
    for _ in &others {
        act(&mut s, "print");
    }
    assert!(others.into_iter().all(|other| other.join().unwrap()));
}

/// With an empty list of actions, waiting returns false.
#[test]
fn without_actions_no_task_is_found() {
    let database = slow();
    let mut s = database.connect();
    s.submit("q");
    assert!(!for_actions(&mut s, "q", &[], "100 ms"));
    assert!(for_actions(&mut s, "q", &["", "print"], "0"), "the empty action is one, too");
    assert!(!for_actions(&mut s, "q", &["print"], "0"));
}
