//! Groups: workers get their tasks in turn.

use client::*;
use std::collections::{BTreeMap, BTreeSet};

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

/// B131: after a crash, and on a board that has room for few tasks, the groups are read one by one: a
/// million tasks of one hide none.
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

/// I4, B131: what becomes ready later, is retried, is cancelled, or rolled back, stays in its group.
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
            let lease = s.own_with("w", "q", 1, "timeout => '200 ms'").pop().expect("a task");
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
