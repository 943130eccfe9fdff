//! Results that PostgreSQL stores outside of their rows (TOAST).

use client::*;
use std::thread;

const WAIT: &str = "call scylla.wait_for_task($1, $2::text::interval)";

/// A jsonb string of this many bytes that do not compress.
fn result(s: &mut Session, bytes: i32) -> Value {
    let random = "select to_jsonb(string_agg(md5(random()::text), '')) from generate_series(1, $1)";
    s.value(random, &[&(bytes / 32)])
}

/// Submits a task with `post_result`, and owns it.
fn owned(s: &mut Session) -> Lease {
    let id = s.submit_with("q", "post_result => true");
    s.try_own_task(id).expect("the task is ready")
}

fn complete_with(s: &mut Session, lease: &Lease, result: &Value) {
    let call = "select scylla.return_task($1, $2, result => $3)";
    assert_eq!(s.value::<String>(call, &[&lease.id, &lease.token, result]), "completed");
}

fn ending(s: &mut Session, id: Uuid) -> (String, Value) {
    let row = s.query_one(WAIT, &[&id, &"20 s"]).expect("wait_for_task");
    (row.get(0), row.get(1))
}

/// B75: each call of a session returns the large result, not only the first.
#[test]
fn a_large_result_is_returned_to_each_call() {
    let database = database();
    let (mut s, mut waiter) = (database.connect(), database.connect());
    for bytes in [1_000, 3_000, 20_000, 500_000] {
        let given = result(&mut s, bytes);
        let lease = owned(&mut s);
        complete_with(&mut s, &lease, &given);
        for call in 0..3 {
            let ended = ending(&mut waiter, lease.id);
            assert_eq!(
                ended,
                ("completed".to_owned(), given.clone()),
                "{bytes} bytes, call {call}"
            );
        }
    }
}

/// B76: a session that waited before the end gets the large result at every isolation level.
#[test]
fn a_large_result_is_returned_to_sessions_that_wait_already() {
    let database = database();
    let mut s = database.connect();
    for level in ["read committed", "repeatable read"] {
        let mut waiter = database.connect();
        waiter.run(&format!("set default_transaction_isolation = '{level}'"));
        for _ in 0..2 {
            let given = result(&mut s, 20_000);
            let lease = owned(&mut s);
            let id = lease.id;
            let pid = waiter.pid;
            let waiting = thread::spawn(move || (ending(&mut waiter, id), waiter));
            let waits = "select count(*) from pg_stat_activity
                where pid = $1 and state = 'active' and wait_event_type = 'Extension'";
            eventually(seconds(10), "the session waits", || {
                (s.value::<i64>(waits, &[&pid]) == 1).then_some(())
            });
            complete_with(&mut s, &lease, &given);
            let (ended, session) = waiting.join().expect("the wait ends without an error");
            assert_eq!(ended, ("completed".to_owned(), given), "{level}");
            waiter = session;
        }
    }
}
