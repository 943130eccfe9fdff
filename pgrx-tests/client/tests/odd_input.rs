//! Odd or large but valid input: exact limits, quotes, Unicode, empty and huge arrays.

use client::*;
use std::time::{Duration, Instant};

const ODD: [&str; 9] = [
    "it's",
    "100%",
    "a\"b",
    "$1",
    "\\",
    "ünïcode 🦑",
    "; drop table scylla.task; --",
    "a\nb\tc",
    " ",
];

/// Names are returned byte for byte, and match only themselves.
#[test]
fn odd_names_are_plain_names() {
    let database = database();
    let mut s = database.connect();
    for odd in ODD {
        let sql = "select scylla.submit($1, jsonb_build_object('text', $1::text), action => $1)";
        let id: Uuid = s.value(sql, &[&odd]);
        let lease = {
            let sql = "select token from scylla.own_tasks($1, $1, actions => array[$1::text])";
            let token: Uuid = s.value(sql, &[&odd]);
            Lease {
                id,
                token,
                action: odd.to_owned(),
                spec: json!({}),
                priority: 0,
                tries: 1,
                num_failures: 0,
                seconds_left: None,
            }
        };
        let entry = s.entry(id);
        for field in ["queue", "action", "owner"] {
            assert_eq!(entry[field], odd, "{field}");
        }
        assert_eq!(entry["spec"]["text"], odd);
        assert_eq!(entry["history"][0]["worker"], odd);
        s.complete(&lease);
        assert_eq!(s.entry(id)["owner"], odd);
    }
}

/// Lengths are in bytes, and the limits themselves are allowed.
#[test]
fn limits_themselves_are_allowed() {
    let database = database();
    let mut s = database.connect();
    for call in [
        "scylla.submit(repeat('q', 48))",
        "scylla.submit(repeat('é', 24))",
        "scylla.submit('q', action => repeat('a', 128))",
        "scylla.submit('q', action => repeat('🦑', 32))",
        "scylla.submit('q', priority => 4294967295)",
        "scylla.submit('q', priority => 0)",
        "scylla.submit('q', max_tries => 1)",
        "scylla.submit('q', max_tries => 2147483647)",
        "scylla.submit('q', timeout => '1 us')",
        "scylla.submit('q', timeout => '178000000 years')",
        "scylla.submit('q', retry_interval => '0', retry_jitter => '0')",
        "scylla.submit('q', id => '00000000-0000-0000-0000-000000000000')",
        "scylla.submit('q', id => 'ffffffff-ffff-ffff-ffff-ffffffffffff')",
        "scylla.submit('q', to_jsonb(repeat('x', 900000)))",
        "scylla.submit('q', '[]')",
        "scylla.submit('q', 'false')",
        "scylla.submit('q', '0')",
        "scylla.submit_many('q', array['0', to_jsonb(repeat('x', 900000))], repeat('a', 128), 4294967295)",
    ] {
        s.run(&format!("select {call}"));
    }
    let worker = "w".repeat(128);
    assert_eq!(s.own_with(&worker, "q", i32::MAX, "timeout => '1 hour'").len(), 17);
    assert_eq!(
        s.value::<i64>("select count(*) from scylla.tasks where owner = $1", &[&worker]),
        17
    );
}

/// Calls with empty arrays return empty arrays. A null array counts as empty, since `array_agg`
/// over no row returns null.
#[test]
fn empty_arrays_answer_nothing() {
    let database = database();
    let mut s = database.connect();
    s.submit("q");
    for call in [
        "scylla.extend_tasks('{}', '{}')",
        "scylla.return_tasks('{}', '{}')",
        "scylla.return_tasks('{}', '{}', 'aborted', errors => '{}')",
        "scylla.cancel_tasks('{}')",
        "scylla.extend_tasks(null, null)",
        "scylla.extend_tasks('{}', null)",
        "scylla.return_tasks(null, null)",
        "scylla.return_tasks(null, '{}', 'aborted', errors => '{}')",
        "scylla.cancel_tasks(null)",
        "scylla.cancel_tasks((select array_agg(id) from scylla.tasks where queue = 'none'))",
    ] {
        assert_eq!(s.text(&format!("select {call}::text")), "{}", "{call}");
    }
    for call in [
        "scylla.add_dependencies(null, null)",
        "scylla.add_dependencies('{}', null)",
        "scylla.delete_tasks(null)",
        "scylla.delete_tasks('{}')",
    ] {
        assert_eq!(s.value::<i32>(&format!("select {call}"), &[]), 0, "{call}");
    }
    assert_eq!(s.count("select count(*) from scylla.submit_tasks('[]')"), 0);
    assert_eq!(s.count("select count(*) from scylla.submit_tasks('[]', atomic => false)"), 0);
    assert_eq!(s.own("w", "q", 5).len(), 1);
}

/// Arrays may begin at any index.
#[test]
fn array_bounds_do_not_matter() {
    let database = database();
    let mut s = database.connect();
    s.submit_many("q", 2);
    let leases = s.own("w", "q", 2);
    let arrays = format!(
        "'[5:6]={{{},{}}}'::uuid[], '[-3:-2]={{{},{}}}'::uuid[]",
        leases[0].id, leases[1].id, leases[0].token, leases[1].token
    );
    assert_eq!(
        s.text(&format!("select array_to_string(scylla.extend_tasks({arrays}), ',')")),
        "t,t"
    );
    let returned = s.text(&format!("select array_to_string(scylla.return_tasks({arrays}), ',')"));
    assert_eq!(returned, "completed,completed");
}

/// Each call that takes an array handles 100,000 elements, skips none, and takes about ten times as
/// long as with 10,000: what looks at each pair would take a hundred times as long.
#[test]
fn hundred_thousand_elements_pass_through_each_call() {
    let less = elements_pass_through_each_call(10_000);
    let more = elements_pass_through_each_call(100_000);
    assert!(more < seconds(5) + 30 * less, "took {less:?} and {more:?}");
}

fn elements_pass_through_each_call(n: i32) -> Duration {
    let database = database();
    let mut s = database.connect();
    let started = Instant::now();
    assert_eq!(s.submit_many("q", n).len(), n as usize);
    s.run(&format!("create temp table l as select id, token, deadline from scylla.own_tasks('w', 'q', {n}, timeout => '1 hour')"));
    assert_eq!(s.count("select count(distinct id) from l"), i64::from(n));
    let arrays =
        "(select array_agg(id order by id) from l), (select array_agg(token order by id) from l)";
    let extended =
        format!("select count(*) from unnest(scylla.extend_tasks({arrays}, '2 hours')) a where a");
    assert_eq!(s.count(&extended), i64::from(n));
    let wrong =
        "(select array_agg(id order by id) from l), (select array_agg(gen_random_uuid()) from l)";
    assert_eq!(
        s.count(&format!(
            "select count(*) from unnest(scylla.return_tasks({wrong})) a where a is not null"
        )),
        0
    );
    let results = "results => (select array_agg(to_jsonb(id) order by id) from l)";
    let returned = format!(
        "select count(*) from unnest(scylla.return_tasks({arrays}, {results})) a where a = 'completed'"
    );
    assert_eq!(s.count(&returned), i64::from(n));
    let right = "select count(*) from scylla.tasks where status::text = 'completed' and result = to_jsonb(id)";
    assert_eq!(s.count(right), i64::from(n));
    assert_eq!(s.submit_many("q", n).len(), n as usize);
    let cancelled = "select count(*) from unnest(scylla.cancel_tasks(array(select id from scylla.tasks where status::text = 'ready'))) a where a";
    assert_eq!(s.count(cancelled), i64::from(n));
    assert!(s.own("w", "q", 10).is_empty());
    started.elapsed()
}

/// I2: one bad element among 100,000 leaves nothing behind.
#[test]
fn one_bad_element_among_many_leaves_nothing() {
    let database = database();
    let mut s = database.connect();
    let sql = "select * from scylla.submit_tasks((select jsonb_agg(jsonb_build_object('queue', 'q', 'priority', i)) from generate_series(99998, -1, -1) i))";
    assert_eq!(s.refusal(sql, &[]).code().code(), "22023");
    assert_eq!(s.count("select count(*) from scylla.tasks"), 0);
    assert!(s.own("w", "q", 10).is_empty());
}

/// I7: no token appears in a log or an error, even on a server that logs every statement with its
/// parameters.
#[test]
fn no_token_is_in_any_log_or_complaint() {
    let server = Server::start(&[
        "log_min_messages = debug1",
        "log_min_error_statement = error",
        "log_statement = all",
        "scylla.persist_leases_after = '100 ms'",
    ]);
    let database = server.database();
    let mut s = database.connect();
    // the server logs the parameters of statements only when it is told to; scylla logs none
    s.run("set log_statement = 'none'; set log_parameter_max_length = 0");
    let mut tokens = Vec::new();
    let mut complaints = String::new();
    for round in 0..4 {
        let id = s.submit("q");
        let timeout = if round == 0 { "300 ms" } else { "1 minute" };
        let lease = s.own_one_with("q", &format!("timeout => '{timeout}'"));
        let forged = Lease { token: Uuid::new_v4(), ..lease.clone() };
        for error in [s.not_returned(&forged), failure(s.try_own_task(id), "own_task")] {
            complaints += &format!("{error:?}");
        }
        if round == 0 {
            eventually(seconds(3), "it expires", || (s.status(id) == "ready").then_some(()));
        }
        s.return_task(&lease, ["completed", "aborted", "completed", "aborted"][round]).unwrap();
        complaints += &format!("{:?}", s.not_returned(&lease));
        tokens.extend([lease.token, forged.token]);
    }
    s.submit("q");
    let lease = s.own_one_with("q", "timeout => '1 minute'");
    tokens.push(lease.token);
    // not their number: a lease that ended a moment ago may be among the rows
    let written = format!("select count(*) from scylla.lease where id = '{}'", lease.id);
    eventually(seconds(5), "the lease is written", || (s.count(&written) == 1).then_some(()));
    let tables = s.text(
        "select (select string_agg(t::text, '') from scylla.task t) || (select string_agg(t::text, '') from scylla.finished t)
             || (select string_agg(t::text, '') from scylla.lease t) || (select string_agg(t::text, '') from scylla.tasks t)",
    );
    server.stop("fast");
    let log = server.log();
    for token in tokens {
        for form in [token.to_string(), token.simple().to_string()] {
            assert!(!complaints.contains(&form), "a token in a complaint");
            assert!(!log.contains(&form), "a token in the log");
            assert!(!tables.contains(&form), "a token in a table");
        }
    }
    server.assert_log_is_clean();
}
