//! Submitting writes the table directly, without the executor. The result equals that of the SQL
//! statement, which inserts tasks that may be duplicates.

use client::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Whether this session has inserted a task by the statement: its plan is kept.
fn used_statement(s: &mut Session) -> bool {
    s.value(
        "select count(*) > 0 from pg_backend_memory_contexts where ident like '-- Inserts tasks.%'",
        &[],
    )
}

/// Asserts that each index of the table of live tasks has the right entry for each row.
#[track_caller]
fn check_indexes(s: &mut Session) {
    let checked = s.check_indexes("i.indrelid = 'scylla.task'::regclass and i.indisvalid");
    assert!(checked > 8, "{checked}");
}

/// Asserts that each index of the table of live tasks, to which rows were only added, has as many
/// entries as there are rows for it.
#[track_caller]
fn count_entries(s: &mut Session) {
    s.run("create extension if not exists pgstattuple");
    let exact: Vec<bool> = s.value(
        "select array_agg((pgstattuple(i.indexrelid)).tuple_count = rows::text::bigint)
         from pg_index i, lateral xpath('//n/text()', query_to_xml(format(
             'select count(*) as n from scylla.task where %s', coalesce(pg_get_expr(indpred, indrelid), 'true')
         ), false, true, '')) x (found), unnest(found) rows
         where indrelid = 'scylla.task'::regclass",
        &[],
    );
    assert!(exact.len() > 8 && !exact.contains(&false), "{exact:?}");
}

/// What can be submitted without an id and a key.
const TASKS: &str = r#"[
    {"queue": "q"},
    {"queue": "q", "spec": {"n": [1, null]}, "action": "act", "priority": 4294967295},
    {"queue": "q", "max_tries": 3, "timeout": "1 h", "retry_interval": "1 ms", "retry_jitter": "1 us",
     "post_result": true},
    {"queue": "q", "run_at": "2020-01-01Z"},
    {"queue": "q", "run_at": "2100-01-01Z", "group_key": "late"},
    {"queue": "q", "group_key": "a group", "spec": 7},
    {"queue": "q", "group_key": "a group", "action": "other"}
]"#;

/// The rows of all live tasks in the order of age, without what differs each time.
fn rows(s: &mut Session) -> Value {
    s.value(
        "select jsonb_agg(to_jsonb(t) - '{id, created, updated}'::text[] || jsonb_build_object(
             'early', updated <= created, 'now', updated between now() - interval '1 minute' and clock_timestamp(),
             'spec', case when length(spec::text) > 1000 then to_jsonb(md5(spec::text)) else spec end)
             order by created)
         from scylla.task t",
        &[],
    )
}

/// With ids of their own, tasks are inserted by the statement.
fn submit_all(database: &Database, statement: bool) -> Value {
    let mut s = database.connect();
    s.run("delete from scylla.task; select scylla.refresh()");
    let [more, ids, id] = match statement {
        true => [
            "jsonb_build_object('id', gen_random_uuid())",
            ", ids => array_agg(gen_random_uuid())",
            ", id => gen_random_uuid()",
        ],
        false => ["'{}'", "", ""],
    };
    let all = format!(
        "select count(*) from scylla.submit_tasks((select jsonb_agg(e || {more} order by n)
             from jsonb_array_elements('{TASKS}') with ordinality e (e, n)))"
    );
    assert_eq!(s.count(&all), 7);
    // more rows, and more bytes, than are written at once
    s.run(&format!(
        "select scylla.submit_many('q', array_agg(to_jsonb(n) order by n){ids}) from generate_series(1, 1000) n"
    ));
    s.run(&format!(
        "select scylla.submit_many('big', array_agg(jsonb_build_object('s', repeat('compress me ', 3000 + n::int),
             'n', n) order by n), group_keys => array_agg('g' || n % 3){ids}) from generate_series(1, 20) n"
    ));
    // stored outside of the row
    s.run(&format!(
        "select scylla.submit_many('big', array_agg(s order by s <> '{{}}' desc){ids})
         from (select jsonb_agg(encode(sha512(n::text::bytea), 'base64')) from generate_series(1, 3000) n
               union all select '{{}}') x (s)"
    ));
    s.run(&format!("select scylla.submit('q', action => 'single'{id})"));
    assert_eq!(used_statement(&mut s), statement);
    rows(&mut s)
}

#[test]
fn submitted_tasks_are_the_same_both_ways() {
    let database = database();
    let direct = submit_all(&database, false);
    let mut s = database.connect();
    check_indexes(&mut s);
    count_entries(&mut s);
    let owned = s.own("w", "q", 2000);
    assert_eq!(owned.len(), 7 - 1 + 1000 + 1, "all but the late one");
    let by_statement = submit_all(&database, true);
    assert_eq!(direct, by_statement);
    assert_eq!(direct.as_array().expect("rows").len(), 7 + 1000 + 20 + 2 + 1);
    for row in direct.as_array().expect("rows") {
        assert_eq!((&row["early"], &row["now"]), (&json!(true), &json!(true)), "{row}");
    }
    check_indexes(&mut s);
    Server::shared().assert_log_is_clean();
}

/// What makes a duplicate possible, or is rare, is the statement's.
#[test]
fn statement_inserts_what_may_be_a_duplicate() {
    let database = database();
    for (call, statement) in [
        ("scylla.submit_many('q', array['1', '2']::jsonb[])", false),
        (
            "scylla.submit_many('q', array['1', '2']::jsonb[], group_keys => array['g', null])",
            false,
        ),
        (
            "scylla.submit_many('q', array['1', '2']::jsonb[], ids => array[gen_random_uuid(), null])",
            true,
        ),
        ("scylla.submit_many('q', array['1', '2']::jsonb[], keys => array[null, 'k'])", true),
        ("scylla.submit('q', after => array[gen_random_uuid()])", true),
    ] {
        let mut s = database.connect();
        s.run(&format!("select {call}"));
        assert_eq!(used_statement(&mut s), statement, "{call}");
    }
}

/// A change of the table: how to make it, what must be true of a submitted task, and how to undo
/// the change.
const CHANGES: [(&str, &str, &str); 7] = [
    ("select 1", "ready and errors = '[]' and tries = 0", "select 1"),
    (
        "alter table scylla.task add column note text default 'noted'",
        "note = 'noted'",
        "alter table scylla.task drop column note",
    ),
    // the column dropped by the previous change has no effect
    ("select 1", "spec = '1'", "select 1"),
    (
        "alter table scylla.task alter max_tries set default 7",
        "max_tries is null",
        "alter table scylla.task alter max_tries drop default",
    ),
    ("create unique index one on scylla.task (created, id)", "true", "drop index scylla.one"),
    (
        "create function is_one(jsonb) returns boolean language plpgsql immutable as
             'begin return $1 = ''1'' and current_user <> ''inserter''; end';
         create index ones on scylla.task (queue) where is_one(spec);
         create index same on scylla.task (is_one(spec))",
        "is_one(spec)",
        "drop index scylla.ones; drop index scylla.same",
    ),
    (
        "create index inverted on scylla.task using gin (spec)",
        "spec @> '1'",
        "drop index scylla.inverted",
    ),
];

#[test]
fn tasks_are_submitted_to_changed_tables() {
    let database = database();
    let mut admin = database.connect();
    admin.run("create role inserter; select scylla.grant('q', 'inserter', '{submit}')");
    // a session that has submitted a task before must notice each change
    let mut old = database.connect();
    old.submit("old");
    for (change, truth, back) in CHANGES {
        admin.run(change);
        let mut new = database.connect();
        new.run("set role inserter");
        for s in [&mut new, &mut old] {
            let many = "select scylla.submit_many('q', array['1', '1']::jsonb[])";
            let ids: Vec<Uuid> = s.value(many, &[]);
            let one: Uuid = s.value("select scylla.submit('q', '1')", &[]);
            for id in [ids[0], ids[1], one] {
                let sql = format!(
                    "select {truth} and $1::uuid is not null from scylla.task where id = $1"
                );
                assert!(admin.value::<bool>(&sql, &[&id]), "{change}");
            }
        }
        new.run("reset role");
        assert!(!used_statement(&mut new), "{change}");
        check_indexes(&mut admin);
        admin.run("set enable_seqscan = off");
        let through = "select count(*) from scylla.task where is_one(spec) and queue = 'q'";
        if change.contains("is_one") {
            assert_eq!(
                admin.count(through),
                admin.count("select count(*) from scylla.task where spec = '1'")
            );
        }
        admin.run("reset enable_seqscan");
        admin.run(back);
    }
    admin.run("drop owned by inserter; drop role inserter");
    Server::shared().assert_log_is_clean();
}

#[test]
fn refused_row_leaves_nothing() {
    let database = database();
    let mut s = database.connect();
    for (change, code, back) in [
        (
            "alter table scylla.task add constraint never check (false) not valid",
            "55000",
            "alter table scylla.task drop constraint never",
        ),
        (
            "alter table scylla.task alter group_key set not null",
            "55000",
            "alter table scylla.task alter group_key drop not null",
        ),
        ("create unique index one on scylla.task (queue)", "23505", "drop index scylla.one"),
    ] {
        s.run(change);
        let refused = s.refused("select scylla.submit_many('q', array['1', '1']::jsonb[])");
        assert_eq!(refused, code, "{change}");
        assert_eq!(s.count("select count(*) from scylla.task"), 0, "{change}");
        s.run(back);
    }
    assert!(s.own("w", "q", 1).is_empty());
    Server::shared().assert_log_is_clean();
}

/// I2: what a savepoint takes back is not offered, and the rest is.
#[test]
fn rolled_back_batch_leaves_nothing() {
    let database = database();
    let mut s = database.connect();
    s.run("begin");
    let kept = s.submit_many("q", 300);
    s.run("savepoint a");
    s.submit_many("q", 300);
    assert_eq!(s.count("select count(*) from scylla.task"), 600, "the transaction sees its own");
    s.run("rollback to a");
    assert_eq!(s.count("select count(*) from scylla.task"), 300);
    s.run("commit; begin");
    s.submit_many("q", 300);
    s.run("rollback");
    let mut owned: Vec<Uuid> = s.own("w", "q", 2000).iter().map(|it| it.id).collect();
    owned.sort_unstable();
    assert!(owned == kept, "each once, in the order of the ids");
    assert!(!used_statement(&mut s));
    check_indexes(&mut s);
}

/// A session knows the indexes of the table. One that is made, or made again, while sessions submit
/// has each row nevertheless.
#[test]
fn indexes_change_while_tasks_are_submitted() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    let ends = Arc::new(AtomicBool::new(false));
    let submitters: Vec<_> = (0..3)
        .map(|n| {
            let (mut s, ends) = (database.connect(), ends.clone());
            thread::spawn(move || {
                let mut submitted = 0;
                while !ends.load(Ordering::Relaxed) {
                    submitted += s.submit_many("q", if n == 0 { 1 } else { 50 }).len();
                }
                assert!(!used_statement(&mut s));
                submitted as i64
            })
        })
        .collect();
    for _ in 0..3 {
        s.run("create index concurrently extra on scylla.task (updated)");
        check_indexes(&mut s);
        s.run("reindex index concurrently scylla.task_lane");
        s.run("drop index concurrently scylla.extra");
        s.run("create index extra on scylla.task (queue) where ready");
        s.run("reindex table scylla.task");
        check_indexes(&mut s);
        s.run("drop index scylla.extra");
    }
    ends.store(true, Ordering::Relaxed);
    let submitted: i64 = submitters.into_iter().map(|it| it.join().expect("it submits")).sum();
    assert_eq!(s.count("select count(*) from scylla.task"), submitted);
    check_indexes(&mut s);
    server.assert_log_is_clean();
}

/// What evaluates the indexes' expressions is used again by a submission within a function of
/// theirs.
#[test]
fn index_function_may_submit() {
    let database = database();
    let mut s = database.connect();
    s.submit_many("q", 1);
    s.run(
        "create function nest(spec jsonb) returns boolean language plpgsql immutable as $$ begin
             if spec ? 'outer' and current_setting('test.nest', true) = 'on' then
                 perform scylla.submit_many('inner', array['{\"n\": 1}', '{\"n\": 2}']::jsonb[]);
             end if;
             return true;
         end $$;
         create index nested on scylla.task ((spec ->> 'n')) where nest(spec);
         set test.nest = on",
    );
    let outer = r#"array['{"outer": true, "n": 7}', '{"outer": true, "n": 8}']::jsonb[]"#;
    s.run(&format!("select scylla.submit_many('q', {outer})"));
    s.run("set test.nest = off; set enable_seqscan = off; analyze scylla.task");
    for (n, count) in [(1, 2), (2, 2), (7, 1), (8, 1)] {
        let query =
            format!("select count(*) from scylla.task where nest(spec) and spec ->> 'n' = '{n}'");
        let plan = s.value::<Value>(&format!("explain (format json) {query}"), &[]).to_string();
        assert!(plan.contains("nested"), "{plan}");
        assert_eq!(s.count(&query), count, "{n}");
    }
    assert!(!used_statement(&mut s));
    check_indexes(&mut s);
}
