//! Memory: an allocation that fails costs its call and nothing else (I2).

use client::*;

const MEGABYTE: u64 = 1 << 20;

/// Makes a call with less memory than it needs, and again with a little more, until it succeeds.
/// Each time it is refused, its session lives on and nothing of it is left.
#[track_caller]
fn runs_out(server: &Server, database: &Database, call: &str, from: u64, step: f64) {
    let mut watch = database.connect();
    let state = "select md5(coalesce(string_agg(t::text, '' order by id), '')) from scylla.task t";
    let before = watch.text(state);
    let mut bytes = from as f64;
    let mut refused = 0;
    loop {
        let mut s = database.connect();
        s.run("select scylla.retry_worst_case(1, '0', '0'); select count(*) from scylla._leases()");
        spare_memory(s.pid, bytes as u64);
        match s.batch_execute(call) {
            Ok(()) => break,
            Err(error) => {
                let megabytes = bytes / MEGABYTE as f64;
                assert_eq!(code(&error), "53200", "with {megabytes:.1} MB: {call}\n{error:?}");
            }
        }
        limit_memory(s.pid, "unlimited");
        assert_eq!(s.text(state), before, "{call}");
        refused += 1;
        bytes *= step;
    }
    assert!(refused >= 3, "{refused} times: {call}");
    assert!(!watch.is_dead());
    server.assert_log_is_clean();
}

/// A call on tasks, each of them live and leased: `{ids}`, `{tokens}`.
const OF_LEASES: [&str; 7] = [
    "scylla.extend_tasks({ids}, {tokens})",
    "scylla.return_tasks({ids}, {tokens}, 'completed')",
    "scylla.return_tasks({ids}, {tokens}, 'retry')",
    "scylla.return_tasks({ids}, {tokens}, 'aborted', errors => array_fill(
         '{\"code\": \"c\", \"args\": {}, \"description\": \"d\"}'::jsonb, array[20000]))",
    "scylla.cancel_tasks({ids})",
    "scylla.delete_tasks({ids})",
    "scylla.add_dependencies({ids}, array_fill((select id from scylla.task where queue = 'waits'), array[20000]))",
];

#[test]
fn call_that_runs_out_of_memory_fails_alone() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    s.submit_many("q", 20_000);
    s.run("create table leased as select id, token from scylla.own_tasks('w', 'q', 20000, timeout => '1 hour')");
    s.submit("waits");
    s.submit_many("ready", 20_000);
    let array = |column: &str| format!("(select array_agg({column} order by id) from leased)");
    for call in OF_LEASES {
        let call = call.replace("{ids}", &array("id")).replace("{tokens}", &array("token"));
        runs_out(&server, &database, &format!("select {call}"), 3 * MEGABYTE, 1.25);
        // the next one finds the same tasks
        if call.contains("return") || call.contains("cancel") || call.contains("delete") {
            s.run("truncate leased; select scylla.cancel_tasks(array(select id from scylla.task where queue = 'q'))");
            s.submit_many("q", 20_000);
            s.run("insert into leased select id, token from scylla.own_tasks('w', 'q', 20000, timeout => '1 hour')");
        }
    }
    let own = "select count(*) from scylla.own_tasks('w', 'ready', 20000)";
    runs_out(&server, &database, own, MEGABYTE, 1.25);
}

/// An array of 20,000 tasks, with so much of each.
fn submission(members: &str) -> String {
    format!(
        "select count(*) from scylla.submit_tasks((
             select jsonb_agg(jsonb_build_object('queue', 'q', {members}))
             from generate_series(1, 20000) i))"
    )
}

#[test]
fn submission_that_runs_out_of_memory_fails_alone() {
    let server = Server::start(&[]);
    let database = server.database();
    let id = "('00000000-0000-4000-8000-' || lpad(i::text, 12, '0'))";
    let after = "('00000000-0000-4000-8000-' || lpad((i + 1)::text, 12, '0'))";
    for members in [
        "'action', 'a' || i".to_owned(),
        "'key', 'k' || i, 'spec', repeat('x', 500)".to_owned(),
        format!("'id', {id}, 'after', jsonb_build_array({after})"),
    ] {
        runs_out(&server, &database, &submission(&members), 3 * MEGABYTE, 1.25);
    }
    let messages = "select count(*) from scylla.delay_messages('m', (
         select jsonb_agg(jsonb_build_object('id', 'm' || i, 'deadline', '2100-01-01', 'value', repeat('x', 500)))
         from generate_series(1, 20000) i))";
    runs_out(&server, &database, messages, 3 * MEGABYTE, 1.25);
}

/// The error was raised in a memory context that had run out: a PANIC of the server.
#[test]
fn ninety_thousand_tasks_and_too_little_memory_for_them() {
    let server = Server::start(&[]);
    let database = server.database();
    let tasks = "select count(*) from scylla.submit_tasks((
        select jsonb_agg(jsonb_build_object('queue', 'q')) from generate_series(1, 90000)))";
    runs_out(&server, &database, tasks, 200 * MEGABYTE, 1.03);
}

/// The scheduler surveys more lanes than it has memory for.
#[test]
fn scheduler_that_runs_out_of_memory_lives_on() {
    let server = Server::start(&["scylla.sweep_interval = '50 ms'"]);
    let database = server.database();
    let mut s = database.connect();
    s.run(&submission("'action', 'a' || i"));
    let pid = database.scheduler();
    for step in 0..30 {
        let bytes = (0.2 * 1.2_f64.powi(step) * MEGABYTE as f64) as u64;
        spare_memory(pid, bytes);
        s.run("select scylla.refresh()");
        sleep(milliseconds(100));
        assert!(!s.is_dead(), "with {bytes} bytes");
        limit_memory(pid, "unlimited");
    }
    s.run("select scylla.refresh()");
    let id = s.submit("late");
    s.own_one_with("late", "timeout => '100 ms'");
    eventually(seconds(10), "a lease expires", || (s.status(id) == "ready").then_some(()));
    assert_eq!(s.count("select count(*) from scylla.own_tasks('w', 'q', 20000)"), 20_000);
    server.assert_log_is_clean();
}

/// What the manual says of the size of the board is what the server allocates, within a fiftieth.
#[test]
fn board_has_the_size_that_the_manual_tells() {
    const PAGE: &str = include_str!("../../../docs/guides/server/sizing.md");
    let allocated = |slots: i64| -> f64 {
        let server = Server::start(&[&format!("scylla.board_size = {slots}")]);
        let sql =
            "select sum(allocated_size)::float8 from pg_shmem_allocations where name = 'scylla'";
        server.connect().value(sql, &[])
    };
    // As in `12.5 MB, and 1232 bytes for each slot`.
    let told = |before: &str| -> f64 {
        let at = PAGE.find(before).unwrap_or_else(|| panic!("the page does not tell: {before}"));
        let number = PAGE[..at].rsplit([' ', '\n']).next().unwrap();
        number.parse().unwrap_or_else(|_| panic!("{number} {before}"))
    };
    let (small, usual) = (allocated(64), allocated(131_072));
    let slot = (allocated(1 << 20) - usual) / f64::from((1 << 20) - 131_072);
    for (what, told, is) in [
        ("without slots", told(" MB, and "), small / 1e6),
        ("a slot", told(" bytes for each slot"), slot),
        ("the default", told(" MB for the default"), usual / 1e6),
    ] {
        assert!((told / is - 1.0).abs() < 0.02, "{what}: the manual says {told}, it is {is}");
    }
}
