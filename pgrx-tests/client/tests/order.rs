//! Groups in order: with a limit of 1 the tasks of a group run in the order of their submission.

use client::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A queue q that keeps the order.
fn keep_order(s: &mut Session) {
    s.run("select scylla.configure_queue('q', max_running_per_group => 1)");
}

fn submit(s: &mut Session, options: &str) -> Uuid {
    s.submit_with("q", &format!("group_key => 'a', {options}"))
}

fn why(s: &mut Session, id: Uuid) -> String {
    s.value("select scylla.why($1)", &[&id])
}

/// Owns the next task, which is this one, and completes it.
fn run_next(s: &mut Session, id: Uuid) {
    let leases = s.own("w", "q", 9);
    assert_eq!(leases.iter().map(|it| it.id).collect::<Vec<_>>(), [id]);
    s.complete(&leases[0]);
}

fn nothing_runs(s: &mut Session) {
    assert!(s.own("w", "q", 9).is_empty());
}

/// B133: a call gets fewer tasks than it asks for while the scheduler brings groups forward, but
/// some, and calls one after the other get one of each group, as long as any has one.
#[test]
fn calls_get_the_groups_that_are_forward() {
    let database = database();
    let mut s = database.connect();
    keep_order(&mut s);
    let groups: Vec<String> = (0..1_000).map(|n| format!("group {n}")).collect();
    let sql =
        "select scylla.submit_many('q', array_fill('{}'::jsonb, array[1000]), group_keys => $1)";
    for round in 0..3 {
        s.value::<Vec<Uuid>>(sql, &[&groups]);
        let mut counts = Vec::new();
        while counts.iter().sum::<usize>() < 1_000 {
            let leases = s.own_with("w", "q", 1_000, "timeout => '1 h'");
            assert!(!leases.is_empty(), "round {round}, after {counts:?}");
            counts.push(leases.len());
        }
        println!("{counts:?}");
        let each = "select count(distinct group_key) from scylla.tasks where status = 'running'";
        assert_eq!((counts.iter().sum(), s.count(each)), (1_000, 1_000));
        nothing_runs(&mut s);
        s.run("select scylla.cancel(id) from scylla.tasks where status = 'running'");
    }
}

/// B133: the order is that of submission, whatever priorities and actions, with a group and without
/// one; a group competes with the priority of its first task.
#[test]
fn a_group_runs_in_the_order_of_submission() {
    let database = database();
    let mut s = database.connect();
    keep_order(&mut s);
    for group in ["null", "'a'"] {
        let mut submitted = Vec::new();
        for (priority, action) in [(1, "x"), (9, "y"), (0, "x"), (5, "")] {
            let options =
                format!("group_key => {group}, priority => {priority}, action => '{action}'");
            submitted.push(s.submit_with("q", &options));
        }
        for id in &submitted {
            run_next(&mut s, *id);
        }
    }
    submit(&mut s, "priority => 3");
    submit(&mut s, "priority => 9");
    let other = s.submit_with("q", "group_key => 'b', priority => 4");
    // The scheduler brings it forward a moment after the commit.
    let is_first = "select not behind from scylla.task where id = $1";
    eventually(seconds(5), "it is first", || s.value::<bool>(is_first, &[&other]).then_some(()));
    let lease = s.own_one("q");
    assert_eq!(lease.id, other, "4 goes before 3, which is before 9 in its group");
    assert_eq!(s.own("w", "q", 9).len(), 1, "one of a group at a time");
}

/// B133: what waits before it was ever ready holds up none; then it takes the place of its
/// submission.
#[test]
fn a_task_takes_its_place_when_it_is_first_ready() {
    let database = database();
    let mut s = database.connect();
    keep_order(&mut s);
    let before = s.submit("other");
    let due = submit(&mut s, "run_at => clock_timestamp() + interval '3 s'");
    let dependent = submit(&mut s, &format!("after => array['{before}'::uuid]"));
    let far = submit(&mut s, "run_at => '2100-01-01Z'");
    let tasks = [submit(&mut s, "priority => 1"), submit(&mut s, "priority => 2")];
    run_next(&mut s, tasks[0]);
    let lease = s.own_one("other");
    s.complete(&lease);
    // Then the dependent one, which is ready since before, is behind it.
    let is_behind = "select behind from scylla.task where id = $1";
    eventually(seconds(10), "it is due", || {
        (s.status(due) == "ready" && s.value(is_behind, &[&dependent])).then_some(())
    });
    for id in [due, dependent, tasks[1]] {
        run_next(&mut s, id);
    }
    nothing_runs(&mut s);
    assert_eq!(s.status(far), "waiting");
}

/// B133: the group waits for a task that was ready: through a yield, an expiry, a retry with a
/// pause and a delay. When it is aborted or cancelled, or waits for others, the next one runs.
#[test]
fn a_task_keeps_its_place() {
    let database = database();
    let mut s = database.connect();
    keep_order(&mut s);
    let tasks: Vec<Uuid> = (0..6).map(|n| submit(&mut s, &format!("priority => {n}"))).collect();
    let lease = s.own_one("q");
    s.return_task(&lease, "yield").expect("a lease");
    let lease = s.own_one_with("q", "timeout => '200 ms'");
    assert_eq!(lease.id, tasks[0]);
    eventually(seconds(10), "it expires", || (s.tasks("running") == 0).then_some(()));
    let lease = s.own_one("q");
    assert_eq!(lease.id, tasks[0]);
    let sql = "select scylla.return_task($1, $2, 'retry',
                   run_at => clock_timestamp() + interval '2 s')";
    assert_eq!(s.value::<String>(sql, &[&lease.id, &lease.token]), "waiting");
    nothing_runs(&mut s);
    let because = why(&mut s, tasks[1]);
    assert!(because.contains(&tasks[0].to_string()) && because.contains("due in"), "{because}");
    eventually(seconds(10), "it is due", || (s.status(tasks[0]) == "ready").then_some(()));
    run_next(&mut s, tasks[0]);

    let delay = "select scylla.delay($1, clock_timestamp() + $2::text::interval)";
    let mut other = database.connect();
    s.run("begin");
    assert!(s.value::<bool>(delay, &[&tasks[1], &"1 h"]));
    assert!(other.own("w", "q", 9).is_empty(), "it is not decided yet");
    s.run("rollback");
    assert!(s.value::<bool>(delay, &[&tasks[1], &"1 h"]));
    nothing_runs(&mut s);
    assert!(s.value::<bool>(delay, &[&tasks[1], &"2 h"]));
    nothing_runs(&mut s);
    assert!(s.value::<bool>(delay, &[&tasks[1], &"-1 s"]));
    let lease = s.own_one("q");
    assert_eq!(lease.id, tasks[1]);
    let sql = "select scylla.return_task($1, $2, 'aborted', error => '\"no\"')";
    s.value::<String>(sql, &[&lease.id, &lease.token]);

    assert!(s.value::<bool>(delay, &[&tasks[2], &"1 h"]));
    nothing_runs(&mut s);
    s.cancel(tasks[2]);
    let elsewhere = s.submit("other");
    s.link(elsewhere, tasks[3]).expect("a link");
    run_next(&mut s, tasks[4]);
    assert!(s.value::<bool>(delay, &[&tasks[5], &"1 h"]));
    s.link(elsewhere, tasks[5]).expect("a link");
    let last = submit(&mut s, "priority => 0");
    run_next(&mut s, last);
    let lease = s.own_one("other");
    s.complete(&lease);
    run_next(&mut s, tasks[3]);
    assert_eq!(s.status(tasks[5]), "waiting", "its time has not come");
    assert_eq!(s.count("select scylla.cancel_group('q', 'a')"), 1);
}

/// B133: a group whose first task has an action that no worker asks for waits for one that does,
/// and `why` says so; other groups do not.
#[test]
fn a_group_waits_for_a_worker_of_its_first_action() {
    let database = database();
    let mut s = database.connect();
    keep_order(&mut s);
    let first = submit(&mut s, "action => 'rare'");
    let second = submit(&mut s, "action => 'often'");
    let other = s.submit_with("q", "action => 'often', group_key => 'b'");
    let own = |s: &mut Session, action: &str| {
        let leases = s.own_with("w", "q", 9, &format!("actions => array['{action}']"));
        leases.into_iter().map(|it| it.id).collect::<Vec<_>>()
    };
    assert_eq!(own(&mut s, "often"), [other]);
    let because = why(&mut s, second);
    assert!(because.contains(&first.to_string()) && because.contains("\"rare\""), "{because}");
    let because = why(&mut s, first);
    assert!(because.contains("turn of its group"), "{because}");
    assert_eq!(s.refused(&format!("select scylla.own_task('{second}', 'w')")), "55000");
    assert_eq!(own(&mut s, "rare"), [first]);
    assert!(own(&mut s, "often").is_empty());
    let because = why(&mut s, second);
    assert!(because.contains("max_running_per_group"), "{because}");
    s.cancel(first);
    assert_eq!(own(&mut s, "often"), [second]);
}

/// B133: a task that commits after a younger one was taken runs next, and a transaction owns the
/// next one of a group whose task it completes, not of one that it yields.
#[test]
fn transactions_keep_the_order() {
    let database = database();
    let (mut s, mut other) = (database.connect(), database.connect());
    keep_order(&mut s);
    other.run("begin");
    let oldest = submit(&mut other, "priority => 0");
    let tasks: Vec<Uuid> = (0..3).map(|_| submit(&mut s, "priority => 1")).collect();
    let lease = s.own_one("q");
    assert_eq!(lease.id, tasks[0]);
    other.run("commit");
    nothing_runs(&mut s);
    s.run("begin");
    s.return_task(&lease, "yield").expect("a lease");
    nothing_runs(&mut s);
    s.run("rollback");
    s.run("begin");
    s.complete(&lease);
    let next = s.own("w", "q", 9);
    assert_eq!(next.iter().map(|it| it.id).collect::<Vec<_>>(), [oldest]);
    assert!(other.own("w", "q", 9).is_empty());
    s.run("commit");
    s.complete(&next[0]);
    run_next(&mut s, tasks[1]);
    run_next(&mut s, tasks[2]);
}

/// B133, I4: after a crash, and on a board without room, groups with nothing but a task that keeps
/// its place wait for it, and each group's tasks come in order.
#[test]
fn a_rebuild_and_a_full_board_keep_the_order() {
    let server = Server::start(&["scylla.board_size = 64"]);
    let database = server.database();
    let mut s = database.connect();
    keep_order(&mut s);
    let keys: Vec<String> = (0..100).map(|n| format!("group {n}")).collect();
    let groups: Vec<&str> = keys.iter().map(String::as_str).collect();
    let all = "select scylla.submit_many('q', array_fill('{}'::jsonb, array[100]),
                   group_keys => $1, action => $2, priority => $3)";
    let first: Vec<Uuid> = s.value(all, &[&groups, &"x", &0_i64]);
    for id in &first[..50] {
        s.value::<bool>("select scylla.delay($1, now() + interval '1 h')", &[id]);
    }
    server.kill();
    server.start_again();
    let mut s = database.connect();
    // The groups of those that wait are known to the board again before these come.
    let second: Vec<Uuid> = s.value(all, &[&groups, &"y", &7_i64]);
    s.value::<Vec<Uuid>>(all, &[&groups, &"x", &3_i64]);
    let own = |s: &mut Session, actions: &str| -> Vec<Uuid> {
        let mut owned = Vec::new();
        loop {
            let leases = s.own_with("w", "q", 9, &format!("actions => {actions}"));
            if leases.is_empty() {
                return owned;
            }
            for lease in leases {
                owned.push(lease.id);
                s.complete(&lease);
            }
        }
    };
    assert!(own(&mut s, "array['y']").is_empty(), "others come first");
    let mut ran = own(&mut s, "array['x']");
    ran.sort();
    let mut expected = first[50..].to_vec();
    expected.sort();
    assert_eq!(ran, expected);
    let mut ran = own(&mut s, "array['y']");
    ran.sort();
    let mut expected = second[50..].to_vec();
    expected.sort();
    assert_eq!(ran, expected);
    assert_eq!(own(&mut s, "null").len(), 50);
    for id in &first[..50] {
        s.value::<bool>("select scylla.delay($1, now() - interval '1 s')", &[id]);
    }
    assert_eq!(own(&mut s, "null").len(), 150);
    assert_eq!(s.count("select count(*) from scylla.task"), 0, "none is stranded");
}

/// B133: a limit that is set to 1 keeps the order from then on, and one that is raised ends that.
#[test]
fn the_order_begins_and_ends_with_the_limit() {
    let database = database();
    let mut s = database.connect();
    let low = submit(&mut s, "priority => 1");
    let high = submit(&mut s, "priority => 2");
    let held = submit(&mut s, "priority => 3");
    let lease = s.own_one("q");
    assert_eq!(lease.id, held);
    let sql = "select scylla.return_task($1, $2, 'retry', run_at => now() + interval '1 h')";
    s.value::<String>(sql, &[&lease.id, &lease.token]);
    keep_order(&mut s);
    let lease = s.own_one("q");
    assert_eq!(lease.id, low);
    s.run("select scylla.reset_queue('q', 'max_running_per_group')");
    let next = s.own_one("q");
    assert_eq!(next.id, high);
    keep_order(&mut s);
    let last = submit(&mut s, "priority => 0");
    s.complete(&lease);
    nothing_runs(&mut s);
    s.complete(&next);
    nothing_runs(&mut s);
    s.cancel(held);
    run_next(&mut s, last);
}

/// Which groups there are, and what bad settings are refused.
#[test]
fn looking_at_groups() {
    let database = database();
    let mut s = database.connect();
    for (group, count) in [("'a'", 3), ("'b'", 1), ("null", 2)] {
        for _ in 0..count {
            s.submit_with("q", &format!("group_key => {group}"));
        }
    }
    s.submit_with("q", "group_key => 'c', run_at => '2100-01-01Z'");
    let leases = s.own("w", "q", 3);
    assert_eq!(leases.len(), 3);
    let sql =
        "select concat_ws(' ', group_key, ready, running, oldest_ready < '1 h') from scylla.groups
               where queue = 'q' order by group_key";
    let rows = s.query(sql, &[]).expect("rows");
    let rows: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(rows, ["a 2 1 t", "b 0 1"]);
    let refused = |s: &mut Session, most: &str| {
        s.refused(&format!("select scylla.configure_queue('q', max_running_per_group => {most})"))
    };
    assert_eq!(refused(&mut s, "0"), "22023");
    assert_eq!(refused(&mut s, "-1"), "22023");
    s.run("select scylla.configure_queue('q', max_running_per_group => null)");
}

/// One run of a task.
#[derive(Clone, Copy)]
struct Run {
    group: usize,
    /// The task's place in its group.
    place: usize,
    asked: Instant,
    /// When its worker had it.
    began: Instant,
    /// When its worker began to return it; `None`: the server was killed before.
    ended: Option<Instant>,
}

const WORKERS: usize = 64;
const GROUPS: usize = 60;
const TASKS: usize = 20;

fn work(database: &Database, n: usize, log: &Mutex<Vec<Run>>) {
    let left = "select count(*) from scylla.task";
    'connected: loop {
        let Ok(mut s) = database.try_connect() else {
            sleep(milliseconds(20));
            continue;
        };
        for round in n.. {
            let asked = Instant::now();
            let Ok(leases) = s.try_own("w", "q", 1 + (round % 3) as i32, "timeout => '10 s'")
            else {
                continue 'connected;
            };
            let began = Instant::now();
            if leases.is_empty() {
                match s.try_value::<i64>(left, &[]) {
                    Ok(0) => return,
                    Ok(_) => sleep(milliseconds(20)),
                    Err(_) => continue 'connected,
                }
                continue;
            }
            sleep(milliseconds(2));
            let note = |lease: &Lease, ended| {
                let number = lease.spec.as_u64().expect("a number") as usize;
                let (group, place) = (number % GROUPS, number / GROUPS);
                log.lock().expect("a log").push(Run { group, place, asked, began, ended });
            };
            for (at, lease) in leases.iter().enumerate() {
                let ended = Instant::now();
                let (outcome, run_at) = match (round + at) % 6 {
                    0 => ("yield", "null"),
                    1 => ("retry", "clock_timestamp() + interval '30 ms'"),
                    2 => ("retry", "null"),
                    _ => ("completed", "null"),
                };
                let sql =
                    format!("select scylla.return_task($1, $2, '{outcome}', run_at => {run_at})");
                let answer = s.try_value::<String>(&sql, &[&lease.id, &lease.token]);
                let lost = answer.as_ref().is_err_and(is_lost);
                note(lease, Some(ended));
                if lost {
                    leases[at + 1..].iter().for_each(|lease| note(lease, None));
                    continue 'connected;
                }
            }
        }
    }
}

/// B132, B133, I1: 64 workers own, return, yield and retry, and the server is killed twice: of no
/// group do two tasks run at a time, and each runs its tasks in order.
#[test]
fn workers_and_crashes_break_no_order() {
    let server = Server::start(&[
        "max_connections = 120",
        "scylla.persist_leases_after = 0",
        "scylla.retry_interval = '10 ms'",
        "scylla.max_tries = 0",
    ]);
    let database = server.database();
    let mut s = database.connect();
    keep_order(&mut s);
    let sql = "select scylla.submit_many('q', array_agg(to_jsonb(n) order by n), priority => $3,
                   group_keys => array_agg('group ' || n % $2::integer order by n))
               from generate_series($2 * $1::integer, $2 * ($1 + 1) - 1) n";
    for place in 0..TASKS as i32 {
        let priority = i64::from(place % 4);
        s.value::<Vec<Uuid>>(sql, &[&place, &(GROUPS as i32), &priority]);
    }
    drop(s);
    let (log, mut kills) = (Mutex::new(Vec::new()), Vec::new());
    std::thread::scope(|scope| {
        let (database, log) = (&database, &log);
        for n in 0..WORKERS {
            scope.spawn(move || work(database, n, log));
        }
        for third in 1..=2 {
            eventually(seconds(120), "a part is done", || {
                (log.lock().expect("a log").len() > third * GROUPS * TASKS / 3).then_some(())
            });
            server.kill();
            kills.push(Instant::now());
            server.start_again();
        }
    });
    let mut log = log.into_inner().expect("a log");
    for run in log.iter_mut().filter(|run| run.ended.is_none()) {
        // The answer may have come just before the kill, and the worker read it after.
        let killed = kills.iter().copied().find(|at| *at >= run.asked).expect("a kill");
        (run.began, run.ended) = (run.began.min(killed), Some(killed));
    }
    log.sort_by_key(|run| run.began);
    let mut groups: BTreeMap<usize, (usize, Option<Instant>)> = BTreeMap::new();
    for Run { group, place, began, ended, .. } in log.iter().copied() {
        let (last, until) = groups.get(&group).copied().unwrap_or((0, None));
        assert!(place == last || place == last + 1, "group {group}: {place} after {last}");
        assert!(until.is_none_or(|until| until <= began), "group {group}: {place} beside {last}");
        groups.insert(group, (place, ended));
    }
    assert_eq!(groups.len(), GROUPS);
    assert!(groups.values().all(|it| it.0 == TASKS - 1));
    println!("{} runs of {} tasks", log.len(), GROUPS * TASKS);
}

/// Owns the first tasks of `groups` groups, some at a time, and returns them to be tried in an
/// hour; `between` is called in the middle.
fn every_first_task_once(
    s: Session,
    groups: i32,
    most: i32,
    mut between: impl FnMut(Session) -> Session,
) {
    let mut s = s;
    keep_order(&mut s);
    for place in 0..2 {
        let sql = "select scylla.submit_many('q', array_agg('{}'::jsonb),
                       group_keys => array_agg($1 || ' ' || n order by n))
                   from generate_series(1, $2::integer) n";
        let key = "group";
        s.value::<Vec<Uuid>>(sql, &[&key, &groups]);
        assert_eq!(s.count("select count(*) from scylla.task"), i64::from((place + 1) * groups));
    }
    let first: BTreeSet<Uuid> = s
        .query(
            "select distinct on (group_key) id from scylla.task order by group_key, created",
            &[],
        )
        .expect("rows")
        .iter()
        .map(|row| row.get(0))
        .collect();
    let mut owned = BTreeSet::new();
    let (mut calls, mut time, mut is_half) = (0, Duration::ZERO, false);
    while owned.len() < first.len() {
        let begun = Instant::now();
        // The scheduler may be looking through all groups for longer than a call waits.
        let what = format!("a task after {} of {groups}", owned.len());
        let leases = eventually(seconds(20), &what, || {
            Some(s.own("w", "q", most)).filter(|leases| !leases.is_empty())
        });
        time += begun.elapsed();
        calls += 1;
        for lease in &leases {
            assert!(first.contains(&lease.id), "not the first one of its group");
            assert!(owned.insert(lease.id), "owned twice");
        }
        let ids: Vec<Uuid> = leases.iter().map(|it| it.id).collect();
        let tokens: Vec<Uuid> = leases.iter().map(|it| it.token).collect();
        s.value::<Vec<String>>(
            "select scylla.return_tasks($1, $2, outcome => 'retry')",
            &[&ids, &tokens],
        );
        if !is_half && owned.len() * 2 >= first.len() {
            is_half = true;
            s = between(s);
        }
    }
    assert!(s.own("w", "q", most).is_empty(), "each group waits for its first task");
    println!("{groups} groups, {most} at a time: {:?} a call, {calls} calls", time / calls);
}

/// I4: however few slots and lanes there are, the first task of each group is owned once, also
/// across a survey and a crash.
#[test]
fn groups_beyond_the_board_are_all_served() {
    for (slots, most) in [(64, 40), (1_024, 500)] {
        let server = Server::start(&[
            &format!("scylla.board_size = {slots}") as &str,
            "scylla.retry_interval = '1 h'",
        ]);
        for groups in [2_000, 20_000] {
            let database = server.database();
            every_first_task_once(database.connect(), groups, most, |s| s);
            let database = server.database();
            every_first_task_once(database.connect(), groups, most, |mut s| {
                s.run("select scylla.refresh()");
                s
            });
            let database = server.database();
            every_first_task_once(database.connect(), groups, most, |s| {
                drop(s);
                server.stop("immediate");
                server.start_again();
                database.connect()
            });
        }
    }
}

/// How long the next task may take to come, also on a busy machine.
const NEXT_WITHIN: Duration = seconds(20);

/// Completes all tasks that are left, those of each group in the order of submission. A group whose
/// next task never comes is stranded.
fn run_the_rest(s: &mut Session) {
    let (mut last, mut since) = (BTreeMap::new(), Instant::now());
    while s.count("select count(*) from scylla.task") > 0 {
        for lease in s.own("w", "q", 50) {
            let sql = "select coalesce(group_key, ''), extract(epoch from created)::float8
                       from scylla.task where id = $1";
            let row = s.query_one(sql, &[&lease.id]).expect("a row");
            let (group, created): (String, f64) = (row.get(0), row.get(1));
            let before = last.insert(group, created);
            assert!(before.is_none_or(|before| before < created), "out of order");
            s.complete(&lease);
            since = Instant::now();
        }
        if since.elapsed() > NEXT_WITHIN {
            let stranded = "select count(*) || ' tasks of '
                    || count(distinct coalesce(group_key, '')) || ' groups: '
                    || string_agg(distinct coalesce(group_key, 'none'), ', ')
                    || '; ' || min(scylla.why(id))
                from scylla.task";
            panic!("stranded for {NEXT_WITHIN:?}: {}", s.text(stranded));
        }
        sleep(milliseconds(5));
    }
}

/// B133: the limit comes and goes while tasks are submitted and run: none is stranded.
#[test]
fn the_limit_is_switched_under_load() {
    let database = database();
    // A call that finds nothing may wait for a second.
    let until = Instant::now() + seconds(20);
    std::thread::scope(|scope| {
        let workers = [0, 1, 2, 3].map(|n| {
            let database = &database;
            scope.spawn(move || {
                let mut s = database.connect();
                for round in (0..150).take_while(|_| Instant::now() < until) {
                    s.submit_with("q", &format!("group_key => 'g{}'", (n + round) % 7));
                    s.submit_with("q", "priority => 3");
                    for lease in s.own("w", "q", 2) {
                        let outcome = if round % 5 == 0 { "yield" } else { "completed" };
                        s.return_task(&lease, outcome).expect("a lease");
                    }
                }
            })
        });
        let mut s = database.connect();
        while !workers.iter().all(|it| it.is_finished()) {
            keep_order(&mut s);
            sleep(milliseconds(20));
            s.run("select scylla.reset_queue('q', 'max_running_per_group')");
            sleep(milliseconds(20));
        }
        keep_order(&mut s);
    });
    run_the_rest(&mut database.connect());
}

/// B133, I1: 16 connections submit to, own from, retry, cancel, delete, delay and yield in 200
/// groups, and the server is killed in the middle: no group has two running, and none is stranded
/// at the end.
#[test]
fn whatever_happens_in_groups_strands_none() {
    const KEYS: usize = 200;
    let server = Server::start(&[
        "max_connections = 60",
        "scylla.board_size = 256",
        "scylla.persist_leases_after = 0",
        "scylla.retry_interval = '5 ms'",
        "scylla.max_tries = 0",
    ]);
    let database = server.database();
    keep_order(&mut database.connect());
    let until = Instant::now() + seconds(20);
    let work = |n: usize| {
        let mut round = n * 7919;
        'connected: while Instant::now() < until {
            let Ok(mut s) = database.try_connect() else {
                sleep(milliseconds(50));
                continue;
            };
            while Instant::now() < until {
                round += 1;
                let group = format!("g{}", round * 31 % KEYS);
                let queued = format!(
                    "select id from scylla.task where queue = 'q' and group_key = '{group}'
                     order by created limit 1 offset {}",
                    round % 2
                );
                let sql = match round % 9 {
                    0..=3 => format!(
                        "select scylla.submit('q', priority => {}, group_key => '{group}')",
                        round % 4
                    ),
                    4 => format!("select scylla.cancel(({queued}))"),
                    5 => format!("select scylla.delete_tasks(array({queued}))"),
                    6 => format!(
                        "select scylla.delay(({queued}), clock_timestamp() + interval '{} ms')",
                        (round % 3) * 20
                    ),
                    _ => "select 1".to_owned(),
                };
                if s.query(&sql, &[]).as_ref().is_err_and(is_lost) {
                    continue 'connected;
                }
                let Ok(leases) = s.try_own("w", "q", 3, "timeout => '3 s'") else {
                    continue 'connected;
                };
                for (at, lease) in leases.iter().enumerate() {
                    let outcome =
                        ["completed", "yield", "retry", "aborted", "completed"][(round + at) % 5];
                    if s.return_task(lease, outcome).as_ref().is_err_and(is_lost) {
                        continue 'connected;
                    }
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for n in 0..16 {
            let work = &work;
            scope.spawn(move || work(n));
        }
        sleep(seconds(8));
        server.kill();
        server.start_again();
        let mut s = database.connect();
        while Instant::now() < until {
            let twice = "select count(*) from (select group_key from scylla.tasks
                where status = 'running' and queue = 'q' group by group_key having count(*) > 1) x";
            assert_eq!(s.count(twice), 0, "two of a group run");
            sleep(milliseconds(50));
        }
    });
    run_the_rest(&mut database.connect());
}
