//! Groups: workers get their tasks in turn.

use client::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// Submits tasks of one group each to the queue q: numbers of tasks and their groups' keys.
fn submit(s: &mut Session, groups: &[(i32, &str)]) {
    for (count, group) in groups {
        let sql = "select scylla.submit_many('q', array_fill('{}'::jsonb, array[$1::integer]),
                       group_keys => array_fill($2::text, array[$1::integer]))";
        let key = (!group.is_empty()).then_some(*group);
        s.value::<Vec<Uuid>>(sql, &[count, &key]);
    }
}

/// Owns tasks of the queue q, and completes them; their groups.
fn serve(s: &mut Session, most: i32) -> Vec<String> {
    let sql = "select coalesce(o.group_key, '') from scylla.own_tasks('w', 'q', $1) o
               cross join lateral (select scylla.return_task(o.id, o.token)) r";
    s.query(sql, &[&most]).expect("rows").iter().map(|row| row.get(0)).collect()
}

/// The least and the most turns that each group had in the first tasks that were served, as many as
/// all groups together had before the first of them ran out.
fn turns(served: &[String]) -> (usize, usize) {
    let mut counts = BTreeMap::new();
    served.iter().for_each(|group| *counts.entry(group).or_insert(0_usize) += 1);
    let (least, most) = (counts.values().min(), counts.values().max());
    (*least.expect("a group"), *most.expect("a group"))
}

/// B131: a tenant with many tasks delays another's by one round, in a batch, call by call, and
/// through a retry. Tasks without a group are one group.
#[test]
fn groups_get_their_turns() {
    let database = database();
    let mut s = database.connect();
    submit(&mut s, &[(1_000, "big"), (10, "small"), (10, ""), (10, "other")]);
    let served = serve(&mut s, 20);
    assert_eq!(turns(&served), (5, 5), "{served:?}");
    let served: Vec<_> = (0..20).flat_map(|_| serve(&mut s, 1)).collect();
    assert_eq!(turns(&served), (5, 5), "{served:?}");
    // A group that comes later has its turn in the first round.
    submit(&mut s, &[(2, "new")]);
    assert!(serve(&mut s, 2).contains(&"new".to_owned()));
    assert_eq!(serve(&mut s, 2_000).len(), 1_032 - 42, "each once");
}

/// B131: a priority comes before a turn; the turn is the group's in all actions.
#[test]
fn a_turn_is_of_one_priority_and_of_all_actions() {
    let database = database();
    let mut s = database.connect();
    let submit = |s: &mut Session, group: &str, action: &str, priority: i32| {
        let other = format!("action => '{action}', priority => {priority}, group_key => '{group}'");
        s.submit_with("q", &other);
    };
    for group in ["a", "a", "b", "b"] {
        submit(&mut s, group, "x", 0);
        submit(&mut s, group, "y", 0);
    }
    submit(&mut s, "a", "x", 1);
    submit(&mut s, "a", "x", 1);
    let next = |s: &mut Session, actions: &str| -> String {
        s.text(&format!("select group_key from scylla.own_tasks('w', 'q', 1, {actions})"))
    };
    assert_eq!((next(&mut s, "null"), next(&mut s, "null")), ("a".into(), "a".into()));
    assert_eq!(next(&mut s, "array['x']"), "b");
    assert_eq!(next(&mut s, "array['y']"), "a", "b had the last turn");
    assert_eq!(next(&mut s, "array['x', 'y']"), "b");
}

/// B131: after a crash, and on a board that has room for few tasks, the groups are read one by one:
/// a million tasks of one hide none.
#[test]
fn a_refill_reads_the_groups_one_by_one() {
    let server = Server::start(&["scylla.board_size = 4096"]);
    let database = server.database();
    let mut s = database.connect();
    submit(&mut s, &[(60_000, "big"), (60_000, "")]);
    let names: Vec<String> = (0..50).map(|n| format!("group {n}")).collect();
    names.iter().for_each(|name| submit(&mut s, &[(20, name)]));
    for crashes in [true, false] {
        if crashes {
            server.kill();
            server.start_again();
        }
        s = database.connect();
        let served = serve(&mut s, 52 * 10);
        assert_eq!(served.iter().collect::<BTreeSet<_>>().len(), 52);
        assert_eq!(turns(&served), (10, 10));
    }
    let left = |s: &mut Session| s.count("select count(*) from scylla.task");
    assert_eq!(left(&mut s), 120_000 - 40);
    while !serve(&mut s, 10_000).is_empty() {}
    assert_eq!(left(&mut s), 0, "none is stranded");
}

/// B131: groups for which the board has no lane get their turns, too, also those of one action
/// among many of another.
#[test]
fn groups_beyond_the_board_get_their_turns() {
    // It has 1,024 lanes.
    let server = Server::start(&["scylla.board_size = 64"]);
    let database = server.database();
    let mut s = database.connect();
    let groups: Vec<String> = (0..1_500).map(|n| format!("group {n}")).collect();
    let sql =
        "select scylla.submit_many('q', array_fill('{}'::jsonb, array[1500]), group_keys => $1)";
    for _ in 0..4 {
        s.value::<Vec<Uuid>>(sql, &[&groups]);
    }
    s.submit_with("q", "action => 'rare', group_key => 'rare'");
    for (rounds, most) in [(1, 1), (2, 10)] {
        let mut served = Vec::new();
        while served.len() < rounds * 1_501 {
            served.extend(serve(&mut s, most));
        }
        let (_, most) = turns(&served);
        let had_none = 1_500 - served.iter().collect::<BTreeSet<_>>().len().min(1_500);
        // Without passes the first thousand groups would be served to their ends. Where passes
        // begin, a group may have a turn more.
        assert!(most <= rounds + 1, "{most} turns of a group in {rounds} rounds");
        assert!(had_none <= 150, "{had_none} groups had no turn in {rounds} rounds");
    }
    while !serve(&mut s, 100).is_empty() {}
    assert_eq!(s.count("select count(*) from scylla.task"), 0, "none is stranded");
    s.counts_agree(seconds(5));
}

/// I4, B131: what becomes ready later, is retried, is cancelled, or rolled back, stays in its
/// group.
#[test]
fn every_way_to_become_ready_knows_the_group() {
    let database = database();
    let mut s = database.connect();
    submit(&mut s, &[(40, "big")]);
    let first = s.submit_with("before", "group_key => 'dependents'");
    s.submit_with("q", &format!("after => array['{first}'::uuid], group_key => 'dependents'"));
    s.submit_with("q", "run_at => clock_timestamp() + interval '300 ms', group_key => 'due'");
    s.run(
        "select scylla.delay_messages('q', jsonb_build_array(jsonb_build_object(
               'id', 'm', 'deadline', clock_timestamp() - interval '1 s', 'value', 'v',
               'group_key', 'message')))",
    );
    let lease = s.own_one("before");
    s.complete(&lease);
    eventually(seconds(5), "it is due", || {
        (s.count("select count(*) from scylla.tasks where queue = 'q' and status = 'ready'") == 43)
            .then_some(())
    });
    let served: BTreeSet<_> = serve(&mut s, 4).into_iter().collect();
    let expected = ["big", "dependents", "due", "message"].map(str::to_owned);
    assert_eq!(served, BTreeSet::from(expected));

    submit(&mut s, &[(3, "retried"), (3, "expired"), (3, "rolled back")]);
    let own = |s: &mut Session, group: &str| -> Lease {
        s.run("begin");
        for _ in 0..4 {
            let lease = s.own_with("w", "q", 1, "timeout => '1 s'").pop().expect("a task");
            if s.entry(lease.id)["group_key"] == group {
                return lease;
            }
        }
        panic!("no turn of {group}");
    };
    let lease = own(&mut s, "rolled back");
    s.run("rollback");
    assert_eq!(s.status(lease.id), "ready");
    let lease = own(&mut s, "retried");
    s.return_task(&lease, "retry").expect("a retry");
    s.run("commit");
    let lease = own(&mut s, "expired");
    s.run("commit");
    eventually(seconds(5), "all expire", || (s.tasks("running") == 0).then_some(()));
    assert_eq!(s.status(lease.id), "ready");
    let served = serve(&mut s, 12);
    assert_eq!(turns(&served), (3, 3), "{served:?}");
}

/// A time throughout which a lease ran: from a moment after its start to one before its end.
type Ran = (Instant, Instant);

/// The most that ran at one time.
fn most_at_once(log: &[Ran]) -> usize {
    let at = |time: Instant| log.iter().filter(|ran| ran.0 <= time && time < ran.1).count();
    log.iter().map(|ran| at(ran.0)).max().unwrap_or(0)
}

fn limit(s: &mut Session, most: i32) {
    s.run(&format!("select scylla.configure_queue('q', max_running_per_group => {most})"));
}

/// The group of a lease's task.
fn group(s: &mut Session, lease: &Lease) -> String {
    s.value("select coalesce(scylla.task($1) ->> 'group_key', '')", &[&lease.id])
}

/// B132: workers of all sorts come and go, and of no group do more tasks run than may.
#[test]
fn never_more_tasks_of_a_group_run_than_may() {
    let database = database();
    let mut s = database.connect();
    limit(&mut s, 2);
    submit(&mut s, &[(150, "a"), (150, "b"), (150, ""), (20, "c")]);
    let worker = |n: usize| {
        let mut s = database.connect();
        let mut log = Vec::new();
        for round in 0.. {
            s.run("begin");
            let leases = s.own("w", "q", 1 + n as i32 % 4);
            let begun = Instant::now();
            if (n + round).is_multiple_of(5) {
                log.extend(leases.iter().map(|it| (it.id, (begun, Instant::now()))));
                s.run("rollback");
                continue;
            }
            s.run("commit");
            if leases.is_empty() {
                if s.count("select count(*) from scylla.task") == 0 {
                    break;
                }
                s.run("call scylla.wait_for_work('q', '200 ms')");
                continue;
            }
            sleep(milliseconds(2));
            log.extend(leases.iter().map(|it| (it.id, (begun, Instant::now()))));
            let outcome = if (n + round) % 7 == 1 { "yield" } else { "completed" };
            for lease in &leases {
                s.return_task(lease, outcome).expect("a lease");
            }
        }
        log
    };
    let logs: Vec<(Uuid, Ran)> = std::thread::scope(|scope| {
        let worker = &worker;
        let threads: Vec<_> = (0..32).map(|n| scope.spawn(move || worker(n))).collect();
        threads.into_iter().flat_map(|it| it.join().expect("a worker")).collect()
    });
    let sql = "select id, coalesce(group_key, '') from scylla.finished";
    let rows = s.query(sql, &[]).expect("rows");
    let group_of: BTreeMap<Uuid, String> =
        rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(group_of.len(), 470);
    let mut by_group: BTreeMap<&str, Vec<Ran>> = BTreeMap::new();
    for (id, ran) in &logs {
        by_group.entry(&group_of[id]).or_default().push(*ran);
    }
    for group in ["a", "b", ""] {
        assert_eq!(most_at_once(&by_group[group]), 2, "{group}");
    }
    assert!(most_at_once(&by_group["c"]) <= 2);
}

/// B132, I2: what a transaction ends makes room for what it owns of the same group; no other gets
/// the place before it commits, and a rollback, to a savepoint too, takes it back.
#[test]
fn a_transaction_owns_in_the_group_of_what_it_returns() {
    let database = database();
    let (mut s, mut other) = (database.connect(), database.connect());
    limit(&mut s, 1);
    submit(&mut s, &[(5, "a"), (1, "b")]);
    let leases = s.own("w", "q", 9);
    assert_eq!(leases.len(), 2);
    let (of_a, of_b) = if group(&mut s, &leases[0]) == "a" {
        (&leases[0], &leases[1])
    } else {
        (&leases[1], &leases[0])
    };
    assert!(other.own("w", "q", 9).is_empty());
    s.run("begin");
    assert!(s.own("w", "q", 9).is_empty(), "nothing is returned yet");
    s.run("savepoint one");
    s.complete(of_b);
    assert!(s.own("w", "q", 9).is_empty(), "the other group has a place, and no task");
    s.complete(of_a);
    assert!(other.own("w", "q", 9).is_empty());
    let next = s.own("w", "q", 9);
    assert_eq!(next.len(), 1, "one for one");
    assert_eq!(group(&mut s, &next[0]), "a");
    s.run("rollback to one");
    assert!(s.own("w", "q", 9).is_empty());
    assert!(s.extend(of_a), "it goes on");
    s.complete(of_a);
    assert_eq!(s.try_own_task(next[0].id).expect("by id").id, next[0].id);
    s.run("commit");
    assert!(other.own("w", "q", 9).is_empty());

    s.run("begin");
    let third = s.text("select id::text from scylla.tasks where status = 'ready' limit 1");
    assert_eq!(s.refused(&format!("select scylla.own_task('{third}', 'w')")), "55000");
    s.run("rollback");
    let why = s.text(&format!("select scylla.why('{third}')"));
    assert!(why.contains("max_running_per_group"), "{why}");
}

/// B132: a limit that is lowered holds from then on, one that is raised or reset lets more run, and
/// wakes processes that wait.
#[test]
fn a_limit_of_groups_may_change() {
    let server = Server::start(&["scylla.notify_interval = '1 min'"]);
    let database = server.database();
    let mut s = database.connect();
    limit(&mut s, 3);
    submit(&mut s, &[(9, "a"), (1, "b")]);
    let mut leases = s.own_with("w", "q", 9, "timeout => '1 h'");
    assert_eq!(leases.len(), 4);
    leases.sort_by_key(|lease| lease.id);
    limit(&mut s, 2);
    assert!(s.own("w", "q", 9).is_empty());
    let waiter = wait_for_work(&database, "q");
    sleep(milliseconds(300));
    assert!(!waiter.1.is_finished(), "the group is full");
    let of_a: Vec<Lease> = leases
        .into_iter()
        .filter(|lease| {
            s.value::<String>("select scylla.task($1) ->> 'group_key'", &[&lease.id]) == "a"
        })
        .collect();
    s.complete(&of_a[0]);
    sleep(milliseconds(300));
    assert!(!waiter.1.is_finished() && s.own("w", "q", 9).is_empty(), "it is full still");
    s.complete(&of_a[1]);
    assert!(waiter.1.join().expect("a waiter"), "a place came free");
    assert_eq!(s.own_with("w", "q", 9, "timeout => '1 h'").len(), 1);
    let waiter = wait_for_work(&database, "q");
    limit(&mut s, 4);
    assert!(waiter.1.join().expect("a waiter"), "the limit was raised");
    assert_eq!(s.own_with("w", "q", 9, "timeout => '1 h'").len(), 2);
    s.run("select scylla.reset_queue('q', 'max_running_per_group')");
    assert_eq!(s.own("w", "q", 9).len(), 3, "all that is left");
}

/// B132, I1: after a crash the restored leases count in their groups.
#[test]
fn after_a_crash_the_restored_leases_count_in_their_groups() {
    let server =
        Server::start(&["scylla.persist_leases_after = 0", "scylla.sweep_interval = '10 ms'"]);
    let database = server.database();
    let mut s = database.connect();
    limit(&mut s, 2);
    submit(&mut s, &[(5, "a"), (5, "b")]);
    let leases = s.own_with("w", "q", 9, "timeout => '1 h'");
    assert_eq!(leases.len(), 4);
    s.until_leases_are_written(4);
    for crash in 1..=2 {
        server.kill();
        server.start_again();
        let owned = database.connect().own("w", "q", 9);
        assert!(owned.is_empty(), "{} after crash {crash}", owned.len());
    }
    let mut s = database.connect();
    let ended = group(&mut s, &leases[0]);
    s.complete(&leases[0]);
    let next = s.own("w", "q", 9);
    assert_eq!((next.len(), group(&mut s, &next[0])), (1, ended));
}
