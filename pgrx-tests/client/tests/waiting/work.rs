//! Waiting for work in a queue.

use crate::*;

/// B78, I2: a rollback, of the transaction or of a savepoint, wakes no waiter.
#[test]
fn a_rollback_wakes_no_waiter() {
    let database = slow();
    let mut s = database.connect();
    let id = s.submit_with("ends", "post_result => true");
    let lease = s.own_one("ends");
    let (_, worker) = waiting(&database, |s| for_work(s, "q", "1 s"));
    let (_, client) = waiting(&database, move |s| for_task(s, id, "1 s"));
    let settle = format!("select scylla.return_task('{id}', '{}')", lease.token);
    s.run(&format!("begin; {settle}; select scylla.submit('q'); rollback"));
    s.run(&format!(
        "begin; savepoint a; {settle}; select scylla.submit('q'); rollback to a; commit"
    ));
    assert!(!worker.join().unwrap());
    assert_eq!(client.join().unwrap(), (None, None));
    assert_eq!(for_task(&mut s, id, "0"), (None, None), "a timeout of zero does not wait");
    let (_, worker) = waiting(&database, |s| for_work(s, "q", "20 s"));
    s.run(&format!("begin; {settle}; select scylla.submit('q'); commit"));
    assert!(worker.join().unwrap());
    assert_eq!(for_task(&mut s, id, "0").0.as_deref(), Some("completed"));
}

/// B78: a wait misses no task that is submitted or settled at any moment around the wait's
/// beginning.
#[test]
fn nothing_is_lost_between_looking_and_waiting() {
    let database = slow();
    const ROUNDS: u32 = 3_000;
    let (ready, go) = channel::<()>();
    let (tell, told) = channel::<Uuid>();
    let mut worker = database.connect();
    let (mut client, mut submitter) = (database.connect(), database.connect());
    let work = thread::spawn(move || {
        for n in 0..ROUNDS {
            ready.send(()).unwrap();
            let found = promptly(|| for_work(&mut worker, "q", "20 s"));
            assert!(found, "round {n}: the wait did not end");
            let lease = worker.own_one("q");
            worker.complete(&lease);
        }
    });
    let wait = thread::spawn(move || {
        for id in told {
            let ended = promptly(|| for_task(&mut client, id, "20 s").0);
            assert_eq!(ended.as_deref(), Some("completed"));
        }
    });
    for n in 0..ROUNDS {
        go.recv().expect("the worker goes on");
        sleep(Duration::from_micros(u64::from(n * 7 % 400)));
        let id = submitter.submit_with("q", "post_result => true");
        if n % 3 == 0 {
            tell.send(id).unwrap();
        }
    }
    drop(tell);
    work.join().unwrap();
    wait.join().unwrap();
}

/// Each way to make a task ready wakes a process that waits for work.
#[test]
fn each_way_to_make_a_task_ready_wakes_a_waiter() {
    let database = slow();
    let mut s = database.connect();
    let wait = || waiting(&database, |s| promptly(|| for_work(s, "q", "20 s"))).1;
    s.submit("q");
    let lease = s.own_one("q");
    let waiter = wait();
    s.return_task(&lease, "retry").unwrap();
    assert!(waiter.join().unwrap(), "a retry");

    s.run("begin");
    s.own_one("q");
    let waiter = wait();
    s.run("rollback");
    assert!(waiter.join().unwrap(), "a rollback of owning");

    s.own_one_with("q", "timeout => '3 s'");
    assert!(wait().join().unwrap(), "an expiry");

    s.own_one("q");
    let waiter = wait();
    s.run("insert into scylla.task (id, queue, action, priority, ready, post_result, created, updated, spec)
           values (gen_random_uuid(), 'q', 'by hand', 0, true, false, now(), now(), '{}')");
    s.run("select scylla.refresh()");
    assert!(waiter.join().unwrap(), "a change by hand");
    s.own_one("q");

    let root = s.submit("root");
    s.value::<Uuid>("select scylla.submit('q', after => array[$1::uuid])", &[&root]);
    let waiter = wait();
    let lease = s.own_one("root");
    s.complete(&lease);
    assert!(waiter.join().unwrap(), "the end of what it waits for");
}

#[test]
fn fifty_waiters_and_fifty_tasks_all_wake() {
    let database = slow();
    let answers = report(&database, 50, "q");
    let mut s = database.connect();
    s.submit_many("q", 20);
    for _ in 0..30 {
        s.submit("q");
    }
    for n in 0..50 {
        let (answer, _) = answers.recv_timeout(seconds(5)).unwrap_or_else(|_| panic!("{n} woke"));
        assert!(answer);
    }
}

#[test]
fn one_task_wakes_one_of_ten_and_the_others_wait_on() {
    let database = slow();
    let answers = report(&database, 10, "q");
    let mut s = database.connect();
    for _ in 0..3 {
        s.submit("q");
        assert!(answers.recv_timeout(seconds(5)).expect("one wakes").0);
        assert!(answers.recv_timeout(milliseconds(300)).is_err(), "one task, one waiter");
        assert_eq!(s.own("w", "q", 10).len(), 1);
    }
    s.submit_many("q", 7);
    for _ in 0..7 {
        assert!(answers.recv_timeout(seconds(5)).expect("the others wake").0);
    }
}

/// A waiter that was woken for a task which another worker took continues to wait.
#[test]
fn a_waiter_that_comes_too_late_waits_on() {
    let database = slow();
    let answers = report(&database, 1, "q");
    let mut s = database.connect();
    for _ in 0..200 {
        s.run("begin; select scylla.submit('q'); commit; select from scylla.own_tasks('w', 'q')");
        if answers.try_recv().is_ok() {
            // the waiter was faster this time
            return;
        }
    }
    assert!(answers.recv_timeout(milliseconds(300)).is_err());
    s.submit("q");
    assert!(answers.recv_timeout(seconds(5)).expect("it waits still").0);
}

#[test]
fn while_a_queue_has_something_another_is_woken_each_interval() {
    let server = Server::start(&["scylla.notify_interval = '300 ms'"]);
    let database = open(&server);
    let answers = report(&database, 4, "q");
    let mut s = database.connect();
    let submitted = Instant::now();
    s.submit("q");
    let times: Vec<u128> = (0..4)
        .map(|_| answers.recv_timeout(seconds(5)).expect("one after the other").1)
        .map(|at| at.duration_since(submitted).as_millis())
        .collect();
    for (n, time) in (0..).zip(&times) {
        assert!((n * 300..n * 300 + 4_000).contains(time), "{times:?}");
    }
}

/// A waiter that was woken and then cancelled passes its wake-up on, so that another worker owns
/// the task at once.
#[test]
fn a_waiter_that_fails_passes_its_wake_up_on() {
    let database = slow();
    let mut s = database.connect();
    for round in 0..60 {
        let (doomed, loser) =
            waiting(&database, |s| s.try_value::<bool>(FOR_WORK, &[&"q", &"20 s"]));
        let (_, other) = waiting(&database, |s| for_work(s, "q", "20 s"));
        let mut killer = database.connect();
        let cancel = thread::spawn(move || {
            killer.value::<bool>("select pg_cancel_backend($1)", &[&doomed]);
        });
        sleep(Duration::from_micros(round * 23 % 500));
        s.submit("q");
        cancel.join().unwrap();
        let lost = loser.join().unwrap().is_err();
        if !lost {
            // the waiter was woken before the cancel
            s.submit("q");
        }
        assert!(promptly(|| other.join().unwrap()), "round {round}, {lost}");
        s.own("w", "q", 10).iter().for_each(|lease| s.complete(lease));
    }
}
