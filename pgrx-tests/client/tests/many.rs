//! More queues, actions and tasks than fit on the board: no task is lost, no queue starves, and the
//! order holds.

use client::*;
use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

/// A server with the smallest board allowed, and its number of slots.
fn tiny() -> &'static (Server, i32) {
    static TINY: OnceLock<(Server, i32)> = OnceLock::new();
    extern "C" fn remove() {
        TINY.get().inspect(|(server, _)| server.remove());
    }
    TINY.get_or_init(|| {
        let least = "select min_val::int from pg_settings where name = 'scylla.board_size'";
        let slots: i32 = Server::shared().connect().value(least, &[]);
        // SAFETY: registers a plain function without arguments
        unsafe { libc::atexit(remove) };
        (Server::start(&[&format!("scylla.board_size = {slots}")]), slots)
    })
}

/// Submits `n` tasks with priorities 0 to 9 in one call.
fn submit_mixed(s: &mut Session, queue: &str, n: i32, salt: i32) {
    let sql = "select count(*) from scylla.submit_tasks((select jsonb_agg(jsonb_build_object(
                 'queue', $1::text, 'priority', (i * 7919 + $3::int) % 10, 'action', 'a' || i % 3)) from generate_series(1, $2::int) i))";
    assert_eq!(s.value::<i64>(sql, &[&queue, &n, &salt]), n as i64);
}

/// Asserts the order: highest priority first, then oldest.
fn assert_order(s: &mut Session, owned: &[(Uuid, i64)]) {
    let created: HashMap<Uuid, String> = s
        .query("select id, to_char(created at time zone 'utc', 'YYYYMMDDHH24MISSUS') from scylla.tasks", &[])
        .unwrap()
        .iter()
        .map(|row| (row.get(0), row.get(1)))
        .collect();
    for (n, pair) in owned.windows(2).enumerate() {
        let ((a, high), (b, low)) = (&pair[0], &pair[1]);
        let right = high > low || (high == low && created[a] <= created[b]);
        assert!(right, "{a} ({high}) came before {b} ({low}), at {n} of {}", owned.len());
    }
}

/// I4: each of ten thousand queues hands out its tasks.
#[test]
fn ten_thousand_queues_hand_out_their_tasks() {
    let database = database();
    let mut s = database.connect();
    s.run("select * from scylla.submit_tasks((select jsonb_agg(jsonb_build_object('queue', 'q' || i)) from generate_series(1, 10000) i))");
    let (rows, distinct): (i64, i64) = {
        let sql = "select count(*), count(distinct o.id) from generate_series(1, 10000) i, lateral scylla.own_tasks('w', 'q' || i, 5) o";
        let row = s.query_one(sql, &[]).unwrap();
        (row.get(0), row.get(1))
    };
    assert_eq!((rows, distinct), (10_000, 10_000));
    assert_eq!(s.tasks("running"), 10_000);
}

/// I4: ten thousand actions of one queue keep the queue's order.
#[test]
fn ten_thousand_actions_in_one_queue_keep_the_order() {
    let database = database();
    let mut s = database.connect();
    s.run(
        "select * from scylla.submit_tasks((select jsonb_agg(jsonb_build_object(
           'queue', 'q', 'action', 'a' || i, 'priority', (i * 7919) % 10000)) from generate_series(0, 9999) i))",
    );
    let named = s.own_with("w", "q", 5, "actions => array['a5000', 'a17', 'none']");
    assert_eq!(
        named.iter().map(|lease| lease.action.as_str()).collect::<Vec<_>>(),
        ["a5000", "a17"],
        "5000 before 4623"
    );
    let mut priorities: Vec<i64> = Vec::new();
    while let leases @ [_, ..] = &*s.own("w", "q", 999) {
        priorities.extend(leases.iter().map(|lease| lease.priority));
    }
    assert_eq!(priorities.len(), 9998);
    assert!(priorities.is_sorted_by(|a, b| a > b), "each priority once, highest first");
}

/// I4: queues many times larger than the board hand out each task once, in order.
#[test]
fn more_tasks_than_the_board_keep_their_order() {
    let (server, slots) = tiny();
    let database = server.database();
    let mut s = database.connect();
    let (chunk, rounds) = (slots / 2, 8);
    for round in 0..rounds {
        for queue in ["x", "y", "z"] {
            submit_mixed(&mut s, queue, chunk, round);
        }
    }
    for queue in ["y", "x", "z"] {
        let mut owned = Vec::new();
        while let leases @ [_, ..] = &*s.own("w", queue, (slots / 8).max(1)) {
            owned.extend(leases.iter().map(|lease| (lease.id, lease.priority)));
            let sql = "select scylla.return_tasks($1, $2)";
            let (ids, tokens): (Vec<Uuid>, Vec<Uuid>) =
                leases.iter().map(|lease| (lease.id, lease.token)).unzip();
            s.execute(sql, &[&ids, &tokens]).unwrap();
        }
        assert_eq!(owned.len() as i32, rounds * chunk, "{queue}");
        assert_eq!(
            owned.iter().map(|(id, _)| id).collect::<HashSet<_>>().len(),
            owned.len(),
            "each task once"
        );
        assert_order(&mut s, &owned);
    }
    assert_eq!(s.tasks("completed") as i32, 3 * rounds * chunk);
}

/// I4: the tasks of lanes without a place on the board are handed out in the queue's order.
#[test]
fn more_actions_than_the_board_keep_their_order() {
    let (server, slots) = tiny();
    let database = server.database();
    let mut s = database.connect();
    let n = slots * 4;
    let submit = format!(
        "select * from scylla.submit_tasks((select jsonb_agg(jsonb_build_object('queue', 'q', \
           'action', 'a' || i, 'priority', (i * 7919) % {n})) from generate_series(0, {n} - 1) i))"
    );
    s.run(&submit);
    let mut priorities = Vec::new();
    while let leases @ [_, ..] = &*s.own("w", "q", 5) {
        for lease in leases {
            priorities.push(lease.priority);
            s.complete(lease);
        }
    }
    assert_eq!(priorities.len() as i32, n);
    assert!(priorities.is_sorted_by(|a, b| a > b), "highest first: {priorities:?}");
}

/// I4: a late task of high priority is handed out before all tasks that did not fit on the board.
#[test]
fn late_urgent_task_overtakes_a_full_board() {
    let (server, slots) = tiny();
    let database = server.database();
    let mut s = database.connect();
    for round in 0..6 {
        submit_mixed(&mut s, "q", *slots, round);
    }
    let urgent = s.submit_with("q", "priority => 10");
    assert_eq!(s.own_one("q").id, urgent);
    let low = s.submit_with("q", "priority => 0, action => 'rare'");
    let lease = s.own_one_with("q", "actions => array['rare']");
    assert_eq!(lease.id, low, "found though its place is at the end of a full board");
}

/// I4: a flood in one queue does not starve another queue.
#[test]
fn flooded_board_does_not_starve_a_quiet_queue() {
    let (server, slots) = tiny();
    let database = server.database();
    let mut s = database.connect();
    let before = s.submit("quiet");
    for round in 0..6 {
        submit_mixed(&mut s, "flood", *slots, round);
    }
    let after = s.submit("quiet");
    let owned: Vec<Uuid> = s.own("w", "quiet", 5).iter().map(|lease| lease.id).collect();
    assert_eq!(owned, [before, after]);
}

/// Two sessions submit, four own, and one runs `disturb`. Each task is handed out once, and an
/// owner that finds no task after the last submission has left none behind.
fn all_is_handed_out_once(database: &Database, each: i32, disturb: impl Fn(&mut Session) + Sync) {
    let (queues, submitted, owning) = (["x", "y"], AtomicI32::new(0), AtomicI32::new(4));
    let owned: Vec<Uuid> = std::thread::scope(|scope| {
        for queue in queues {
            let (mut s, submitted) = (database.connect(), &submitted);
            scope.spawn(move || {
                for round in 0..16 {
                    submit_mixed(&mut s, queue, each / 16, round);
                    submitted.fetch_add(each / 16, Ordering::SeqCst);
                }
            });
        }
        let (mut s, disturb, owning) = (database.connect(), &disturb, &owning);
        scope.spawn(move || {
            while owning.load(Ordering::SeqCst) > 0 {
                disturb(&mut s);
                sleep(milliseconds(3));
            }
        });
        let owners = [0, 1, 0, 1].map(|n| {
            let (mut s, submitted) = (database.connect(), &submitted);
            scope.spawn(move || {
                let mut mine = Vec::new();
                loop {
                    let done = submitted.load(Ordering::SeqCst) == 2 * each;
                    let leases = s.own("w", queues[n], 4);
                    if leases.is_empty() && done {
                        return mine;
                    }
                    for lease in &leases {
                        s.complete(lease);
                        mine.push(lease.id);
                    }
                }
            })
        });
        let finish = owners.map(|owner| {
            let mine = owner.join();
            owning.fetch_sub(1, Ordering::SeqCst);
            mine
        });
        finish.into_iter().flat_map(|mine| mine.expect("the owner does not panic")).collect()
    });
    assert_eq!(owned.len() as i32, 2 * each, "own_tasks came back empty though tasks were ready");
    assert_eq!(owned.iter().collect::<HashSet<_>>().len(), owned.len(), "each task once");
}

/// I4: `own_tasks` returns no task only when none was ready, while others submit, own and return on
/// a full board.
#[test]
fn full_board_loses_nothing_under_concurrency() {
    let (server, slots) = tiny();
    all_is_handed_out_once(&server.database(), slots * 32, |_| ());
}

/// I4: a refresh under load neither doubles nor hides a task.
#[test]
fn refresh_under_load_doubles_and_hides_nothing() {
    let refresh = |s: &mut Session| s.run("select scylla.refresh()");
    all_is_handed_out_once(&database(), 2048, refresh);
    all_is_handed_out_once(&tiny().0.database(), 2048, refresh);
}

/// I4: tasks are handed out although the scheduler is terminated again and again.
#[test]
fn terminated_schedulers_under_load_hide_nothing() {
    let database = database();
    let mut s = database.connect();
    s.own("w", "x", 1); // waits until the board is built
    all_is_handed_out_once(&database, 4096, |s| {
        s.run(
            "select pg_terminate_backend(pid) from pg_stat_activity
             where datname = current_database() and backend_type ilike '%scylla%'",
        );
        sleep(milliseconds(200));
    });
}

/// I4: all slots can be leased. One more lease raises 53400, and the call changes nothing.
#[test]
fn more_leases_than_slots_are_refused() {
    let server = Server::start(&[&format!("scylla.board_size = {}", tiny().1)]);
    let database = server.database();
    let slots = tiny().1;
    let mut s = database.connect();
    for round in 0..3 {
        submit_mixed(&mut s, "q", slots, round);
    }
    let mut leases = Vec::new();
    let complaint = loop {
        match s.try_own("w", "q", 1, "timeout => '1 hour'") {
            Ok(more) => {
                assert_eq!(more.len(), 1, "own_tasks came back empty though tasks are ready");
                leases.extend(more);
                assert!(leases.len() as i32 <= slots, "more leases than slots");
            }
            Err(error) => break error,
        }
    };
    assert_eq!(code(&complaint), "53400");
    assert_eq!(leases.len() as i32, slots, "all slots may be leased");
    assert_eq!(s.tasks("running"), leases.len() as i64);
    assert_eq!(code(&s.try_own("w", "q", 10, "timeout => '1 hour'").unwrap_err()), "53400");
    let extra = s.submit_with("other", "priority => 9");
    assert!(leases.iter().all(|lease| s.extend(lease)), "leases are never evicted");
    leases.iter().for_each(|lease| s.complete(lease));
    assert_eq!(s.own_one("other").id, extra);
    assert_eq!(s.own("w", "q", 10).len(), 10, "slots are free again");
}

/// I4: a lane that is longer than one refill reads is handed out whole.
#[test]
fn lane_longer_than_a_refill_is_handed_out_whole() {
    let database = database();
    let mut s = database.connect();
    s.run(
        "insert into scylla.task (id, queue, action, priority, ready, post_result, created, updated, spec)
         select gen_random_uuid(), 'q', '', n % 7, true, false, now(), now(), '{}'
         from generate_series(1, 5000) n",
    );
    s.run("select scylla.refresh()");
    eventually(seconds(5), "the scheduler has surveyed the lanes", || {
        (s.own("w", "q", 1).len() == 1).then_some(())
    });
    assert_eq!(s.own("w", "q", 10_000).len(), 4_999);
}
