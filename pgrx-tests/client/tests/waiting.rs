//! Waiting in the server: `wait_for_work` and `wait_for_task`.
//!
//! Most tests share a server whose clock wakes nobody by itself within a minute, so that a lost
//! wake-up shows.

use client::*;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

fn slow() -> Database {
    open(slow_server())
}

/// A database whose board is built: whoever waits then waits for tasks.
fn open(server: &Server) -> Database {
    let database = server.database();
    database.connect().own("w", "q", 1);
    database
}

fn slow_server() -> &'static Server {
    static SLOW: OnceLock<Server> = OnceLock::new();
    extern "C" fn remove() {
        SLOW.get().into_iter().for_each(Server::remove);
    }
    let start = || {
        // SAFETY: registers a plain function without arguments
        unsafe { libc::atexit(remove) };
        Server::start(&["scylla.notify_interval = '1 min'", "max_connections = 200"])
    };
    SLOW.get_or_init(start)
}

const FOR_WORK: &str = "call scylla.wait_for_work($1, $2::text::interval)";
const FOR_TASK: &str = "call scylla.wait_for_task($1, $2::text::interval)";

fn for_work(s: &mut Session, queue: &str, timeout: &str) -> bool {
    s.value(FOR_WORK, &[&queue, &timeout])
}

type Ending = (Option<String>, Option<Value>);

fn for_task(s: &mut Session, id: Uuid, timeout: &str) -> Ending {
    let row = s.query_one(FOR_TASK, &[&id, &timeout]).expect("wait_for_task");
    (row.get(0), row.get(1))
}

fn ending(status: &str, result: Value) -> Ending {
    (Some(status.to_owned()), (!result.is_null()).then_some(result))
}

/// Runs something in a session of its own, and returns once that session waits in the server.
fn waiting<T: Send + 'static>(
    database: &Database,
    work: impl FnOnce(&mut Session) -> T + Send + 'static,
) -> (i32, JoinHandle<T>) {
    let mut session = database.connect();
    let pid = session.pid;
    let thread = thread::spawn(move || work(&mut session));
    let mut look = database.connect();
    let waits = "select count(*) from pg_stat_activity
        where pid = $1 and state = 'active' and wait_event_type = 'Extension'";
    eventually(seconds(10), "the session waits", || {
        (look.value::<i64>(waits, &[&pid]) == 1).then_some(())
    });
    (pid, thread)
}

/// What a waiter answered, and when.
fn report(database: &Database, n: usize, queue: &'static str) -> Receiver<(bool, Instant)> {
    let (sender, receiver) = channel();
    for _ in 0..n {
        let sender = sender.clone();
        waiting(database, move |s| {
            let answer = s.try_value(FOR_WORK, &[&queue, &"20 s"]);
            let _ = sender.send((answer.unwrap_or(false), Instant::now()));
        });
    }
    receiver
}

/// B75
#[test]
fn waiting_after_the_end_returns_at_once() {
    let database = slow();
    let mut s = database.connect();
    for (outcome, result) in
        [("completed", json!({"n": [1, "two", null]})), ("aborted", json!(null))]
    {
        let id = s.submit_with("q", "post_result => true");
        let lease = s.own_one("q");
        match outcome {
            "completed" => {
                let sql = "select scylla.return_task($1, $2, result => $3)";
                s.value::<String>(sql, &[&id, &lease.token, &result]);
            }
            _ => drop(s.give(&lease, outcome).unwrap()),
        }
        assert_eq!(for_task(&mut s, id, "10 s"), ending(outcome, result));
    }
    let id = s.submit_with("q", "post_result => true");
    s.cancel(id);
    let started = Instant::now();
    assert_eq!(for_task(&mut s, id, "10 s"), ending("cancelled", json!(null)));
    assert!(started.elapsed() < seconds(1));
}

/// B76: each of those who wait hears the exact status and result, large ones too.
#[test]
fn waiting_before_the_end_hears_the_exact_status_and_result() {
    let database = slow();
    let mut s = database.connect();
    let id = s.submit_with("q", "post_result => true");
    let other = s.submit_with("other", "post_result => true");
    let result = json!({"text": "ü".repeat(300_000), "number": 1e100});
    let waiters: Vec<_> = (0..5)
        .map(|_| waiting(&database, move |s| (for_task(s, id, "20 s"), Instant::now())).1)
        .collect();
    let (_, bystander) = waiting(&database, move |s| for_task(s, other, "1500 ms"));
    let lease = s.own_one("q");
    let returned = Instant::now();
    let sql = "select scylla.return_task($1, $2, result => $3)";
    s.value::<String>(sql, &[&id, &lease.token, &result]);
    for waiter in waiters {
        let (heard, at) = waiter.join().unwrap();
        assert_eq!(heard, ending("completed", result.clone()));
        assert!(at.duration_since(returned) < seconds(2));
    }
    assert_eq!(bystander.join().unwrap(), (None, None), "a time-out is no error");
}

/// B77
#[test]
fn without_post_result_waiting_is_an_error() {
    let database = slow();
    let mut s = database.connect();
    let id = s.submit("q");
    let refused = |s: &mut Session, id: Uuid| {
        let complaint = s.refusal(FOR_TASK, &[&id, &"10 s"]);
        (complaint.code().code().to_owned(), complaint.message().to_owned())
    };
    let (code, message) = refused(&mut s, id);
    assert_eq!(code, "55000");
    assert!(message.contains(&id.to_string()), "{message}");
    let lease = s.own_one("q");
    s.complete(&lease);
    assert_eq!(refused(&mut s, id).0, "55000", "settled or not");
    assert_eq!(refused(&mut s, Uuid::new_v4()).0, "P0002");
    let gone = s.submit_with("q", "post_result => true");
    let (_, waiter) = waiting(&database, move |s| refused(s, gone).0);
    s.value::<i32>("select scylla.delete_tasks(array[$1::uuid])", &[&gone]);
    assert_eq!(waiter.join().unwrap(), "P0002", "deleted meanwhile");
}

/// B78: what rolled back is not heard of, whether the whole transaction or a savepoint.
#[test]
fn nothing_is_heard_of_what_rolled_back() {
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
    assert_eq!(for_task(&mut s, id, "0"), (None, None), "a timeout of zero only looks");
    let (_, worker) = waiting(&database, |s| for_work(s, "q", "20 s"));
    s.run(&format!("begin; {settle}; select scylla.submit('q'); commit"));
    assert!(worker.join().unwrap());
    assert_eq!(for_task(&mut s, id, "0").0.as_deref(), Some("completed"));
}

/// B78: submitted and settled at any moment around the beginning of the wait.
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
            let started = Instant::now();
            assert!(for_work(&mut worker, "q", "4 s"), "round {n}: the work was not heard of");
            assert!(started.elapsed() < seconds(2), "round {n}: {:?}", started.elapsed());
            let lease = worker.own_one("q");
            worker.complete(&lease);
        }
    });
    let wait = thread::spawn(move || {
        for id in told {
            let started = Instant::now();
            assert_eq!(for_task(&mut client, id, "4 s").0.as_deref(), Some("completed"));
            assert!(started.elapsed() < seconds(2), "{:?}", started.elapsed());
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

/// B79
#[test]
fn whatever_settles_a_task_is_heard_of() {
    let database = slow();
    let mut s = database.connect();
    let wait = |id: Uuid| waiting(&database, move |s| for_task(s, id, "20 s").0).1;
    let exhausted = s.submit_with("a", "post_result => true, max_tries => 1");
    let lease = s.own_one("a");
    let waiter = wait(exhausted);
    assert_eq!(s.give(&lease, "retry").unwrap(), "aborted");
    assert_eq!(waiter.join().unwrap().as_deref(), Some("aborted"), "the last retry");

    let expired = s.submit_with("a", "post_result => true, max_tries => 1, timeout => '300 ms'");
    s.own_one("a");
    let waiter = wait(expired);
    assert_eq!(waiter.join().unwrap().as_deref(), Some("aborted"), "the last expiry");

    let cancelled = s.submit_with("a", "post_result => true");
    let waiter = wait(cancelled);
    s.cancel(cancelled);
    assert_eq!(waiter.join().unwrap().as_deref(), Some("cancelled"));

    let root = s.submit("root");
    let follower: Uuid = s.value(
        "select scylla.submit('b', after => array[$1::uuid], post_result => true)",
        &[&root],
    );
    let last: Uuid = s.value(
        "select scylla.submit('b', after => array[$1::uuid], post_result => true)",
        &[&follower],
    );
    let (first, second) = (wait(follower), wait(last));
    let lease = s.own_one("root");
    s.give(&lease, "aborted").unwrap();
    assert_eq!(first.join().unwrap().as_deref(), Some("aborted"), "a cascade");
    assert_eq!(second.join().unwrap().as_deref(), Some("aborted"), "its next step");

    let batch: Vec<Uuid> = (0..3).map(|_| s.submit_with("c", "post_result => true")).collect();
    let leases = s.own("w", "c", 3);
    let waiters: Vec<_> = batch.into_iter().map(wait).collect();
    let (ids, tokens): (Vec<Uuid>, Vec<Uuid>) =
        leases.iter().map(|lease| (lease.id, lease.token)).unzip();
    s.value::<Vec<Option<String>>>("select scylla.return_tasks($1, $2)", &[&ids, &tokens]);
    for waiter in waiters {
        assert_eq!(waiter.join().unwrap().as_deref(), Some("completed"), "in bulk");
    }
}

/// Whatever makes a task ready wakes one who waits for work.
#[test]
fn whatever_makes_a_task_ready_wakes_somebody() {
    let database = slow();
    let mut s = database.connect();
    let wait = || waiting(&database, |s| for_work(s, "q", "20 s")).1;
    s.submit("q");
    let lease = s.own_one("q");
    let waiter = wait();
    s.give(&lease, "retry").unwrap();
    assert!(waiter.join().unwrap(), "a retry");

    s.run("begin");
    s.own_one("q");
    let waiter = wait();
    s.run("rollback");
    assert!(waiter.join().unwrap(), "a rollback of owning");

    s.own_one_with("q", "timeout => '300 ms'");
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

/// A waiter that was woken for a task which somebody else took waits on.
#[test]
fn whoever_comes_too_late_waits_on() {
    let database = slow();
    let answers = report(&database, 1, "q");
    let mut s = database.connect();
    for _ in 0..200 {
        s.run("begin; select scylla.submit('q'); commit; select from scylla.own_tasks('w', 'q')");
        if answers.try_recv().is_ok() {
            // it was faster this time
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
        assert!((n * 300..n * 300 + 2_000).contains(time), "{times:?}");
    }
}

/// One that was woken and ends by a cancel passes the wake-up on: tasks are taken by others at once.
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
            // it was woken before the cancel came
            s.submit("q");
        }
        let started = Instant::now();
        assert!(other.join().unwrap());
        assert!(started.elapsed() < seconds(2), "round {round}, {lost}");
        s.own("w", "q", 10);
    }
}

/// While it waits it holds no snapshot, no transaction id and no lock on a table, whatever the
/// session's isolation level, and it uses no processor time.
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

/// In ticks.
fn processor_time(pid: i32) -> i64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process");
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    fields[11].parse::<i64>().unwrap() + fields[12].parse::<i64>().unwrap()
}

/// Cancel, statement_timeout, pg_terminate_backend, and the client's going away end the wait at once.
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
            eventually(seconds(1), "the backend has ended", || {
                let look = "select count(*) from pg_stat_activity where pid = $1";
                (s.value::<i64>(look, &[&pid]) == 0).then_some(())
            });
        };
        let started = Instant::now();
        let (pid, waiter) = stopped("");
        s.value::<bool>("select pg_cancel_backend($1)", &[&pid]);
        assert_eq!(code(&waiter.join().unwrap()), "57014");
        let (_, waiter) = stopped("set statement_timeout = '300 ms'");
        assert_eq!(code(&waiter.join().unwrap()), "57014");
        let (pid, waiter) = stopped("");
        s.value::<bool>("select pg_terminate_backend($1)", &[&pid]);
        assert!(is_lost(&waiter.join().unwrap()));
        soon(&mut s, pid);
        assert!(started.elapsed() < seconds(6));

        let mut client = psql(&database, &[&call]);
        let pid = psql_waits(&mut s);
        client.kill().unwrap();
        client.wait().unwrap();
        soon(&mut s, pid);
    }
}

#[test]
fn a_fast_shutdown_ends_every_wait() {
    let server = Server::start(&[]);
    let database = server.database();
    let waiters: Vec<_> = (0..5)
        .map(|_| waiting(&database, |s| s.try_value::<bool>(FOR_WORK, &[&"q", &"1 h"]).is_err()).1)
        .collect();
    let started = Instant::now();
    server.stop("fast");
    assert!(started.elapsed() < seconds(3), "{:?}", started.elapsed());
    assert!(waiters.into_iter().all(|waiter| waiter.join().unwrap()));
}

/// Where its transaction is not its own, a procedure that waits is refused.
#[test]
fn waiting_stands_alone() {
    let database = slow();
    let mut s = database.connect();
    let call = "call scylla.wait_for_work('q', '0')";
    s.run(call);
    s.run(
        "create function f() returns void language plpgsql as $$
           declare a boolean; begin call scylla.wait_for_work('q', '0', a); end $$",
    );
    s.run(
        "create procedure p(inout a boolean) language plpgsql as $$
           begin call scylla.wait_for_work('q', '0', a); end $$",
    );
    s.run("call p(null)");
    for script in [
        &format!("begin; {call}"),
        &format!("select 1; {call}"),
        "select f()",
        "begin; call p(null)",
        "do $$ begin perform f(); end $$",
        "do $$ declare a boolean; begin begin call scylla.wait_for_work('q', '0', a);
         exception when no_data_found then null; end; end $$",
    ] {
        assert_eq!(s.refused(script), "25001", "{script}");
        s.run("rollback");
    }
    assert_eq!(pipelined(&database, &["select 1", call]), Some("25001".to_owned()));
    assert_eq!(pipelined(&database, &[call, "select 1"]), None, "its first command is alone yet");
}

/// The error of several statements sent before a single Sync.
fn pipelined(database: &Database, statements: &[&str]) -> Option<String> {
    use std::io::{Read, Write};
    let (folder, port) = database.reach();
    let mut stream =
        std::os::unix::net::UnixStream::connect(format!("{folder}/.s.PGSQL.{port}")).unwrap();
    let message = |kind: &[u8], body: &[u8]| {
        let length = (body.len() as u32 + 4).to_be_bytes();
        [kind, &length, body].concat()
    };
    let who = format!("user\0postgres\0database\0{}\0\0", database.name);
    let mut sent = message(b"", &[&196_608u32.to_be_bytes(), who.as_bytes()].concat());
    for sql in statements {
        sent.extend(message(b"P", format!("\0{sql}\0\0\0").as_bytes()));
        sent.extend(message(b"B", &[0; 8]));
        sent.extend(message(b"E", &[0; 5]));
    }
    sent.extend(message(b"S", b""));
    sent.extend(message(b"X", b""));
    stream.write_all(&sent).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let text = String::from_utf8_lossy(&answer);
    let error = text.split('\0').find(|field| field.len() == 6 && field.starts_with('C'));
    error.map(|field| field[1..].to_owned())
}

fn psql(database: &Database, commands: &[&str]) -> std::process::Child {
    let (host, port) = database.reach();
    let mut command = std::process::Command::new(format!("{}/psql", slow_server().bin()));
    command.args(["-XqAt", "-h", &host, "-p", &port.to_string(), "-U", "postgres"]);
    command.args(["-d", &database.name]);
    command.args(commands.iter().flat_map(|it| ["-c", it]));
    command.stdout(std::process::Stdio::piped()).spawn().expect("psql runs")
}

/// The backend of the psql that waits.
fn psql_waits(s: &mut Session) -> i32 {
    let look = "select max(pid) from pg_stat_activity where application_name = 'psql'
        and datname = current_database() and wait_event_type = 'Extension'";
    eventually(seconds(5), "psql waits", || s.value::<Option<i32>>(look, &[]))
}

/// In one terminal `wait_for_work`, in another `submit`.
#[test]
fn psql_waits_and_returns_at_once() {
    let database = slow();
    let waiter = psql(&database, &["call scylla.wait_for_work('mail')", "select 'woken'"]);
    let mut s = database.connect();
    psql_waits(&mut s);
    let submitted = Instant::now();
    s.submit("mail");
    let output = waiter.wait_with_output().unwrap();
    assert!(submitted.elapsed() < seconds(1));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "t\nwoken\n");
}

/// The simple protocol, literals by place, named notation.
#[test]
fn every_notation_serves() {
    let database = slow();
    let mut s = database.connect();
    let id = s.submit_with("q", "post_result => true");
    let lease = s.own_one("q");
    s.complete(&lease);
    s.submit("q");
    for call in [
        "wait_for_work('q')",
        "wait_for_work('q', '1 s')",
        "wait_for_work('q', '1 s', null)",
        "wait_for_work(queue => 'q', available => null)",
        &format!("wait_for_task('{id}')"),
        &format!("wait_for_task('{id}', '1 s', null, null)"),
        &format!("wait_for_task('{id}', timeout => '1 minute', status => NULL, result => NULL)"),
    ] {
        s.run(&format!("CALL scylla.{call}"));
        assert_eq!(s.query(&format!("CALL scylla.{call}"), &[]).unwrap().len(), 1, "{call}");
    }
}

/// The extension goes although somebody waits; whoever does learns of it.
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
    s.run("drop extension scylla cascade");
    assert_eq!(work.join().unwrap(), "55000");
    assert_eq!(task.join().unwrap(), "55000");
    assert!(started.elapsed() < seconds(8), "{:?}", started.elapsed());
}
