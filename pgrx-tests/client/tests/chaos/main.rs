//! Crashes of every kind under load from eight connections, and a checker over the clients' logs.
//!
//! `SCYLLA_CHAOS=full` injects four times as many faults; `SCYLLA_SEED` repeats the random choices
//! of a run.

mod checker;
mod judged;
mod load;
mod log;

use client::*;
use load::Load;
use log::{Blow, Record};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

const CLIENTS: usize = 8;

#[derive(Clone, Copy, Debug)]
enum Strike {
    Backend,
    Postmaster,
    Worker,
}

/// Twenty backends and five postmasters to kill, twenty schedulers to terminate, in random order.
fn strikes(random: &mut StdRng) -> Vec<Strike> {
    let times = if std::env::var("SCYLLA_CHAOS").as_deref() == Ok("full") { 4 } else { 1 };
    let mut strikes =
        [vec![Strike::Backend; 20], vec![Strike::Postmaster; 5], vec![Strike::Worker; 20]]
            .concat()
            .repeat(times);
    strikes.shuffle(random);
    strikes
}

/// The id of a process to kill or terminate. Waits while the server recovers.
fn victim(server: &Server, database: &Database, what: Strike, random: &mut StdRng) -> i32 {
    eventually(seconds(20), "there is a process to strike", || {
        let mut s = server.try_connect().ok()?;
        let kind =
            if matches!(what, Strike::Worker) { "ilike '%scylla%'" } else { "= 'client backend'" };
        let look = format!(
            "select array_agg(pid) from pg_stat_activity where datname = $1 and backend_type {kind}"
        );
        let pids: Vec<i32> = s.try_value::<Option<Vec<i32>>>(&look, &[&database.name]).ok()??;
        Some(pids[random.random_range(0..pids.len())])
    })
}

fn strike(server: &Server, database: &Database, what: Strike, random: &mut StdRng) -> Blow {
    match what {
        Strike::Postmaster => {
            let at = Instant::now();
            server.kill();
            server.start_again();
            Blow::Crash { at, up: Instant::now() }
        }
        Strike::Backend => {
            let mut canary = server.connect();
            let at = Instant::now();
            eventually(seconds(20), "a killed backend takes all others with it", || {
                // the chosen process may have just ended
                server.signal(victim(server, database, what, random), libc::SIGKILL);
                (0..100)
                    .any(|_| {
                        canary.is_dead() || {
                            sleep(milliseconds(10));
                            false
                        }
                    })
                    .then_some(())
            });
            server.wait_until_up();
            Blow::Crash { at, up: Instant::now() }
        }
        Strike::Worker => {
            let pid = victim(server, database, what, random);
            let at = Instant::now();
            // as pg_terminate_backend does
            server.signal(pid, libc::SIGTERM);
            Blow::ClockTerminated { at }
        }
    }
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

/// I1, I7, B55: under load and crashes, no acknowledged call is lost, no task is settled twice, and
/// no two workers own one task at a time.
#[test]
fn crashes_under_load_lose_nothing_and_share_nothing() {
    let seed: u64 = std::env::var("SCYLLA_SEED")
        .map_or_else(|_| rand::random(), |seed| seed.parse().expect("a number"));
    println!("SCYLLA_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let persist =
        format!("scylla.persist_leases_after = '{} ms'", checker::PERSIST_AFTER.as_millis());
    let server = Server::start(&[&persist, "max_connections = 50"]);
    let database = server.database();
    let stop = AtomicBool::new(false);
    let mut blows = Vec::new();
    let (records, surprises) = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|n| {
                let load = Load::new(n, &database, seed);
                let stop = &stop;
                scope.spawn(move || load.run(stop))
            })
            .collect();
        // A failure below must still stop the clients, or the scope would wait for ever.
        let monkey = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            sleep(seconds(2));
            for what in strikes(&mut random) {
                blows.push(strike(&server, &database, what, &mut random));
                sleep(milliseconds(random.random_range(300..2200)));
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
        if let Err(panic) = monkey {
            std::panic::resume_unwind(panic);
        }
        (records, surprises)
    });
    let calls = records.len();
    drain(&database);
    let verdict = checker::check(&records, &blows, &final_rows(&database));
    println!(
        "{calls} calls, {} blows, {} tasks, {} settled, {} leases, {} seen alive after a crash",
        blows.len(),
        verdict.submits,
        verdict.settled,
        verdict.leases,
        verdict.survivors
    );
    let shown: Vec<&String> = verdict.violations.iter().take(10).collect();
    assert!(shown.is_empty(), "{} violations: {shown:#?}", verdict.violations.len());
    assert!(
        surprises.is_empty(),
        "{} unexpected errors: {:#?}",
        surprises.len(),
        &surprises[..surprises.len().min(10)]
    );
    assert!(
        verdict.submits > 1000 && verdict.settled > 500 && verdict.survivors > 10,
        "too little happened"
    );
    server.assert_log_is_clean();
}
