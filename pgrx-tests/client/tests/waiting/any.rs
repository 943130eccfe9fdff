//! Waiting for work in several queues.

use crate::*;
use std::collections::HashMap;

/// `wait_for_any` in one terminal returns when `submit` runs in another.
#[test]
fn psql_waits_for_several_queues() {
    let database = slow();
    let wait = "call scylla.wait_for_any('{mail,report}')";
    let waiter = psql(&database, &[wait, "select 'woken'"]);
    let mut s = database.connect();
    psql_waits(&mut s);
    s.submit("report");
    let output = promptly(|| waiter.wait_with_output().unwrap());
    assert_eq!(String::from_utf8_lossy(&output.stdout), "report\nwoken\n");
}

#[test]
fn the_first_queue_that_has_work_is_named() {
    let database = slow();
    let mut s = database.connect();
    assert_eq!(for_any(&mut s, &["a", "b"], "50 ms"), None);
    s.submit("b");
    s.submit_with("c", "priority => 9");
    assert_eq!(for_any(&mut s, &["a", "b", "c"], "0").as_deref(), Some("b"));
    assert_eq!(for_any(&mut s, &["c", "b"], "0").as_deref(), Some("c"));
    assert_eq!(for_any(&mut s, &["a", "a"], "0"), None);
    let scan: Option<String> =
        s.value(FOR_ANY, &[&["b", "c"].as_slice(), &"0", &Some(vec!["scan"])]);
    assert_eq!(scan, None);
    let sixteen: Vec<String> =
        (0..15).map(|n| format!("queue {n}")).chain(["b".to_owned()]).collect();
    let last: Option<String> = s.value(FOR_ANY, &[&sixteen, &"0", &None::<Vec<String>>]);
    assert_eq!(last.as_deref(), Some("b"));
}

/// A process that was woken for one queue waits in no queue any more: a task in its other queue
/// wakes another process.
#[test]
fn a_process_woken_in_one_queue_keeps_no_other_from_being_woken() {
    let database = slow();
    for _ in 0..20 {
        let (_, both) = waiting(&database, |s| promptly(|| for_any(s, &["a", "b"], "20 s")));
        let (_, one) = waiting(&database, |s| promptly(|| for_any(s, &["b"], "20 s")));
        let mut s = database.connect();
        s.run("select scylla.submit('a'), scylla.submit('b')");
        assert_eq!(one.join().unwrap().as_deref(), Some("b"));
        assert_eq!(both.join().unwrap().as_deref(), Some("a"));
        assert_eq!(s.own("w", "a", 9).len() + s.own("w", "b", 9).len(), 2);
    }
}

/// A process that was woken for one queue and finds a task in another wakes the next process.
#[test]
fn an_unused_wake_up_is_passed_on() {
    let database = slow();
    for _ in 0..20 {
        let (_, both) = waiting(&database, |s| promptly(|| for_any(s, &["a", "b"], "20 s")));
        let (_, one) = waiting(&database, |s| promptly(|| for_any(s, &["b"], "20 s")));
        let mut s = database.connect();
        s.run("select scylla.submit('b'), scylla.submit('a')");
        assert_eq!(both.join().unwrap().as_deref(), Some("a"));
        assert_eq!(one.join().unwrap().as_deref(), Some("b"));
        assert_eq!(s.own("w", "a", 9).len() + s.own("w", "b", 9).len(), 2);
    }
}

/// No task is left while a worker waits for it: workers with their own queues and actions, and
/// tasks that arrive at any moment around the beginning of their waits.
#[test]
fn no_task_is_left_beside_a_worker_that_waits_for_it() {
    let database = slow();
    const ROUNDS: u32 = 600;
    let wishes: [(&[&str], &[&str]); 6] = [
        (&["a", "b", "c"], &["print"]),
        (&["c", "a"], &["scan", "print 56"]),
        (&["b"], &["print 56"]),
        (&["b", "c"], &["scan"]),
        (&["a"], &["print 56", "print"]),
        (&["c", "b", "a"], &["fax"]),
    ];
    let (owned, owns) = channel::<Uuid>();
    let workers: Vec<_> = wishes
        .into_iter()
        .map(|(queues, actions)| {
            let (mut s, owned) = (database.connect(), owned.clone());
            thread::spawn(move || {
                loop {
                    let queue: Option<String> = s.value(FOR_ANY, &[&queues, &"5 s", &actions]);
                    let Some(queue) = queue else { return };
                    let sql = "select id, token from scylla.own_tasks('w', $1, 1, $2)";
                    for row in s.query(sql, &[&queue, &actions]).unwrap() {
                        let (id, token): (Uuid, Uuid) = (row.get(0), row.get(1));
                        s.value::<String>("select scylla.return_task($1, $2)", &[&id, &token]);
                        owned.send(id).unwrap();
                    }
                }
            })
        })
        .collect();
    let mut s = database.connect();
    let mut submitted = HashMap::new();
    for n in 0..ROUNDS {
        let (queues, actions) = wishes[n as usize % wishes.len()];
        let queue = queues[n as usize / 7 % queues.len()];
        let action = actions[n as usize / 5 % actions.len()];
        let id = s.submit_with(queue, &format!("action => '{action}'"));
        submitted.insert(id, (queue, action));
        sleep(Duration::from_micros(u64::from(n * 37 % 900)));
        if n % 4 == 3 {
            while !submitted.is_empty() {
                let id = owns.recv_timeout(BACKSTOP);
                let id = id.unwrap_or_else(|_| panic!("round {n}: {submitted:?} is left"));
                submitted.remove(&id);
            }
        }
    }
    drop(owned);
    workers.into_iter().for_each(|worker| worker.join().unwrap());
}
