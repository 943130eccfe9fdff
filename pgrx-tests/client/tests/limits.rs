//! Limits of queues: how many tasks run at once, and how many are handed out in a second.

use client::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

/// A time throughout which a lease ran: from a moment after its start to one before its end.
type Ran = (Instant, Instant);

/// The most that ran at one time.
fn most_at_once(log: &[Ran]) -> usize {
    let at = |time: Instant| log.iter().filter(|ran| ran.0 <= time && time < ran.1).count();
    log.iter().map(|ran| at(ran.0)).max().unwrap_or(0)
}

/// Runs so many workers in threads of their own; their logs, one after another.
fn work<T: Send>(workers: usize, worker: impl Fn(usize) -> Vec<T> + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..workers)
            .map(|n| {
                scope.spawn({
                    let worker = &worker;
                    move || worker(n)
                })
            })
            .collect();
        threads.into_iter().flat_map(|it| it.join().expect("a worker")).collect()
    })
}

/// What a worker does while the server is down.
fn reconnect(database: &Database) -> Option<Session> {
    sleep(milliseconds(20));
    database.try_connect().ok()
}

/// Sets limits, once the board is built: before, the bucket of permits begins empty.
fn limit(s: &mut Session, limits: &str) {
    s.own("w", "other", 1);
    s.run(&format!("select scylla.configure_queue('q', {limits})"));
}

/// I4: workers of all sorts come and go, and never do more tasks run than may.
#[test]
fn never_more_tasks_run_than_may() {
    let database = database();
    let mut s = database.connect();
    limit(&mut s, "max_running => 5");
    s.submit_many("q", 600);
    let log: Vec<Ran> = work(64, |n| {
        let mut s = database.connect();
        let mut log = Vec::new();
        for round in 0.. {
            let rolls_back = (n + round) % 5 == 0;
            s.run("begin");
            let leases = s.own("w", "q", 1 + n as i32 % 3);
            let begun = Instant::now();
            if rolls_back {
                log.extend(leases.iter().map(|_| (begun, Instant::now())));
                s.run("rollback");
                continue;
            }
            s.run("commit");
            if leases.is_empty() {
                if s.count("select count(*) from scylla.task") == 0 {
                    break;
                }
                s.run("call scylla.wait_for_work('q', '200 ms')");
                continue;
            }
            sleep(milliseconds(2));
            let outcome = if (n + round) % 7 == 1 { "yield" } else { "completed" };
            log.extend(leases.iter().map(|_| (begun, Instant::now())));
            for lease in &leases {
                s.return_task(lease, outcome).expect("a lease");
            }
        }
        log
    });
    assert!(log.len() >= 600, "{} leases", log.len());
    assert_eq!(most_at_once(&log), 5);
    assert_eq!(s.tasks("completed"), 600);
}

/// I1: a crash forgets young leases, and counts those that it restores.
#[test]
fn after_a_crash_the_restored_leases_count() {
    let server =
        Server::start(&["scylla.persist_leases_after = 0", "scylla.sweep_interval = '10 ms'"]);
    let database = server.database();
    let mut s = database.connect();
    limit(&mut s, "max_running => 3");
    s.submit_many("q", 9);
    let leases = s.own_with("w", "q", 9, "timeout => '1 h'");
    assert_eq!(leases.len(), 3);
    s.until_leases_are_written(3);
    for _ in 0..2 {
        server.kill();
        server.start_again();
        let mut s = database.connect();
        assert_eq!(s.own("w", "q", 9).len(), 0);
    }
    let mut s = database.connect();
    s.complete(&leases[0]);
    s.complete(&leases[1]);
    assert_eq!(s.own("w", "q", 9).len(), 2);
    limit(&mut s, "max_running => 1");
    server.kill();
    server.start_again();
    let mut s = database.connect();
    assert_eq!(s.own("w", "q", 9).len(), 0, "one is restored");
    s.complete(&leases[2]);
    // Young leases of before the crash may have been written, or not.
    assert!(s.own("w", "q", 9).len() <= 1);
}

/// Lets the workers end with the thread that has this value, also when it fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// I4: workers go on through crashes of the server: no more leases that the server knows run than
/// may.
#[test]
fn crashes_let_no_more_tasks_run_than_may() {
    let server =
        Server::start(&["scylla.persist_leases_after = 0", "scylla.sweep_interval = '10 ms'"]);
    let database = server.database();
    let mut s = database.connect();
    limit(&mut s, "max_running => 8");
    s.submit_many("q", 5_000);
    drop(s);
    let (ended, done) = (AtomicBool::new(false), AtomicUsize::new(0));
    let crashes = std::sync::Mutex::new(Vec::new());
    let (mut log, mut restored) = (Vec::new(), 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let ends = Ends(&ended);
            let work = || {
                let before = done.load(Ordering::SeqCst);
                eventually(seconds(10), "a hundred leases have ended", || {
                    (done.load(Ordering::SeqCst) > before + 100).then_some(())
                });
            };
            for _ in 0..3 {
                work();
                crashes.lock().expect("crashes").push(Instant::now());
                server.kill();
                server.start_again();
            }
            work();
            drop(ends);
        });
        let run = |n: usize| -> Vec<(Ran, bool)> {
            let (mut log, mut session) = (Vec::new(), None);
            while !ended.load(Ordering::SeqCst) {
                let Some(s) = session.as_mut() else {
                    session = reconnect(&database);
                    continue;
                };
                let Ok(leases) = Session::try_own(s, "w", "q", 1, "timeout => '1 h'") else {
                    session = None;
                    continue;
                };
                let begun = Instant::now();
                let Some(lease) = leases.first() else {
                    sleep(milliseconds(1));
                    continue;
                };
                sleep(milliseconds(5 + n as u64 % 60));
                let worked = Instant::now();
                let mut crashed = false;
                let outcome = loop {
                    match session.as_mut().map(|s| s.return_task(lease, "completed")) {
                        Some(Ok(_)) => break true,
                        Some(Err(error)) if !is_lost(&error) && code(&error) != "57P03" => {
                            break false;
                        }
                        _ => {
                            crashed = true;
                            session = reconnect(&database);
                        }
                    }
                };
                // A lease that a crash has made the server forget ended there at the latest.
                let is_known = outcome || !crashed;
                done.fetch_add(1, Ordering::SeqCst);
                log.push(((begun, worked), is_known && crashed));
                if !outcome {
                    let cut = crashes
                        .lock()
                        .expect("crashes")
                        .iter()
                        .rev()
                        .find(|it| **it > begun)
                        .copied();
                    log.last_mut().expect("a lease").0.1 = cut.unwrap_or(worked).min(worked);
                }
            }
            log
        };
        for ran in work(64, run) {
            restored += usize::from(ran.1);
            log.push(ran.0);
        }
    });
    println!("{} leases, {restored} of them returned after a crash", log.len());
    assert!(log.len() > 400, "{} leases", log.len());
    let most = most_at_once(&log);
    assert!((1..=8).contains(&most), "{most} at once");
}

/// I4: in no span of time are more tasks handed out than the bucket had and got.
#[test]
fn never_more_tasks_are_handed_out_in_a_second_than_may() {
    let database = database();
    let mut s = database.connect();
    limit(&mut s, "max_per_second => 40");
    s.submit_many("q", 1_000);
    // Those of four seconds, or a quarter of the rate that may be, as long as it takes.
    let (begun, least, done) = (Instant::now(), 40 + 40 * 3, AtomicUsize::new(0));
    let is_over = || {
        let (spent, done) = (begun.elapsed(), done.load(Ordering::SeqCst));
        spent > seconds(4) && (done >= least || spent > patience(seconds(4)))
    };
    let mut log: Vec<Ran> = work(64, |n| {
        let mut s = database.connect();
        let mut log = Vec::new();
        while !is_over() {
            let before = Instant::now();
            for lease in s.own("w", "q", 1 + n as i32 % 8) {
                log.push((before, Instant::now()));
                s.complete(&lease);
                done.fetch_add(1, Ordering::SeqCst);
            }
            s.run("call scylla.wait_for_work('q', '100 ms')");
        }
        log
    });
    log.sort();
    for from in 0..log.len() {
        let until = log[from..].iter().enumerate();
        let mut last = log[from].1;
        for (more, ran) in until {
            last = last.max(ran.1);
            let most = 40.0 + 40.0 * (last - log[from].0).as_secs_f64();
            assert!(more as f64 <= most, "{more} in {:?}", last - log[from].0);
        }
    }
    assert!(log.len() >= least, "{} tasks: the rate is reached", log.len());
}

/// I2: what a transaction ends makes room for what it owns, in one statement too; no other gets the
/// place before it commits.
#[test]
fn a_transaction_owns_in_the_place_of_what_it_returns() {
    let database = database();
    let (mut s, mut other) = (database.connect(), database.connect());
    limit(&mut s, "max_running => 1");
    let ids = s.submit_many("q", 6);
    let mut lease = s.own_one("q");
    let returns_and_owns = "select o.id, o.token from scylla.return_task($1, $2) r
                            left join lateral scylla.own_tasks('w', 'q') o on true";
    for _ in 0..2 {
        assert_eq!(other.own("w", "q", 1).len(), 0);
        let row = s.query_one(returns_and_owns, &[&lease.id, &lease.token]).expect("a row");
        (lease.id, lease.token) = (row.get(0), row.get(1));
    }
    assert_eq!(lease.id, ids[2]);
    assert_eq!((other.own("w", "q", 1).len(), s.tasks("running")), (0, 1));

    // Savepoints: each rollback takes back what came after it.
    s.run("begin");
    assert_eq!(s.own("w", "q", 1).len(), 0, "nothing is returned yet");
    s.run("savepoint a");
    s.complete(&lease);
    assert_eq!(other.own("w", "q", 1).len(), 0);
    s.run("savepoint b");
    let next = s.own_one("q");
    assert_eq!((next.id, s.own("w", "q", 1).len()), (ids[3], 0), "one for one");
    s.run("rollback to b");
    assert_eq!(s.own_one("q").id, ids[3]);
    s.run("rollback to a");
    assert_eq!(s.own("w", "q", 1).len(), 0);
    assert!(s.extend(&lease), "it goes on");
    s.complete(&lease);
    s.run("savepoint c");
    assert_eq!(s.own_one("q").id, ids[3]);
    s.run("release c; release a; commit");
    assert_eq!((other.own("w", "q", 1).len(), s.tasks("running")), (0, 1));
    assert!(s.try_own_task(ids[4]).is_err(), "by id neither");
}

/// I4: `own_task` obeys the limits, and `why` names them.
#[test]
fn owning_by_id_obeys_the_limits() {
    let database = database();
    let mut s = database.connect();
    limit(&mut s, "max_running => 1");
    let ids = s.submit_many("q", 2);
    let lease = s.own_one("q");
    let refused = |s: &mut Session| match s.try_own_task(ids[1]) {
        Ok(lease) => panic!("owned: {lease:?}"),
        Err(error) => failure::<()>(Err(error), "own_task").message().to_owned(),
    };
    assert_eq!(refused(&mut s), "queue \"q\" has reached its limit");
    let why = |s: &mut Session| -> String { s.value("select scylla.why($1)", &[&ids[1]]) };
    assert!(why(&mut s).contains("max_running"), "{}", why(&mut s));
    s.run("begin");
    s.complete(&lease);
    assert_eq!(s.try_own_task(ids[1]).expect("in its place").id, ids[1]);
    s.run("rollback");
    limit(&mut s, "max_running => 2, max_per_second => 0.001");
    s.try_own_task(ids[1]).expect("a permit");
    let ids = s.submit_many("q", 1);
    limit(&mut s, "max_running => 9");
    let error = s.try_own_task(ids[0]).expect_err("no permit");
    assert_eq!(code(&error), "55000");
    let why: String = s.value("select scylla.why($1)", &[&ids[0]]);
    assert!(why.contains("max_per_second"), "{why}");
}

/// While a queue is at its limit its waiters sleep, and so does the scheduler; each place that
/// comes free wakes one.
#[test]
fn a_queue_at_its_limit_wakes_no_process_until_a_place_is_free() {
    let server = Server::start(&["scylla.notify_interval = '1 min'"]);
    let database = server.database();
    let mut s = database.connect();
    limit(&mut s, "max_running => 2");
    s.submit_many("q", 9);
    let leases = s.own_with("w", "q", 9, "timeout => '1 h'");
    assert_eq!(leases.len(), 2);
    let waiters = [(); 3].map(|_| wait_for_work(&database, "q"));
    let scheduler = database.scheduler();
    s.submit("q");
    sleep(milliseconds(300));
    let before = waiters.each_ref().map(|(pid, _)| sleeps(*pid));
    let (scheduled, begun) = (sleeps(scheduler), Instant::now());
    sleep(seconds(2));
    let most = 1 + begun.elapsed().as_secs() as i64 / 5;
    for ((pid, waits), before) in waiters.iter().zip(before) {
        assert!(!waits.is_finished() && sleeps(*pid) - before <= most, "its backstop only");
    }
    let most = 12 * begun.elapsed().as_secs() as i64 / 2;
    assert!(sleeps(scheduler) - scheduled <= most, "the scheduler sweeps once a second");

    let woken = || waiters.iter().filter(|(_, waits)| waits.is_finished()).count();
    s.run("begin");
    s.complete(&leases[0]);
    s.run("rollback");
    sleep(milliseconds(300));
    assert_eq!(woken(), 0, "nothing came free");
    s.complete(&leases[0]);
    eventually(seconds(3), "one wakes", || (woken() == 1).then_some(()));
    sleep(milliseconds(300));
    assert_eq!(woken(), 1, "one place came free");
    s.own_with("w", "q", 1, "timeout => '1 h'");
    assert!(s.cancel(leases[1].id));
    eventually(seconds(3), "another wakes", || (woken() == 2).then_some(()));
    s.own_with("w", "q", 1, "timeout => '1 h'");
    limit(&mut s, "max_running => 4");
    eventually(seconds(3), "the last wakes", || (woken() == 3).then_some(()));
    for (_, waits) in waiters {
        assert!(waits.join().expect("a waiter"));
    }
}

/// The scheduler's timer wakes a process when the next permit is there.
#[test]
fn the_next_permit_wakes_a_process_at_its_time() {
    let server = Server::start(&["scylla.notify_interval = '1 min'"]);
    let database = server.database();
    let mut s = database.connect();
    limit(&mut s, "max_per_second => 0.5");
    s.submit_many("q", 9);
    let owned = Instant::now();
    assert_eq!(s.own("w", "q", 9).len(), 1);
    let waiters = [(); 2].map(|_| wait_for_work(&database, "q"));
    let woken = || waiters.iter().filter(|(_, waits)| waits.is_finished()).count();
    eventually(seconds(4), "one wakes", || (woken() > 0).then_some(()));
    // Unwoken, they would look after 5 s.
    let took = owned.elapsed();
    assert!((1.9..4.9).contains(&took.as_secs_f64()), "{took:?}");
    sleep(milliseconds(500));
    let woken_by_now = woken();
    assert!(woken_by_now == 1 || owned.elapsed() > milliseconds(3_900), "there is one permit");
    assert_eq!(s.own("w", "q", 9).len(), 1);
    eventually(seconds(5), "the other wakes", || (woken() == 2).then_some(()));
    assert!(owned.elapsed() >= milliseconds(3_900), "{:?}", owned.elapsed());
    for (_, waits) in waiters {
        assert!(waits.join().expect("a waiter"));
    }
}

/// I2: what was owned and rolled back is as if it had not been.
#[test]
fn a_transaction_that_rolls_back_gives_permits_back() {
    let database = database();
    let mut s = database.connect();
    limit(&mut s, "max_per_second => 3");
    s.submit_many("q", 20);
    for _ in 0..20 {
        s.run("begin; savepoint a");
        assert_eq!(s.own("w", "q", 9).len(), 3);
        s.run("rollback to a");
        assert_eq!(s.own("w", "q", 1).len(), 1);
        s.run("rollback");
    }
    let begun = Instant::now();
    assert_eq!(s.own("w", "q", 9).len(), 3);
    let more = s.own("w", "q", 9).len();
    assert!(more as f64 <= 3.0 * begun.elapsed().as_secs_f64(), "{more}, which have become free");
}

/// B113: a queue has more tasks than the board has slots, and more workers than it may run tasks;
/// another one does not notice.
#[test]
fn a_flooded_queue_keeps_no_other_from_its_tasks() {
    let server = Server::start(&["scylla.board_size = 512"]);
    let database = server.database();
    let mut s = database.connect();
    limit(&mut s, "max_running => 2");
    s.submit_many("q", 20_000);
    let mut waiter = database.connect();
    let mut times = Vec::new();
    let mut serve_quiet = |round: i32| {
        let begun = Instant::now();
        let id = s.submit("quiet");
        let available: bool = waiter.value("call scylla.wait_for_work('quiet', '20 s')", &[]);
        assert!(available, "round {round}");
        times.push(begun.elapsed());
        let lease = waiter.own_one("quiet");
        assert_eq!(lease.id, id);
        waiter.complete(&lease);
    };
    // The flooded queue has all other slots of the board, and none comes free.
    let mut worker = database.connect();
    let held = worker.own("w", "q", 5);
    assert_eq!(held.len(), 2);
    (0..10).for_each(&mut serve_quiet);
    held.iter().for_each(|lease| worker.complete(lease));
    let ended = AtomicBool::new(false);
    let owned: usize = thread::scope(|scope| {
        let flood: Vec<_> = (0..8)
            .map(|_| {
                let (mut s, ended) = (database.connect(), &ended);
                scope.spawn(move || {
                    let mut owned = 0;
                    while !ended.load(Ordering::SeqCst) {
                        for lease in s.own("w", "q", 5) {
                            s.complete(&lease);
                            owned += 1;
                        }
                    }
                    owned
                })
            })
            .collect();
        (10..110).for_each(&mut serve_quiet);
        ended.store(true, Ordering::SeqCst);
        flood.into_iter().map(|it| it.join().expect("a worker")).sum()
    });
    assert!(owned > 0, "the flooded queue goes on, too");
    // Nine in ten, since a busy machine may delay one; unwoken, each would take 5 s.
    times.sort_unstable();
    assert!(times[99] < BACKSTOP, "{times:?}");
}
