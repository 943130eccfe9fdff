//! The locks and resources that a wait holds, and the events that end it.

use crate::*;

/// At every isolation level, a wait holds no snapshot, no transaction id and no table lock, and
/// uses no processor time.
#[test]
fn waiting_holds_nothing_and_costs_nothing() {
    let database = slow();
    let mut s = database.connect();
    let id = s.submit_with("other", "post_result => true");
    let (work, a) = waiting(&database, |s| {
        s.run("set default_transaction_isolation = 'repeatable read'");
        for_work(s, "q", "20 s")
    });
    let (task, b) = waiting(&database, move |s| {
        s.run("set default_transaction_isolation = 'serializable'");
        for_task(s, id, "20 s")
    });
    for pid in [work, task] {
        let looks = [
            "select count(*) from pg_stat_activity where pid = $1 and backend_xid is null and backend_xmin is null",
            "select 1 - count(*) from pg_locks where pid = $1 and locktype not in ('virtualxid')",
        ];
        for look in looks {
            assert_eq!(s.value::<i64>(look, &[&pid]), 1, "{look}");
        }
        let before = processor_time(pid);
        sleep(milliseconds(700));
        assert!(processor_time(pid) - before <= 1, "ticks of 10 ms");
    }
    s.submit("q");
    s.cancel(id);
    assert!(a.join().unwrap());
    assert_eq!(b.join().unwrap().0.as_deref(), Some("cancelled"));
}

/// I9: a cancel, a statement_timeout, pg_terminate_backend and the client's disconnect each end the
/// wait at once.
#[test]
fn whatever_ends_a_session_ends_its_wait() {
    let database = slow();
    let mut s = database.connect();
    let task = s.submit_with("t", "post_result => true");
    for wait in
        ["scylla.wait_for_work('q', '1 h')", &format!("scylla.wait_for_task('{task}', '1 h')")]
    {
        let call = format!("call {wait}");
        let stopped = |prepare: &'static str| {
            let call = call.clone();
            waiting(&database, move |s| {
                s.run(prepare);
                s.try_value::<Option<bool>>(&call, &[]).expect_err("ended")
            })
        };
        let soon = |s: &mut Session, pid: i32| {
            promptly(|| {
                eventually(seconds(1), "the backend has ended", || {
                    let look = "select count(*) from pg_stat_activity where pid = $1";
                    (s.value::<i64>(look, &[&pid]) == 0).then_some(())
                })
            });
        };
        let (pid, waiter) = stopped("");
        s.value::<bool>("select pg_cancel_backend($1)", &[&pid]);
        assert_eq!(code(&promptly(|| waiter.join().unwrap())), "57014");
        let (_, waiter) = stopped("set statement_timeout = '300 ms'");
        assert_eq!(code(&promptly(|| waiter.join().unwrap())), "57014");
        let (pid, waiter) = stopped("");
        s.value::<bool>("select pg_terminate_backend($1)", &[&pid]);
        assert!(is_lost(&promptly(|| waiter.join().unwrap())));
        soon(&mut s, pid);

        let mut client = psql(&database, &[&call]);
        let pid = psql_waits(&mut s);
        client.kill().unwrap();
        client.wait().unwrap();
        soon(&mut s, pid);
    }
}

/// I9: a fast shutdown ends every wait.
#[test]
fn a_fast_shutdown_ends_every_wait() {
    let server = Server::start(&[]);
    let database = server.database();
    let waiters: Vec<_> = (0..5)
        .map(|_| waiting(&database, |s| s.try_value::<bool>(FOR_WORK, &[&"q", &"1 h"]).is_err()).1)
        .collect();
    promptly(|| server.stop("fast"));
    assert!(waiters.into_iter().all(|waiter| waiter.join().unwrap()));
}

/// I9: the extension is dropped while processes wait, and their waits end with an error.
#[test]
fn dropping_the_extension_ends_every_wait() {
    let database = slow();
    let mut s = database.connect();
    let id = s.submit_with("t", "post_result => true");
    let refused = |s: &mut Session, sql: &str| {
        let answer = s.try_value::<Option<bool>>(sql, &[]);
        failure(answer, sql).code().code().to_owned()
    };
    let (_, work) =
        waiting(&database, move |s| refused(s, "call scylla.wait_for_work('q', '1 h')"));
    let (_, task) = waiting(&database, move |s| {
        refused(s, &format!("call scylla.wait_for_task('{id}', '1 h')"))
    });
    let started = Instant::now();
    // They look again, and find the tables locked. Else they wait for an hour.
    s.run("begin; drop extension scylla cascade");
    sleep(seconds(6));
    s.run("commit");
    assert_eq!(work.join().unwrap(), "55000");
    assert_eq!(task.join().unwrap(), "55000");
    assert!(started.elapsed() < patience(seconds(14)), "{:?}", started.elapsed());
}
