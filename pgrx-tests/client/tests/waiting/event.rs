//! Waiting for what a worker has to do.

use crate::*;

const FOR_EVENT: &str = "call scylla.wait_for_event($1, $2, '30 s', null, null, null)";

/// Waits as a worker in a session of its own; returns once it waits.
fn waits(database: &Database, worker: &'static str) -> JoinHandle<Option<String>> {
    let queues = ["a", "b"];
    waiting(database, move |s| s.value(FOR_EVENT, &[&worker, &queues.as_slice()])).1
}

/// A cancel, a delete, a release and an expiry each wake the worker whose lease ends, and no other.
#[test]
fn the_end_of_a_lease_wakes_its_worker() {
    let database = slow();
    let mut s = database.connect();
    let other = waits(&database, "other");
    for end in ["cancel", "delete", "release", "expiry"] {
        let id = s.submit("q");
        let waits = waits(&database, "w");
        let timeout = if end == "expiry" { "200 ms" } else { "1 h" };
        s.own_with("w", "q", 1, &format!("timeout => '{timeout}'"));
        match end {
            "cancel" => assert!(s.cancel(id)),
            "delete" => {
                s.value::<i32>("select scylla.delete_tasks(array[$1::uuid])", &[&id]);
            }
            "release" => {
                s.value::<i32>("select scylla.release_worker('w')", &[]);
            }
            _ => {}
        }
        let heard = promptly(|| waits.join().unwrap());
        assert_eq!(heard.as_deref(), Some("signal"), "{end}");
        s.value::<i32>("select scylla.delete_tasks(array[$1::uuid])", &[&id]);
    }
    assert!(!other.is_finished(), "its leases are its own");
    s.submit("b");
    assert_eq!(promptly(|| other.join().unwrap()).as_deref(), Some("work"));
}

/// A worker that has only owned so far hears of a cancel from before its first wait, once.
#[test]
fn a_signal_waits_for_the_first_wait() {
    let database = slow();
    let mut s = database.connect();
    let id = s.submit("q");
    s.own_with("w", "q", 1, "timeout => '1 h'");
    assert!(s.cancel(id));
    let call = "call scylla.wait_for_event('w', '{a,q}', '200 ms', '{}')";
    let hear = |s: &mut Session| s.query_one(call, &[]).unwrap().get::<_, Option<String>>(0);
    assert_eq!(hear(&mut s).as_deref(), Some("signal"));
    assert_eq!(hear(&mut s), None);
}

/// What is rolled back ends no lease, and asks no worker to stop.
#[test]
fn a_rollback_wakes_no_worker() {
    let database = slow();
    let mut s = database.connect();
    let id = s.submit("q");
    s.own_with("w", "q", 1, "timeout => '1 h'");
    let waits = waits(&database, "w");
    s.run("begin");
    assert!(s.cancel(id));
    assert!(s.value::<bool>("select scylla.drain_worker('w')", &[]));
    s.run("rollback");
    thread::sleep(milliseconds(200));
    assert!(!waits.is_finished());
    assert!(s.value::<bool>("select scylla.drain_worker('w')", &[]));
    assert_eq!(promptly(|| waits.join().unwrap()).as_deref(), Some("drain"));
}
