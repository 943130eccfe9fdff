//! A session that dies in the middle of an operation leaves the state as after a rollback.

use client::*;

/// Terminates the session and waits until its backend has exited.
fn terminate(mut victim: Session, s: &mut Session) {
    s.value::<bool>("select pg_terminate_backend($1)", &[&victim.pid]);
    eventually(seconds(10), "the backend is gone", || {
        (s.value::<i64>("select count(*) from pg_stat_activity where pid = $1", &[&victim.pid])
            == 0)
            .then_some(())
    });
    assert!(victim.is_dead());
}

/// I2: a death after `submit` leaves no task.
#[test]
fn death_after_submit_leaves_no_task() {
    let database = database();
    let (mut s, mut victim) = (database.connect(), database.connect());
    victim.run("begin");
    victim.submit("q");
    victim.run("savepoint s");
    victim.submit_many("q", 50);
    terminate(victim, &mut s);
    assert!(s.own("w", "q", 100).is_empty());
    assert_eq!(s.count("select count(*) from scylla.tasks"), 0);
}

/// I2: a death after an own makes the tasks ready again at once.
#[test]
fn death_after_own_puts_the_tasks_back_at_once() {
    let database = database();
    let (mut s, mut victim) = (database.connect(), database.connect());
    s.submit_many("q", 20);
    victim.run("begin");
    let mut lost = victim.own("w", "q", 5);
    victim.run("savepoint s");
    lost.extend(victim.own("w", "q", 5));
    let by_id = s.submit("r");
    lost.push(victim.try_own_task(by_id).expect("a ready task"));
    terminate(victim, &mut s);
    assert!(lost.iter().all(|lease| !s.extend(lease)));
    let leases = [s.own("w", "q", 100), s.own("w", "r", 100)].concat();
    assert_eq!(leases.len(), 21);
    assert!(leases.iter().all(|lease| lease.tries == 1));
}

/// `extend` is not transactional: the lease stays extended after a death.
#[test]
fn death_after_extend_leaves_the_lease() {
    let database = database();
    let (mut s, mut victim) = (database.connect(), database.connect());
    let id = s.submit("q");
    let lease = s.own_one("q");
    victim.run("begin");
    assert!(victim.extend_with(&lease, "timeout => '60 s', progress => 0.5"));
    terminate(victim, &mut s);
    assert_eq!(s.status(id), "running");
    assert!(s.extend(&lease) && s.own("w", "q", 5).is_empty());
    s.complete(&lease);
}

/// I2: a death after a return leaves the lease as it was, with every outcome, singly and in bulk.
#[test]
fn death_after_return_leaves_the_lease() {
    let database = database();
    let mut s = database.connect();
    for outcome in ["completed", "aborted", "retry", "yield"] {
        for bulk in [false, true] {
            let mut victim = database.connect();
            let id = s.submit("q");
            let lease = s.own_one("q");
            let before = s.entry(id);
            victim.run("begin");
            if bulk {
                let errors = (outcome == "aborted").then(|| vec![an_error()]);
                let sql = "select scylla.return_tasks($1, $2, $3, errors => $4)";
                victim.value::<Vec<Option<String>>>(
                    sql,
                    &[&vec![id], &vec![lease.token], &outcome, &errors],
                );
            } else {
                victim.return_task(&lease, outcome).unwrap();
            }
            terminate(victim, &mut s);
            assert_eq!(s.entry(id), before, "{outcome}");
            assert!(s.own("w", "q", 5).is_empty(), "{outcome}: not offered");
            assert!(s.extend(&lease), "{outcome}");
            s.complete(&lease);
        }
    }
}

/// I2: a death after a cancel leaves the task as it was.
#[test]
fn death_after_cancel_leaves_the_task() {
    let database = database();
    let (mut s, mut victim) = (database.connect(), database.connect());
    let running = s.submit("q");
    let lease = s.own_one("q");
    let ready = s.submit("q");
    victim.run("begin");
    assert!(victim.cancel(running));
    victim.value::<Vec<Option<bool>>>("select scylla.cancel_tasks($1)", &[&vec![ready]]);
    terminate(victim, &mut s);
    assert_eq!((s.status(running).as_str(), s.status(ready).as_str()), ("running", "ready"));
    assert!(s.extend(&lease));
    assert_eq!(s.own_one("q").id, ready);
}

/// I2: a statement that is terminated at any point has all of its effects or none, and blocks no
/// other session.
#[test]
fn death_inside_a_statement_is_all_or_nothing() {
    const N: i32 = 3000;
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    let moves = [
        format!("select count(*) from scylla.submit_tasks((select jsonb_agg(jsonb_build_object('queue', 'r')) from generate_series(1, {N})))"),
        format!("select count(*) from scylla.own_tasks('w', 'q', {N})"),
        format!("with l as (select * from scylla.own_tasks('w', 'q', {N})) select scylla.return_tasks(array_agg(id), array_agg(token), 'retry') from l"),
        "select scylla.cancel_tasks(array(select id from scylla.tasks where queue = 'q' and status::text = 'ready'))".to_owned(),
    ];
    let mut struck = 0;
    for round in 0..40_u64 {
        let call = &moves[round as usize % moves.len()];
        s.submit_many("q", N);
        let mut victim = database.connect();
        let pid = victim.pid;
        let done = std::thread::scope(|scope| {
            let victim = scope.spawn(move || victim.batch_execute(call).is_ok());
            sleep(milliseconds(1 + (round / 4) * 4));
            // every other time a cancelled query instead of a terminated session
            let strike = if round % 8 < 4 {
                "select pg_terminate_backend($1)"
            } else {
                "select pg_cancel_backend($1)"
            };
            s.value::<bool>(strike, &[&pid]);
            victim.join().unwrap()
        });
        struck += i32::from(!done);
        // a cancelled session has ended with its thread; a terminated one may still be rolling back
        let gone = "select count(*) from pg_stat_activity where pid = $1";
        eventually(seconds(10), "the backend is gone", || {
            (s.value::<i64>(gone, &[&pid]) == 0).then_some(())
        });
        let n = |s: &mut Session, what: &str| {
            s.count(&format!("select count(*) from scylla.tasks where {what}")) as i32
        };
        let submitted = n(&mut s, "queue = 'r'");
        let running = n(&mut s, "status::text = 'running'");
        let cancelled = n(&mut s, "status::text = 'cancelled' and queue = 'q'");
        assert!(
            submitted % N == 0 && running % N == 0 && cancelled % N == 0,
            "{call}: {submitted} {running} {cancelled}"
        );
        let ready = n(&mut s, "queue = 'q' and status::text = 'ready'");
        let got = s.own("w", "q", 10 * N).len() as i32;
        assert_eq!(got, ready, "{call}: what is ready can be owned, at once");
        s.run("select scylla.cancel_tasks(array(select id from scylla.tasks where status::text in ('ready', 'running')))");
    }
    assert!(struck > 3, "only {struck} of 40 statements were struck");
    server.assert_log_is_clean();
}

/// I4: owners on a board that is always too small are terminated at random. A refill, a reservation
/// or a return that dies with its session blocks no other session.
#[test]
fn death_on_a_crowded_board_stops_no_other() {
    let least = "select min_val from pg_settings where name = 'scylla.board_size'";
    let slots = Server::shared().connect().text(least);
    let server = Server::start(&[&format!("scylla.board_size = {slots}")]);
    let database = server.database();
    let total = 20 * slots.parse::<i32>().unwrap();
    let mut s = database.connect();
    for _ in 0..4 {
        s.submit_many("q", total / 4);
    }
    let work = |database: &Database| -> Result<bool, postgres::Error> {
        let mut s = database.try_connect()?;
        loop {
            let leases = s.try_own("w", "q", 4, "timeout => '100 ms'")?;
            if leases.is_empty() {
                return s.try_value("select count(*) = 0 from scylla.task", &[]);
            }
            for lease in &leases {
                s.return_task(lease, "completed")?;
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..6)
            .map(|_| {
                scope.spawn(|| {
                    eventually(seconds(60), "all is done", || {
                        work(&database)
                            .unwrap_or_else(|error| {
                                let expected =
                                    is_lost(&error) || ["55006", "55000"].contains(&&*code(&error));
                                assert!(expected, "{error:?}");
                                false
                            })
                            .then_some(())
                    });
                })
            })
            .collect();
        let strike =
            "select count(pg_terminate_backend(pid)) from (select pid from pg_stat_activity
                      where datname = $1 and backend_type = 'client backend' and pid <> $2
                      order by random() limit 1) victim";
        while !workers.iter().any(|worker| worker.is_finished()) {
            s.value::<i64>(strike, &[&database.name, &s.pid.clone()]);
            // so rarely that the remaining leases never fill the board
            sleep(milliseconds(25));
        }
    });
    assert_eq!(s.tasks("completed") as i32, total);
    server.assert_log_is_clean();
}
