//! Delays: when a delayed task becomes ready, and what the scheduler does for it.

use client::*;
use std::time::Instant;

/// How late a task may become ready while others keep the machine busy.
const LATE: f64 = 30.0;

/// When the tasks of a queue became ready, in seconds after their `run_at`; empty if they still
/// wait.
fn lateness(s: &mut Session, queue: &str) -> Vec<f64> {
    let look = "select extract(epoch from updated - run_at)::float8 from scylla.tasks
                where queue = $1 and status <> 'waiting' order by run_at";
    s.query(look, &[&queue]).expect("lateness").iter().map(|row| row.get(0)).collect()
}

fn waiting(s: &mut Session, queue: &str) -> i64 {
    s.value("select count(*) from scylla.tasks where status = 'waiting' and queue = $1", &[&queue])
}

#[track_caller]
fn until_none_waits(s: &mut Session, queue: &str) {
    eventually(seconds(20), "none waits any more", || (waiting(s, queue) == 0).then_some(()));
}

/// B80, B81, B114: tasks fire neither early nor late, in any order of submission.
#[test]
fn tasks_fire_at_their_time() {
    let database = database();
    let mut s = database.connect();
    let submit = "select count(*) from scylla.submit_tasks((
        select jsonb_agg(jsonb_build_object('queue', 'q', 'run_at',
            clock_timestamp() + interval '1 second' * (2 + 1.5 * (n * 7 % 20) / 20)))
        from generate_series(1, 20) n))";
    assert_eq!(s.count(submit), 20);
    assert_eq!(waiting(&mut s, "q"), 20);
    assert!(s.own("w", "q", 20).is_empty());
    until_none_waits(&mut s, "q");
    let lateness = lateness(&mut s, "q");
    assert!(lateness.iter().all(|late| (0.0..LATE).contains(late)), "{lateness:?}");
    assert_eq!(s.own("w", "q", 20).len(), 20);
}

/// A task with an earlier time wakes the scheduler from a longer sleep. B62: only the database's
/// clock counts.
#[test]
fn an_earlier_time_wakes_the_scheduler() {
    let server =
        Server::start(&["scylla.sweep_interval = '1h'", "scylla.persist_leases_after = '1h'"]);
    let database = server.database();
    let mut s = database.connect();
    s.submit_with("q", "run_at => clock_timestamp() + interval '1 hour'");
    sleep(milliseconds(300));
    let submitted = Instant::now();
    let soon = s.submit_with("q", "run_at => clock_timestamp() + interval '300 ms'");
    eventually(seconds(10), "it fires", || (s.status(soon) == "ready").then_some(()));
    assert!(submitted.elapsed() > milliseconds(250));
    // advanced while the scheduler sleeps for another hour
    let brought = s.submit_with("q", "run_at => clock_timestamp() + interval '50 minutes'");
    assert!(s.value::<bool>(
        "select scylla.delay($1, clock_timestamp() + interval '200 ms')",
        &[&brought]
    ));
    eventually(seconds(10), "it fires", || (s.status(brought) == "ready").then_some(()));
    let both: Vec<Uuid> = s.own("w", "q", 5).iter().map(|lease| lease.id).collect();
    assert_eq!(both, [soon, brought]);
    // the scheduler reads changed settings within a second, even while it sleeps for an hour
    s.run("alter system set scylla.timing_advance = '59min'");
    s.run("select pg_reload_conf()");
    let advanced =
        s.submit_with("q", "run_at => clock_timestamp() + interval '59 minutes 2 seconds'");
    eventually(seconds(10), "it fires early", || (s.status(advanced) == "ready").then_some(()));
    let late = lateness(&mut s, "q").pop().expect("it fired");
    assert!((-3540.0..-3540.0 + LATE).contains(&late), "B81: at its time less the advance: {late}");
    // a task due within the advance is ready at once
    let at_once = s.submit_with("q", "run_at => clock_timestamp() + interval '58 minutes'");
    assert_eq!(s.status(at_once), "ready");
}

/// I1: waiting tasks fire after a restart of the server, and after the scheduler has ended.
#[test]
fn waiting_tasks_outlive_the_scheduler_and_the_server() {
    let server = Server::start(&["scylla.sweep_interval = '1h'"]);
    let database = server.database();
    let mut s = database.connect();
    let first = s.submit_with("q", "run_at => clock_timestamp() + interval '700 ms'");
    server.terminate_scheduler(&database);
    eventually(seconds(10), "it fires", || (s.status(first) == "ready").then_some(()));
    let second = s.submit_with("q", "run_at => clock_timestamp() + interval '500 ms'");
    server.kill();
    server.start_again();
    let mut s = database.connect();
    eventually(seconds(10), "it fires", || (s.status(second) == "ready").then_some(()));
    assert_eq!(s.own("w", "q", 9).len(), 2);
    // `refresh` finds a task that an administrator made due
    let third = s.submit_with("q", "run_at => clock_timestamp() + interval '1 hour'");
    s.run("update scylla.task set due = now()");
    s.run("select scylla.refresh()");
    eventually(seconds(10), "it fires", || (s.status(third) == "ready").then_some(()));
}

/// The scheduler's periodic scan finds a due task that the board does not know.
#[test]
fn the_sweep_finds_a_task_unknown_to_the_board() {
    let database = database();
    let mut s = database.connect();
    let id = s.submit_with("q", "run_at => clock_timestamp() + interval '1 hour'");
    s.run("update scylla.task set due = now()");
    eventually(seconds(10), "it fires", || (s.status(id) == "ready").then_some(()));
}

/// I10: a locked row delays no other task, and its task fires soon after the lock is released.
#[test]
fn a_locked_task_delays_no_other() {
    let server = Server::start(&["scylla.sweep_interval = '1h'"]);
    let database = server.database();
    let (mut s, mut holder) = (database.connect(), database.connect());
    let locked = s.submit_with("locked", "run_at => clock_timestamp() + interval '2 s'");
    holder.run("begin");
    holder.run(&format!("select from scylla.task where id = '{locked}' for update"));
    s.run("select from scylla.submit_tasks((
        select jsonb_agg(jsonb_build_object('queue', 'q', 'run_at', clock_timestamp() + interval '1 ms' * (2100 + n)))
        from generate_series(1, 300) n))");
    until_none_waits(&mut s, "q");
    let lateness = lateness(&mut s, "q");
    assert!(lateness.iter().all(|late| *late < LATE), "{:?}", lateness.last());
    assert_eq!(s.status(locked), "waiting");
    holder.run("commit");
    // In quarantine it would wait for a minute.
    eventually(seconds(2), "it fires", || (s.status(locked) == "ready").then_some(()));
}

/// I10: a row that cannot be written is quarantined and named in the log. All others fire at full
/// speed.
#[test]
fn a_bad_row_stops_no_other() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    s.run(
        "create function public.refuse(action text, updated timestamptz, created timestamptz)
             returns boolean language plpgsql immutable as $$ begin
                 if action = 'bad' and updated > created then raise exception 'no'; end if;
                 return true;
             end $$;
         create index refuse on scylla.task (public.refuse(action, updated, created))",
    );
    let bad =
        s.submit_with("q", "action => 'bad', run_at => clock_timestamp() + interval '300 ms'");
    s.run("select from scylla.submit_tasks((
        select jsonb_agg(jsonb_build_object('queue', 'q', 'run_at', clock_timestamp() + interval '300 ms'))
        from generate_series(1, 3000) n))");
    eventually(seconds(20), "all but it fire", || (waiting(&mut s, "q") == 1).then_some(()));
    assert_eq!(s.status(bad), "waiting");
    assert!(server.log().contains(&format!("scylla could not fire task {bad}")));
    server.assert_log_is_clean();
}

/// A backlog fires 1,000 tasks at a time, in due order; none is lost or fired twice.
#[test]
fn a_backlog_fires_once_each() {
    let database = database();
    let mut s = database.connect();
    s.run("select from scylla.submit_tasks((
        select jsonb_agg(jsonb_build_object('queue', 'q', 'run_at', date_trunc('second', clock_timestamp()) + interval '2 s'))
        from generate_series(1, 5000) n))");
    until_none_waits(&mut s, "q");
    assert_eq!(s.count("select count(*) from scylla.task where due is not null"), 0);
    let owned: std::collections::HashSet<Uuid> =
        s.own("w", "q", 9_999).iter().map(|lease| lease.id).collect();
    assert_eq!(owned.len(), 5_000);
    assert!(s.own("w", "q", 1).is_empty());
}

/// A task with predecessors and a time becomes due at its time, once the predecessors have settled.
#[test]
fn a_task_waits_for_others_and_for_its_time() {
    let server = Server::start(&["scylla.sweep_interval = '1h'"]);
    let database = server.database();
    let mut s = database.connect();
    let first = s.submit("first");
    let after = format!("after => array['{first}'::uuid]");
    let soon =
        s.submit_with("q", &format!("{after}, run_at => clock_timestamp() + interval '4 s'"));
    let past = s.submit_with("q", &format!("{after}, run_at => clock_timestamp()"));
    let never = s.submit_with("q", &after);
    for (id, until) in [(never, "1 hour"), (past, "0")] {
        let delayed = format!("select scylla.delay($1, clock_timestamp() + interval '{until}')");
        assert!(s.value::<bool>(&delayed, &[&id]));
        assert_eq!(s.status(id), "waiting");
    }
    let lease = s.own_one("first");
    s.complete(&lease);
    let status = [soon, past, never].map(|id| s.status(id));
    assert_eq!(status, ["waiting", "ready", "waiting"]);
    eventually(seconds(10), "it fires", || (s.status(soon) == "ready").then_some(()));
    assert_eq!((s.own("w", "q", 9).len(), s.status(never)), (2, "waiting".to_owned()));
}
