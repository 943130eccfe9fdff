//! More queues, actions and tasks than fit: nothing is lost, nobody starves, order holds.

use client::*;
use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

/// A server whose board is the smallest allowed, and how many slots that is.
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

/// Highest priority first, then oldest.
fn assert_order(s: &mut Session, owned: &[(Uuid, i64)]) {
    let created: HashMap<Uuid, String> = s
        .query("select id, to_char(created at time zone 'utc', 'YYYYMMDDHH24MISSUS') from scylla.tasks", &[])
        .unwrap()
        .iter()
        .map(|row| (row.get(0), row.get(1)))
        .collect();
    for pair in owned.windows(2) {
        let ((a, high), (b, low)) = (&pair[0], &pair[1]);
        assert!(
            high > low || (high == low && created[a] <= created[b]),
            "{a} ({high}) came before {b} ({low})"
        );
    }
}

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
        ["a17", "a5000"],
        "4623 before 0"
    );
    let mut priorities: Vec<i64> = Vec::new();
    while let leases @ [_, ..] = &*s.own("w", "q", 999) {
        priorities.extend(leases.iter().map(|lease| lease.priority));
    }
    assert_eq!(priorities.len(), 9998);
    assert!(priorities.is_sorted_by(|a, b| a > b), "each priority once, highest first");
}

/// I4: queues many times larger than the board are handed out in order, each task once.
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

/// I4: a late task of high priority overtakes all that did not fit on the board.
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

/// I4: a flood in one queue takes nothing from another.
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

/// I4: empty only when nothing was ready, while others submit, own and return on a full board.
#[test]
fn full_board_loses_nothing_under_concurrency() {
    let (server, slots) = tiny();
    let database = server.database();
    let each = slots * 2;
    let batch = (slots / 16).max(1);
    let (queues, submitted) = (["x", "y"], AtomicI32::new(0));
    let owned: Vec<Uuid> = std::thread::scope(|scope| {
        for queue in queues {
            let (mut s, submitted) = (database.connect(), &submitted);
            scope.spawn(move || {
                for round in 0..8 {
                    submit_mixed(&mut s, queue, each / 8, round);
                    submitted.fetch_add(each / 8, Ordering::SeqCst);
                }
            });
        }
        let owners: Vec<_> = (0..4)
            .map(|n| {
                let (mut s, submitted) = (database.connect(), &submitted);
                scope.spawn(move || {
                    let mut mine = Vec::new();
                    loop {
                        let done = submitted.load(Ordering::SeqCst) == 2 * each;
                        let leases = s.own("w", queues[n % 2], batch);
                        if leases.is_empty() && done {
                            return mine;
                        }
                        for lease in &leases {
                            s.complete(lease);
                            mine.push(lease.id);
                        }
                    }
                })
            })
            .collect();
        owners.into_iter().flat_map(|owner| owner.join().unwrap()).collect()
    });
    assert_eq!(
        owned.len() as i32,
        2 * each,
        "an owner that finds nothing after the last submit has seen it all"
    );
    assert_eq!(owned.iter().collect::<HashSet<_>>().len(), owned.len(), "each task once");
}

/// As many leases as slots; one more is 53400, and nothing is half done.
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
    assert_eq!(s.own("w", "q", 10).len(), 10, "room again");
}
