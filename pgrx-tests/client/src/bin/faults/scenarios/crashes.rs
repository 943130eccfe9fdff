//! Faults of the whole server under load from eight connections; the clients' logs are judged against
//! the tables. I1, I7, B17, B55: no acknowledged call is lost, no task is settled twice, and no two
//! workers own one task at a time.

use crate::history::checker::{self, PERSIST_AFTER};
use crate::history::log::{Fault, Record};
use crate::load::Load;
use crate::run::Run;
use client::*;
use rand::RngExt;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const CLIENTS: usize = 8;

/// How soon the next caller gets an answer after a backend was killed.
const BACK_AFTER_KILL: Duration = seconds(2);
/// How soon a killed or terminated worker is replaced.
const WORKER_BACK: Duration = seconds(5);
const FAST_STOP: Duration = seconds(3);

/// A server that is tormented, and the database that its clients use.
struct Victim {
    server: Server,
    database: Database,
}

/// Torments a server under load as often as the run asks for, and judges what the clients saw. Returns
/// what happened.
fn torment(run: &mut Run, mut fault: impl FnMut(&Victim, &mut Run) -> Option<Fault>) -> String {
    let persist = format!("scylla.persist_leases_after = '{} ms'", PERSIST_AFTER.as_millis());
    let server = Server::start(&[&persist, "max_connections = 50"]);
    let database = server.database();
    let victim = Victim { server, database };
    let stop = AtomicBool::new(false);
    let mut faults = Vec::new();
    let (records, surprises) = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|n| {
                let load = Load::new(n, &victim.database, run.seed);
                let stop = &stop;
                scope.spawn(move || load.run(stop))
            })
            .collect();
        // A failure below must still stop the clients, or the scope would wait for ever.
        let tormented = catch_unwind(AssertUnwindSafe(|| {
            sleep(seconds(1));
            for _ in 0..run.times {
                faults.extend(fault(&victim, run));
                run.made_one();
                sleep(milliseconds(run.random.random_range(100..1000)));
            }
            sleep(seconds(1));
        }));
        stop.store(true, Ordering::Relaxed);
        let mut records: Vec<Record> = Vec::new();
        let mut surprises = Vec::new();
        for client in clients {
            let (more, strange) = client.join().expect("the client does not panic");
            records.extend(more);
            surprises.extend(strange);
        }
        if let Err(panic) = tormented {
            resume_unwind(panic);
        }
        (records, surprises)
    });
    victim.database.connect().counts_agree(seconds(30));
    drain(&victim.database);
    let verdict = checker::check(&records, &faults, &final_rows(&victim.database));
    assert_none("violations", &verdict.violations);
    assert_none("unexpected errors", &surprises);
    assert!(verdict.submits > 100 && verdict.settled > 50, "too little happened");
    victim.server.assert_log_is_clean();
    format!(
        "{} calls, {} tasks, {} settled, {} leases, {} of them alive after a crash",
        records.len(),
        verdict.submits,
        verdict.settled,
        verdict.leases,
        verdict.survivors
    )
}

fn assert_none(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{} {what}, such as {}", found.len(), found[0]);
}

/// Owns and completes tasks until all of them are settled.
fn drain(database: &Database) {
    let mut s = database.connect();
    let left =
        "select count(*) from scylla.tasks where status::text in ('waiting', 'ready', 'running')";
    eventually(seconds(45), "everything left can be owned and completed", || {
        for queue in ["red", "green", "blue"] {
            while let leases @ [_, ..] = &*s.own("drain", queue, 1000) {
                let (ids, tokens): (Vec<Uuid>, Vec<Uuid>) =
                    leases.iter().map(|lease| (lease.id, lease.token)).unzip();
                let answers: Vec<Option<String>> =
                    s.value("select scylla.return_tasks($1, $2)", &[&ids, &tokens]);
                assert!(
                    answers.iter().all(|answer| answer.as_deref() == Some("completed")),
                    "{answers:?}"
                );
            }
        }
        (s.count(left) == 0).then_some(())
    });
}

fn final_rows(database: &Database) -> HashMap<Uuid, Vec<String>> {
    let mut rows: HashMap<Uuid, Vec<String>> = HashMap::new();
    for row in database.connect().query("select id, status::text from scylla.tasks", &[]).unwrap() {
        rows.entry(row.get(0)).or_default().push(row.get(1));
    }
    rows
}

/// One of the processes that a condition on `pg_stat_activity` finds. Waits while the server recovers.
fn a_process(victim: &Victim, condition: &str, run: &mut Run) -> i32 {
    let look = format!(
        "select array_agg(pid) from pg_stat_activity where pid <> pg_backend_pid() and {condition}"
    );
    eventually(seconds(20), "there is a process to end", || {
        let mut s = victim.server.try_connect().ok()?;
        let pids: Vec<i32> = s.try_value::<Option<Vec<i32>>>(&look, &[]).ok()??;
        Some(pids[run.random.random_range(0..pids.len())])
    })
}

/// Kills a process with -9, which restarts all others; returns when a caller gets an answer again.
fn kill(victim: &Victim, condition: &str, run: &mut Run) -> Fault {
    let mut canary = victim.server.connect();
    let at = Instant::now();
    eventually(seconds(20), "a killed process takes all others with it", || {
        // the chosen process may have just ended
        victim.server.signal(a_process(victim, condition, run), libc::SIGKILL);
        let is_dead = |_| canary.is_dead() || (sleep(milliseconds(10)), false).1;
        (0..100).any(is_dead).then_some(())
    });
    eventually(seconds(60), "a caller gets an answer", || {
        let mut s = victim.database.try_connect().ok()?;
        s.try_own("canary", "canary", 1, "timeout => '1 s'").ok()
    });
    Fault::Crash { at, up: Instant::now() }
}

/// The longest of these times. Asserts that the shortest is within a limit: a busy machine may delay
/// any of them, and the code delays all of them or none.
fn soon_enough(times: &[Duration], limit: Duration) -> Duration {
    let fastest = times.iter().min().copied().unwrap_or_default();
    assert!(fastest <= limit, "{times:?}, and {limit:?} may be");
    times.iter().max().copied().unwrap_or_default()
}

pub fn kill_backends(run: &mut Run) -> String {
    let mut times = Vec::new();
    let summary = torment(run, |victim, run| {
        let began = Instant::now();
        let fault = kill(victim, "backend_type = 'client backend'", run);
        times.push(began.elapsed());
        Some(fault)
    });
    let slowest = soon_enough(&times, BACK_AFTER_KILL);
    format!("{summary}; owning went on within {} ms", slowest.as_millis())
}

pub fn kill_workers(run: &mut Run) -> String {
    let mut times = Vec::new();
    let summary = torment(run, |victim, run| {
        let is_scheduler = run.random.random_bool(0.7);
        let is_killed = run.random.random_bool(0.5);
        let what = if is_scheduler { "is not null" } else { "is null" };
        let condition = format!("backend_type like 'scylla%' and datname {what}");
        let before = victim.database.schedulers();
        let fault = if is_killed {
            kill(victim, &condition, run)
        } else {
            let pid = a_process(victim, &condition, run);
            let at = Instant::now();
            // as pg_terminate_backend does
            victim.server.signal(pid, libc::SIGTERM);
            Fault::SchedulerTerminated { at }
        };
        let began = Instant::now();
        eventually(seconds(30), "the worker is back", || {
            let mut s = victim.server.try_connect().ok()?;
            let count = format!("select count(*) from pg_stat_activity where {condition}");
            let is_there = s.try_value::<i64>(&count, &[]).ok()? > 0;
            let is_new = !is_scheduler || victim.database.schedulers() != before;
            (is_there && is_new).then_some(())
        });
        times.push(began.elapsed());
        Some(fault)
    });
    let slowest = soon_enough(&times, WORKER_BACK);
    format!("{summary}; workers were back within {} ms", slowest.as_millis())
}

/// Ends the server, and starts it again.
fn restart(victim: &Victim, end: impl FnOnce(&Server)) -> Fault {
    let at = Instant::now();
    end(&victim.server);
    victim.server.start_again();
    Fault::Crash { at, up: Instant::now() }
}

pub fn kill_postmasters(run: &mut Run) -> String {
    torment(run, |victim, _| Some(restart(victim, Server::kill)))
}

pub fn stop_at_once(run: &mut Run) -> String {
    torment(run, |victim, _| Some(restart(victim, |it| it.stop("immediate"))))
}

pub fn stop_fast(run: &mut Run) -> String {
    let mut times = Vec::new();
    let summary = torment(run, |victim, _| {
        let fault = restart(victim, |it| {
            let began = Instant::now();
            it.stop("fast");
            times.push(began.elapsed());
        });
        Some(fault)
    });
    let slowest = soon_enough(&times, FAST_STOP);
    format!("{summary}; down within {} ms", slowest.as_millis())
}

/// Timeouts of a few milliseconds, cancelled statements and terminated sessions.
pub fn cut_calls_off(run: &mut Run) -> String {
    let mut left = run.times;
    torment(run, |victim, run| {
        left -= 1;
        let mut s = victim.server.connect();
        let a_client = format!(
            "(select pid from pg_stat_activity where datname = '{}' and backend_type = 'client backend'
              order by random() limit 1)",
            victim.database.name
        );
        let most = run.random.random_range(1..50);
        let setting = ["statement_timeout", "lock_timeout"][run.random.random_range(0..2)];
        // Sessions that begin from now on have the timeout.
        s.run(&format!("alter database {} set {setting} = '{most} ms'", victim.database.name));
        for _ in 0..20 {
            let end = ["pg_cancel_backend", "pg_terminate_backend"][run.random.random_range(0..2)];
            s.run(&format!("select {end}({a_client})"));
            sleep(milliseconds(run.random.random_range(0..10)));
        }
        if left == 0 {
            s.run(&format!("alter database {} reset all", victim.database.name));
            s.run(&format!(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname = '{}'
                            and backend_type = 'client backend'",
                victim.database.name
            ));
        }
        None
    })
}

/// Reloads, settings of the server that change, roles that are dropped.
pub fn change_settings(run: &mut Run) -> String {
    const SETTINGS: &[(&str, &[&str])] = &[
        ("scylla.sweep_interval", &["10 ms", "1 s"]),
        ("scylla.notify_interval", &["50 ms", "1 min"]),
        ("scylla.timing_advance", &["0", "100 ms"]),
        ("scylla.max_tries", &["0", "25"]),
        ("scylla.sql_workers", &["0", "4"]),
    ];
    torment(run, |victim, run| {
        let mut s = victim.server.connect();
        let started = s.text("select pg_postmaster_start_time()::text");
        let (setting, values) = SETTINGS[run.random.random_range(0..SETTINGS.len())];
        let value = values[run.random.random_range(0..values.len())];
        s.run(&format!("alter system set {setting} = '{value}'"));
        s.run("select pg_reload_conf()");
        let mut own = victim.database.connect();
        own.run(
            "create role passing; select scylla.grant('red', 'passing', '{work}');
             drop owned by passing; drop role passing",
        );
        assert_eq!(s.text("select pg_postmaster_start_time()::text"), started, "no restart");
        sleep(milliseconds(10));
        None
    })
}
