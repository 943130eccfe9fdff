//! Faults of the whole server under load from eight connections; the clients' logs are judged
//! against the tables. I1, I7, B17, B55: no acknowledged call is lost, no task is settled twice,
//! and no two workers own one task at a time.

use crate::history::log::Fault;
use crate::run::Run;
use crate::victim::{Victim, soon_enough, torment};
use client::*;
use rand::RngExt;
use std::time::{Duration, Instant};

/// How soon the next caller gets an answer after a backend was killed.
const BACK_AFTER_KILL: Duration = seconds(2);
/// How soon a killed or terminated worker is replaced.
const WORKER_BACK: Duration = seconds(5);
const FAST_STOP: Duration = seconds(3);

pub fn kill_backends(run: &mut Run) -> String {
    let mut times = Vec::new();
    let summary = torment(run, |victim, run| {
        let began = Instant::now();
        let fault = victim.kill("backend_type = 'client backend'", run);
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
            victim.kill(&condition, run)
        } else {
            let pid = victim.a_process(&condition, run);
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

/// Every second time with clients that wait for a synchronous standby which does not exist.
pub fn stop_fast(run: &mut Run) -> String {
    let mut times = Vec::new();
    let mut waiting = 0;
    let summary = torment(run, |victim, run| {
        let waits = run.random.random_bool(0.5);
        if waits {
            victim.server.configure("synchronous_standby_names", "missing");
            let look = "select count(*) from pg_stat_activity where wait_event = 'SyncRep'";
            let mut s = victim.server.connect();
            eventually(seconds(20), "a commit waits", || (s.count(look) > 0).then_some(()));
            waiting += 1;
        }
        let at = Instant::now();
        victim.server.stop("fast");
        times.push(at.elapsed());
        victim.server.start_again();
        if waits {
            victim.server.configure("synchronous_standby_names", "");
        }
        Some(Fault::Crash { at, up: Instant::now() })
    });
    let slowest = soon_enough(&times, FAST_STOP);
    format!(
        "{summary}; down within {} ms, {waiting} times with a missing standby",
        slowest.as_millis()
    )
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
