//! A server under load from eight connections while it is tormented, and the verdict on what the
//! clients saw.

use crate::history::checker::{self, PERSIST_AFTER, Verdict};
use crate::history::log::{Fault, Record};
use crate::load::Load;
use crate::queues::{self, QUEUES, TICKS};
use crate::run::Run;
use client::*;
use rand::RngExt;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const CLIENTS: usize = 8;

/// A server that is tormented, and the database that its clients use.
pub struct Victim {
    pub server: Server,
    pub database: Database,
}

/// What the clients saw.
pub struct Seen {
    pub records: Vec<Record>,
    /// Errors that no fault explains.
    pub surprises: Vec<String>,
}

impl Victim {
    /// Starts a server with these lines in its configuration.
    pub fn start(lines: &[&str]) -> Victim {
        let persist = format!("scylla.persist_leases_after = '{} ms'", PERSIST_AFTER.as_millis());
        let server = Server::start(&[&[&*persist, "max_connections = 50"], lines].concat());
        let database = server.database();
        Victim { server, database }
    }

    /// One of the processes that a condition on `pg_stat_activity` finds. Waits while the server
    /// recovers.
    pub fn a_process(&self, condition: &str, run: &mut Run) -> i32 {
        let look = format!(
            "select array_agg(pid) from pg_stat_activity where pid <> pg_backend_pid() and {condition}"
        );
        eventually(seconds(20), "there is a process to end", || {
            let mut s = self.server.try_connect().ok()?;
            let pids: Vec<i32> = s.try_value::<Option<Vec<i32>>>(&look, &[]).ok()??;
            Some(pids[run.random.random_range(0..pids.len())])
        })
    }

    /// Kills a process with -9, which restarts all others; returns when a caller gets an answer
    /// again.
    pub fn kill(&self, condition: &str, run: &mut Run) -> Fault {
        let mut canary = self.server.connect();
        let at = Instant::now();
        eventually(seconds(20), "a killed process takes all others with it", || {
            // the chosen process may have just ended
            self.server.signal(self.a_process(condition, run), libc::SIGKILL);
            let is_dead = |_| canary.is_dead() || (sleep(milliseconds(10)), false).1;
            (0..100).any(is_dead).then_some(())
        });
        eventually(seconds(60), "a caller gets an answer", || {
            let mut s = self.database.try_connect().ok()?;
            s.try_own("canary", "canary", 1, "timeout => '1 s'").ok()
        });
        Fault::Crash { at, up: Instant::now() }
    }
}

/// The database is under load from its clients until `torment` returns.
pub fn under_load<T>(database: &Database, seed: u64, torment: impl FnOnce() -> T) -> (Seen, T) {
    queues::set_up(database);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|n| {
                let load = Load::new(n, database, seed);
                let stop = &stop;
                scope.spawn(move || load.run(stop))
            })
            .collect();
        // A failure must still stop the clients, or the scope would wait for ever.
        let tormented = catch_unwind(AssertUnwindSafe(|| {
            sleep(seconds(1));
            let answer = torment();
            sleep(seconds(1));
            answer
        }));
        stop.store(true, Ordering::Relaxed);
        let tormented = tormented.unwrap_or_else(|panic| resume_unwind(panic));
        let mut seen = Seen { records: Vec::new(), surprises: Vec::new() };
        for client in clients {
            let (more, strange) = client.join().expect("the client does not panic");
            seen.records.extend(more);
            seen.surprises.extend(strange);
        }
        (seen, tormented)
    })
}

/// The board must agree with the tables, what is left must be owned and completed, and no client
/// may have seen what is not promised.
pub fn judge(database: &Database, seen: &Seen, faults: &[Fault]) -> Verdict {
    let ticks = queues::end_ticks(database);
    database.connect().counts_agree(seconds(30));
    drain(database);
    let verdict = Verdict { ticks, ..checker::check(&seen.records, faults, &final_rows(database)) };
    assert_none("violations", &verdict.violations);
    assert_none("unexpected errors", &seen.surprises);
    assert!(verdict.submits > 100 && verdict.settled > 50, "too little happened");
    let crashes = faults.iter().filter(|it| matches!(it, Fault::Crash { .. })).count();
    assert!(crashes < 10 || verdict.survivors > 0, "no lease lived through any crash");
    verdict
}

/// Owns and completes tasks until all of them are settled.
fn drain(database: &Database) {
    let mut s = database.connect();
    let left = "select count(*) as all, string_agg(scylla.why(id), '; ') filter (where n < 4)
                from (select id, row_number() over (order by queue, id) as n from scylla.task) t";
    // What the scheduler could not write is set aside for a minute.
    let ends = Instant::now() + patience(seconds(120));
    loop {
        for queue in QUEUES.iter().map(|it| it.name).chain([TICKS]) {
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
        let row = s.query_one(left, &[]).expect("the tasks that are left");
        let (count, why): (i64, Option<String>) = (row.get(0), row.get(1));
        if count == 0 {
            return;
        }
        assert!(
            Instant::now() < ends,
            "{count} tasks are left, such as: {}",
            why.unwrap_or_default()
        );
        sleep(milliseconds(20));
    }
}

fn final_rows(database: &Database) -> HashMap<Uuid, Vec<String>> {
    let mut rows: HashMap<Uuid, Vec<String>> = HashMap::new();
    let look = "select id, status::text from scylla.tasks where queue <> $1";
    for row in database.connect().query(look, &[&TICKS]).unwrap() {
        rows.entry(row.get(0)).or_default().push(row.get(1));
    }
    rows
}

/// Torments a server under load as often as the run asks for, and judges what the clients saw.
/// Returns what happened.
pub fn torment(run: &mut Run, mut fault: impl FnMut(&Victim, &mut Run) -> Option<Fault>) -> String {
    let victim = Victim::start(&[]);
    let (seen, faults) = under_load(&victim.database, run.seed, || {
        let mut faults = Vec::new();
        for _ in 0..run.times {
            faults.extend(fault(&victim, run));
            run.made_one();
            run.pause();
        }
        faults
    });
    let verdict = judge(&victim.database, &seen, &faults);
    victim.server.assert_log_is_clean();
    summary(&seen, &verdict)
}

pub fn summary(seen: &Seen, verdict: &Verdict) -> String {
    format!(
        "{} calls, {} tasks, {} settled, {} leases, {} of them alive after a crash; {} runs",
        seen.records.len(),
        verdict.submits,
        verdict.settled,
        verdict.leases,
        verdict.survivors,
        verdict.ticks
    )
}

pub fn assert_none(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{} {what}, such as {}", found.len(), found[0]);
}

/// The longest of these times. Asserts that the shortest is within a limit: a busy machine may
/// delay any of them, and the code delays all of them or none.
pub fn soon_enough(times: &[Duration], limit: Duration) -> Duration {
    let fastest = times.iter().min().copied().unwrap_or_default();
    assert!(fastest <= limit, "{times:?}, and {limit:?} may be");
    times.iter().max().copied().unwrap_or_default()
}
