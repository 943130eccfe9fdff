//! Standbys that are promoted under load, and recovery to a time in the middle of it: I1, I7.

use crate::history::checker::PERSIST_AFTER;
use crate::history::log::{Call, Fault};
use crate::history::tail::{Tail, forget};
use crate::run::Run;
use crate::victim::{Seen, judge, summary, under_load};
use client::*;
use rand::RngExt;
use std::collections::HashSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

fn start(lines: &[&str]) -> Server {
    let persist = format!("scylla.persist_leases_after = '{} ms'", PERSIST_AFTER.as_millis());
    let ours = [&*persist, "max_connections = 50", "wal_keep_size = '512 MB'"];
    Server::start(&[&ours, lines].concat())
}

pub fn promote_synchronous(run: &mut Run) -> String {
    promote(run, true)
}

pub fn promote_asynchronous(run: &mut Run) -> String {
    promote(run, false)
}

/// Kills the primary and promotes its standby, again and again, while clients go on.
fn promote(run: &mut Run, is_synchronous: bool) -> String {
    let first = start(&[]);
    let database = first.database();
    let seed = run.seed;
    let (mut seen, (last, faults, tails)) = under_load(&database, seed, || {
        let (mut primary, mut faults, mut tails) = (first, Vec::new(), Vec::new());
        for _ in 0..run.times {
            let (standby, tail) = fail_over(&primary, run, is_synchronous);
            database.move_to(&standby);
            let up = Instant::now();
            faults.push(Fault::Crash { at: tail.from, up });
            tails.push(Tail { to: up, ..tail });
            primary = standby;
            run.made_one();
            run.pause();
        }
        (primary, faults, tails)
    });
    assert_no_token_twice(&seen);
    let lost = if is_synchronous { 0 } else { lose(&mut seen, &tails) };
    let verdict = judge(&database, &seen, &faults);
    last.assert_log_is_clean();
    let summary = summary(&seen, &verdict);
    if is_synchronous { summary } else { format!("{summary}; {lost} answers of a tail") }
}

/// Promotes a new standby after the primary was killed; from when on the primary's answers may be
/// lost.
fn fail_over(primary: &Server, run: &mut Run, is_synchronous: bool) -> (Server, Tail) {
    let standby = primary.standby();
    if is_synchronous {
        primary.configure("synchronous_standby_names", "*");
    }
    let mut p = primary.connect();
    let wanted = if is_synchronous { "sync" } else { "async" };
    let look = "select min(pid) from pg_stat_replication
                where state = 'streaming' and sync_state = $1";
    let sender: i32 =
        eventually(seconds(60), "the standby streams", || p.value::<Option<i32>>(look, &[&wanted]));
    drop(p);
    sleep(milliseconds(run.random.random_range(300..1500)));
    if !is_synchronous {
        primary.signal(sender, libc::SIGSTOP);
        sleep(milliseconds(run.random.random_range(0..500)));
    }
    let from = Instant::now();
    // The postmaster waits for each of its processes.
    primary.signal(sender, libc::SIGKILL);
    primary.kill();
    let mut s = standby.connect();
    assert!(s.value::<bool>("select pg_promote(wait => true, wait_seconds => 60)", &[]));
    let last = "select extract(epoch from pg_last_xact_replay_timestamp())::float8";
    let last: f64 = s.value(last, &[]);
    let from = if is_synchronous { from } else { from.min(at_time(last)) };
    (standby, Tail { from, to: Instant::now() })
}

/// Excuses what may be lost; how many answers that are. A task of a tail does not exist afterwards.
fn lose(seen: &mut Seen, tails: &[Tail]) -> usize {
    seen.surprises.retain(|it| !it.contains("EP0002"));
    forget(&mut seen.records, tails)
}

/// The instant of a time of the wall clock, in seconds.
fn at_time(time: f64) -> Instant {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
    Instant::now() - now.saturating_sub(Duration::from_secs_f64(time))
}

fn assert_no_token_twice(seen: &Seen) {
    let mut tokens = HashSet::new();
    for record in &seen.records {
        if let Call::Own { token, .. } = record.call {
            assert!(tokens.insert(token), "token {token} was handed out twice");
        }
    }
}

/// Recovers servers to a time in the middle of their load.
pub fn recover_to_a_time(run: &mut Run) -> String {
    let mut said = String::new();
    let mut dead = 0;
    for round in 0..run.times {
        let archive = "archive_command = 'mkdir -p archive && cp %p archive/%f'";
        let server = start(&["archive_mode = on", archive]);
        let database = server.database();
        let copy = server.backup(&[]);
        let (mut seen, (before, time, after)) = under_load(&database, run.seed, || {
            sleep(milliseconds(run.random.random_range(500..4000)));
            let before = Instant::now();
            let time = server.connect().text("select clock_timestamp()::text");
            let after = Instant::now();
            sleep(milliseconds(run.random.random_range(1500..4000)));
            (before, time, after)
        });
        archive_all(&server);
        server.stop("fast");
        let archived = server.path("archive").display().to_string();
        std::fs::write(copy.path("recovery.signal"), "").expect("a file in the copy");
        copy.start_with(&[
            &format!("restore_command = 'cp {archived}/%f %p'"),
            &format!("recovery_target_time = '{time}'"),
            "recovery_target_action = 'promote'",
            "archive_mode = off",
        ]);
        copy.wait_until_up();
        database.move_to(&copy);
        let up = Instant::now();
        dead += assert_dead(&database, &seen, after);
        lose(&mut seen, &[Tail { from: before, to: up }]);
        let verdict = judge(&database, &seen, &[Fault::Crash { at: before, up }]);
        copy.assert_log_is_clean();
        said = format!("of round {}: {}", round + 1, summary(&seen, &verdict));
        run.made_one();
    }
    format!("{dead} tokens are dead; {said}")
}

/// Waits until all that was written is in the archive.
fn archive_all(server: &Server) {
    let mut s = server.connect();
    let last = s.text("select pg_walfile_name(pg_current_wal_lsn())");
    s.run("select pg_switch_wal()");
    let look = "select coalesce(max(last_archived_wal), '') >= $1 from pg_stat_archiver";
    eventually(seconds(60), "the log is archived", || {
        s.value::<bool>(look, &[&last]).then_some(())
    });
}

/// Nothing is there that began after the chosen time, and no token of a later lease is valid; how
/// many tokens that are.
fn assert_dead(database: &Database, seen: &Seen, after: Instant) -> usize {
    let mut s = database.connect();
    let (mut submitted, mut leases) = (Vec::new(), Vec::new());
    for record in seen.records.iter().filter(|it| it.began > after) {
        match record.call {
            Call::Submit { id, .. } => submitted.push(id),
            Call::Own { id, token, .. } => leases.push((id, token)),
            _ => {}
        }
    }
    assert!(!leases.is_empty() && !submitted.is_empty(), "too little happened after that time");
    let there = "select count(*) from scylla.tasks where id = any ($1)";
    assert_eq!(s.value::<i64>(there, &[&submitted]), 0, "submitted after the chosen time");
    for (id, token) in &leases {
        let is_valid: bool = s.value("select scylla.extend($1, $2)", &[id, token]);
        assert!(!is_valid, "the token of a later lease is valid");
        let answer: Result<String, _> =
            s.try_value("select scylla.return_task($1, $2)", &[id, token]);
        let code = code(&answer.expect_err("a return with such a token"));
        assert!(["55000", "55006", "P0002"].contains(&code.as_str()), "{code}");
    }
    leases.len()
}
