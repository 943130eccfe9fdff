//! More groups, actions and priorities than the board has lanes: each ready task is found, by a
//! call that reads little, and only a slot for each lease is needed.

use client::*;
use std::time::Instant;

/// Boards: the smallest, a small one, and the default.
const BOARDS: [i64; 3] = [64, 1_024, 131_072];
/// The scans of indexes that a call may need, however many tasks there are: a few for each action
/// it asks for, and for each page of groups.
const SCANS: i64 = 1_000;

fn server(slots: i64) -> Server {
    Server::start(&[
        &format!("scylla.board_size = {slots}") as &str,
        "scylla.retry_interval = '1 h'",
    ])
}

/// Submits a task for each of so many groups.
fn submit_groups(s: &mut Session, queue: &str, options: &str, groups: i32) {
    let sql = format!(
        "select count(*) from (
             select unnest(scylla.submit_many('{queue}', array_agg('{{}}'::jsonb),
                 group_keys => array_agg('group ' || n order by n), {options}))
             from generate_series(1, $1::integer) n group by n / 20000) t"
    );
    assert_eq!(s.value::<i64>(&sql, &[&groups]), i64::from(groups));
}

/// Owns tasks in a transaction of its own, and checks how much of the table that has read.
fn own_by_few_scans(s: &mut Session, most: i32, options: &str) -> Vec<Lease> {
    own_by_scans(s, SCANS, most, options)
}

fn own_by_scans(s: &mut Session, scans: i64, most: i32, options: &str) -> Vec<Lease> {
    let read = |s: &mut Session| -> (i64, i64) {
        let sql = "select coalesce(sum(seq_scan), 0)::int8, coalesce(sum(idx_scan), 0)::int8
                   from pg_stat_xact_all_tables where relid = 'scylla.task'::regclass";
        let row = s.query_one(sql, &[]).expect("a row");
        (row.get(0), row.get(1))
    };
    s.run("begin");
    // What earlier transactions have read, and have not reported yet.
    let before = read(s);
    let leases = s.own_with("w", "q", most, options);
    let after = read(s);
    s.run("commit");
    let (sequential, by_index) = (after.0 - before.0, after.1 - before.1);
    assert_eq!(sequential, 0, "{options}");
    // Each task that is handed out is read by its id.
    assert!(by_index <= scans + i64::from(most) * 4, "{options}: {by_index} scans");
    leases
}

/// I4: with aging, a task of each action is found among groups that all have an older one of
/// another action.
fn each_action_of_aging_groups(slots: i64, groups: i32) {
    let server = server(slots);
    let database = server.database();
    let mut s = database.connect();
    s.run("select scylla.configure_queue('q', aging => '1 min')");
    for action in ["a", "b"] {
        submit_groups(&mut s, "q", &format!("action => '{action}'"), groups);
    }
    for action in ["a", "b"] {
        for _ in 0..3 {
            let leases = own_by_few_scans(&mut s, 10, &format!("actions => '{{{action}}}'"));
            assert_eq!(leases.len(), 10, "{action} on {slots} slots");
            assert!(leases.iter().all(|lease| lease.action == action));
            leases.iter().for_each(|lease| s.complete(lease));
        }
    }
    assert!(own_by_few_scans(&mut s, 10, "actions => '{c}'").is_empty());
    server.assert_log_is_clean();
}

/// I4: the only task of an action is found among many actions, and a look for an action that has
/// none ends soon; a wait for it ends at its time-out.
fn one_of_many_actions(slots: i64, actions: i32) {
    let server = server(slots);
    let database = server.database();
    let mut s = database.connect();
    let sql = "select count(scylla.submit('q', action => 'x' || n)) from generate_series(1, $1::integer) n";
    assert_eq!(s.value::<i64>(sql, &[&actions]), i64::from(actions));
    for n in [1, actions / 2, actions] {
        let leases = own_by_few_scans(&mut s, 5, &format!("actions => '{{x{n}}}'"));
        assert_eq!(leases.len(), 1, "x{n} on {slots} slots");
        s.complete(&leases[0]);
        assert!(own_by_few_scans(&mut s, 5, &format!("actions => '{{x{n}}}'")).is_empty());
    }
    let begun = Instant::now();
    let wait = "call scylla.wait_for_work('q', '500 ms', '{none}')";
    assert!(!s.query_one(wait, &[]).expect("an answer").get::<_, bool>(0));
    assert!(begun.elapsed() < seconds(4), "{:?}", begun.elapsed());
    // A worker of any action gets all that is left.
    let mut left = actions - 3;
    while left > 0 {
        let leases = s.own("w", "q", (slots as i32 / 2).min(1_000));
        assert!(!leases.is_empty(), "{left} are left on {slots} slots");
        left -= leases.len() as i32;
        let ids: Vec<Uuid> = leases.iter().map(|it| it.id).collect();
        let tokens: Vec<Uuid> = leases.iter().map(|it| it.token).collect();
        s.value::<Vec<String>>("select scylla.return_tasks($1, $2)", &[&ids, &tokens]);
    }
    assert_eq!(s.count("select count(*) from scylla.task"), 0);
    server.assert_log_is_clean();
}

/// I4: leases in as many groups leave the other slots to all: 53400 only where each slot has a
/// lease.
fn leases_in_many_groups(slots: i64, leases: i64) {
    let server = server(slots);
    let database = server.database();
    let mut s = database.connect();
    s.run("select scylla.configure_queue('q', max_running_per_group => 2)");
    submit_groups(&mut s, "q", "priority => 1", leases as i32 + 100);
    s.submit_many("plain", 100);
    let mut left = leases;
    while left > 0 {
        let owned = s.own("w", "q", left.min(500) as i32).len() as i64;
        assert!(owned > 0, "{left} of {leases} leases on {slots} slots");
        left -= owned;
    }
    let id = s.value::<Uuid>("select scylla.run_sql('select 1')", &[]);
    eventually(seconds(20), "a command runs", || (s.status(id) == "completed").then_some(()));
    // The other slots, one by one, in turn of a plain queue and of groups.
    let free = (slots - leases).min(100);
    for n in 0..free {
        let queue = if n % 2 == 0 { "plain" } else { "q" };
        assert_eq!(s.own("w", queue, 1).len(), 1, "lease {n} of {free} on {slots} slots");
    }
    if free == slots - leases {
        for queue in ["plain", "q"] {
            let refused = s.try_own("w", queue, 1, "timeout => null");
            assert_eq!(failure(refused, "own").code().code(), "53400", "{queue}");
        }
        assert_eq!(s.count("select count(*) from scylla.tasks where status = 'running'"), slots);
    }
    server.assert_log_is_clean();
}

/// I4, B29: however many priorities tasks with aging have, a call reads those that may come first;
/// the order is that of the priorities, raised by age.
fn the_best_of_many_priorities(slots: i64, priorities: i32) {
    let server = server(slots);
    let database = server.database();
    let mut s = database.connect();
    s.run("select scylla.configure_queue('q', aging => '10 ms')");
    let [raised, left] = [-200, -300].map(|below| priorities + below);
    let submit = |s: &mut Session, options: &str| -> Uuid {
        s.value(&format!("select scylla.submit('q', {options})"), &[])
    };
    let raised = submit(&mut s, &format!("priority => {raised}, action => 'old'"));
    submit(&mut s, &format!("priority => {left}, action => 'old'"));
    // As long as a task gains points, and longer.
    sleep(seconds(4));
    s.run("select scylla.configure_queue('q', aging => '1 hour')");
    s.run("select scylla.configure_queue('q', aging => '10 ms')");
    let sql =
        "select count(scylla.submit('q', priority => n)) from generate_series(1, $1::integer) n";
    assert_eq!(s.value::<i64>(sql, &[&priorities]), i64::from(priorities));
    // The search of each action reads 255 priorities below the tenth, three times at most.
    let scans = 3 * 270;
    let first = own_by_scans(&mut s, scans, 10, "actions => '{old,\"\"}'");
    assert_eq!(first.len(), 10, "on {slots} slots");
    assert!(first.iter().any(|it| it.id == raised), "{first:?} on {slots} slots");
    let priority = "select priority from scylla.tasks where id = $1";
    for lease in first.iter().filter(|it| it.id != raised) {
        assert!(s.value::<i64>(priority, &[&lease.id]) > i64::from(priorities) - 255);
    }
    server.assert_log_is_clean();
}

/// I4: a worker that names no action gets tasks of all in turns, however many there are.
fn any_of_many_actions(slots: i64, actions: i32) {
    let server = server(slots);
    let database = server.database();
    let mut s = database.connect();
    let sql = "select count(scylla.submit('q', action => to_char(n / 2, 'fm000000')))
               from generate_series(2, $1::integer * 2 + 1) n";
    assert_eq!(s.value::<i64>(sql, &[&actions]), i64::from(2 * actions));
    // The actions are read 2,048 at a time.
    let mut seen = Vec::new();
    for _ in 0..=actions / 2_048 {
        let leases = own_by_scans(&mut s, 4 * 2_048 + SCANS, 1, "actions => null");
        assert_eq!(leases.len(), 1, "on {slots} slots");
        seen.push(leases[0].action.parse::<i32>().expect("a number") / 2_049);
    }
    seen.sort_unstable();
    seen.dedup();
    let is_searched = actions > slots as i32 + 1_000;
    assert!(!is_searched || seen.len() as i32 >= actions / 2_049, "{seen:?} on {slots} slots");
    server.assert_log_is_clean();
}

/// How many times as much: SCYLLA_SIZE, 1 unless it is set.
fn times(number: i32) -> i32 {
    number * std::env::var("SCYLLA_SIZE").map_or(1, |it| it.parse().expect("a number"))
}

/// I4
#[test]
fn each_action_of_aging_groups_is_found() {
    BOARDS.into_iter().for_each(|slots| each_action_of_aging_groups(slots, times(40_000)));
}

/// I4
#[test]
fn one_of_many_actions_is_found() {
    BOARDS.into_iter().for_each(|slots| one_of_many_actions(slots, times(3_000)));
}

/// I4, B29
#[test]
fn the_best_of_many_priorities_comes_first() {
    [64, 1_024].into_iter().for_each(|slots| the_best_of_many_priorities(slots, times(10_000)));
}

/// I4
#[test]
fn any_of_many_actions_has_its_turn() {
    BOARDS.into_iter().for_each(|slots| any_of_many_actions(slots, times(10_000)));
}

/// I4
#[test]
fn leases_are_limited_by_slots_alone() {
    for (slots, leases) in
        [(64, 60), (1_024, 924), (4_096, 3_000), (131_072, i64::from(times(4_950)))]
    {
        leases_in_many_groups(slots, leases);
    }
}
