//! What time does to a server: old snapshots, many transactions, and minutes of full load: I1.

use crate::run::Run;
use crate::victim::{Victim, judge, summary, under_load};
use client::*;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Owns and returns tasks one by one for a while; how long each took.
fn cycles(s: &mut Session, length: Duration) -> Vec<Duration> {
    let mut took = Vec::new();
    let ends = Instant::now() + length;
    while Instant::now() < ends {
        s.submit("q");
        let began = Instant::now();
        let lease = s.own_one("q");
        s.complete(&lease);
        took.push(began.elapsed());
    }
    took
}

fn p99(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() * 99 / 100]
}

/// Holds a snapshot, and compares a database with that snapshot with one without it, in turns.
pub fn hold_a_snapshot(run: &mut Run) -> String {
    const MOST: f64 = 1.2;
    let server = Server::start(&["fsync = off"]);
    let (old, new) = (server.database(), server.database());
    let (mut holder, mut with, mut without) = (old.connect(), old.connect(), new.connect());
    for s in [&mut with, &mut without] {
        s.submit_many("other", 10_000);
        cycles(s, seconds(1));
    }
    holder.run("set idle_in_transaction_session_timeout = 0");
    holder.run("begin isolation level repeatable read");
    holder.count("select count(*) from scylla.task");
    let (mut tasks, mut held, mut free) = (0, Vec::new(), Vec::new());
    let ends = Instant::now() + seconds(run.times as u64);
    while Instant::now() < ends {
        for (s, all) in [(&mut with, &mut held), (&mut without, &mut free)] {
            let mut times = cycles(s, milliseconds(500));
            tasks += times.len();
            all.push(p99(&mut times));
        }
    }
    holder.run("commit");
    run.made_one();
    // Of the last half, when dead rows have piled up; the median, since other programs run here,
    // too.
    let middle = |all: &[Duration]| {
        let mut late = all[all.len() / 2..].to_vec();
        late.sort();
        late[late.len() / 2].as_secs_f64() * 1e3
    };
    let (held, free) = (middle(&held), middle(&free));
    let ratio = held / free;
    let text = format!(
        "{tasks} tasks; p99 beside the snapshot {held:.2} ms, without it {free:.2} ms, {ratio:.2} times"
    );
    assert!(ratio <= MOST, "{text}");
    text
}

/// Burns transaction ids under load, and freezes all tables.
pub fn burn_transactions(run: &mut Run) -> String {
    let victim = Victim::start(&["fsync = off"]);
    let mut s = victim.database.connect();
    s.run("set statement_timeout = 0");
    s.submit("held");
    let held = s.own_one_with("held", "timeout => '1 day'");
    let epoch = "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint";
    let before = s.count(epoch);
    let (seen, ()) = under_load(&victim.database, run.seed, || {
        s.run("create table burnt (n int)");
        for _ in 0..run.times {
            // each block that writes has a transaction id of its own
            s.run(
                "do $$ begin
                     for n in 1..10000 loop
                         begin insert into burnt values (n); exception when others then raise; end;
                     end loop; end $$; truncate burnt",
            );
            run.made_one();
        }
        s.run("vacuum freeze");
    });
    let burnt = s.count(epoch) - before;
    s.run("vacuum freeze");
    s.complete(&held);
    assert_eq!(s.delete(&[held.id]), 1);
    let verdict = judge(&victim.database, &seen, &[]);
    s.run("vacuum freeze");
    assert!(s.check_indexes("i.indrelid::regclass::text ~ '^scylla.'") > 5);
    victim.server.assert_log_is_clean();
    assert!(burnt > run.times as i64 * 10_000, "{burnt} transaction ids");
    format!("{burnt} transaction ids; {}", summary(&seen, &verdict))
}

/// The memory that each process of the server has of its own, in kB.
fn memory(s: &mut Session) -> HashMap<i32, i64> {
    let look = "select pid from pg_stat_activity
                where backend_type = 'client backend' or backend_type like 'scylla%'";
    let rows = s.query(look, &[]).expect("pg_stat_activity");
    rows.iter().map(|row| row.get(0)).filter_map(|pid| Some((pid, own_memory(pid)?))).collect()
}

/// How many bytes the table of live tasks and its indexes take for each task.
const SIZE: &str =
    "select pg_total_relation_size('scylla.task') / greatest(count(*), 1000) from scylla.task";

/// Full load: neither the memory of a process nor the room that a live task takes grows after the
/// first part.
pub fn soak(run: &mut Run) -> String {
    const MOST: i64 = 1024;
    let victim = Victim::start(&["autovacuum_naptime = '5 s'"]);
    let mut watch = victim.server.connect();
    let mut s = victim.database.connect();
    let (seen, (before, after)) = under_load(&victim.database, run.seed, || {
        let length = seconds(run.times as u64);
        let mut look = || (memory(&mut watch), s.count(SIZE));
        sleep(length / 5);
        let before = look();
        sleep(length * 4 / 5);
        (before, look())
    });
    run.made_one();
    let grown: Vec<(i32, i64)> = (before.0.iter())
        .filter_map(|(pid, before)| Some((*pid, after.0.get(pid)? - before)))
        .collect();
    assert!(grown.len() > 8, "the processes live on: {grown:?}");
    let most = grown.iter().map(|it| it.1).max().unwrap_or(0);
    assert!(most <= MOST, "processes have grown by so many kB: {grown:?}");
    let bloat = after.1 as f64 / before.1 as f64;
    assert!(bloat <= 1.5, "a live task took {} bytes, and takes {}", before.1, after.1);
    let verdict = judge(&victim.database, &seen, &[]);
    let checked = s.check_indexes("i.indrelid::regclass::text ~ '^scylla.'");
    assert!(checked > 5, "{checked} indexes");
    victim.server.assert_log_is_clean();
    format!(
        "{}; {most} kB more in a process, {bloat:.2} times the size, {checked} indexes in order",
        summary(&seen, &verdict)
    )
}
