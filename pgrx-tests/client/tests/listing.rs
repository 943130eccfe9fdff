//! `list_tasks`: what a filter takes, the order of pages, and what a page may cost.

use client::*;
use std::collections::HashSet;

/// The ids of a page.
fn page(s: &mut Session, filter: &str, after: Option<Uuid>, most: i32) -> Vec<Uuid> {
    let sql = format!("select array(select id from scylla.list_tasks('{filter}', $1, $2))");
    s.value(&sql, &[&after, &most])
}

fn all(s: &mut Session, filter: &str) -> Vec<Uuid> {
    page(s, filter, None, 100_000)
}

/// The ids of all pages of so many tasks.
fn pages(s: &mut Session, filter: &str, most: i32) -> Vec<Uuid> {
    let mut ids = page(s, filter, None, most);
    while let Some(last) = ids.last().copied() {
        let next = page(s, filter, Some(last), most);
        if next.is_empty() {
            break;
        }
        ids.extend(next);
    }
    ids
}

/// What the view shows of the tasks that satisfy a condition, in an order.
fn shown(s: &mut Session, condition: &str, order: &str) -> Vec<Uuid> {
    let sql =
        format!("select array(select id from scylla.tasks where {condition} order by {order})");
    s.value(&sql, &[])
}

const NEWEST: &str = "created desc, id desc";
const LATEST: &str = "updated desc, created desc, id desc";

/// Tasks of every kind, in three queues.
fn fill(s: &mut Session) {
    s.run("select scylla.configure_queue('ordered', max_running_per_group => 1)");
    for n in 0..60 {
        let queue = ["plain", "ordered", "small"][if n % 20 == 0 { 2 } else { n % 2 }];
        let mut options = format!(
            "priority => {}, action => 'a{}', spec => '{{\"n\": {n}, \"third\": {}}}'",
            n % 4,
            n % 3,
            n % 3 == 0
        );
        if n % 3 == 0 {
            options += &format!(", group_key => 'g{}'", n % 2);
        }
        if n % 7 == 0 {
            options += ", run_at => now() + interval '1 day'";
        }
        if n % 5 == 0 {
            options += &format!(", key => 'k{n}', meta => '{{\"tag\": \"five\"}}'");
        }
        s.submit_with(queue, &options);
    }
    for (worker, queue) in [("w1", "plain"), ("w2", "ordered"), ("w1", "small")] {
        for outcome in ["completed", "aborted", "retry"] {
            for lease in s.own(worker, queue, 2) {
                s.return_task(&lease, outcome).expect("a valid lease");
            }
        }
        s.own_with(worker, queue, 2, "timeout => '1 day'");
    }
    for id in shown(s, "queue = 'plain' and status = 'ready'", "id").into_iter().take(3) {
        assert!(s.cancel(id));
    }
}

/// A page has what the view shows of the tasks that the filter takes, by each member and by
/// several.
#[test]
fn a_filter_takes_what_the_view_shows() {
    let database = database();
    let mut s = database.connect();
    fill(&mut s);
    let middle = s.text("select (array_agg(created order by created))[30]::text from scylla.tasks");
    let before = format!("{{\"created_before\": \"{middle}\"}}");
    let between = format!("{{\"created_after\": \"{middle}\", \"queue\": \"plain\"}}");
    let after = format!("{{\"created_after\": \"{middle}\", \"status\": \"completed\"}}");
    let (is_before, is_after) = (format!("created < '{middle}'"), format!("created > '{middle}'"));
    let (in_plain, completed) =
        (format!("{is_after} and queue = 'plain'"), format!("{is_after} and status = 'completed'"));
    let filters = [
        ("{}", "true"),
        (r#"{"queue": "plain"}"#, "queue = 'plain'"),
        (r#"{"queue": "ordered"}"#, "queue = 'ordered'"),
        (r#"{"queue": "none"}"#, "false"),
        (r#"{"status": "waiting"}"#, "status = 'waiting'"),
        (r#"{"status": "ready"}"#, "status = 'ready'"),
        (r#"{"status": "running"}"#, "status = 'running'"),
        (r#"{"status": "completed"}"#, "status = 'completed'"),
        (r#"{"status": "aborted"}"#, "status = 'aborted'"),
        (r#"{"status": "cancelled"}"#, "status = 'cancelled'"),
        (r#"{"status": "ready", "queue": "ordered"}"#, "status = 'ready' and queue = 'ordered'"),
        (r#"{"status": "aborted", "queue": "small"}"#, "status = 'aborted' and queue = 'small'"),
        (r#"{"action": "a1"}"#, "action = 'a1'"),
        (r#"{"queue": "plain", "action": "a1"}"#, "queue = 'plain' and action = 'a1'"),
        (r#"{"group_key": "g1"}"#, "group_key = 'g1'"),
        (r#"{"queue": "ordered", "group_key": "g1"}"#, "queue = 'ordered' and group_key = 'g1'"),
        (
            r#"{"queue": "plain", "group_key": "g0", "status": "waiting"}"#,
            "queue = 'plain' and group_key = 'g0' and status = 'waiting'",
        ),
        (
            r#"{"queue": "ordered", "group_key": "g1", "status": "ready"}"#,
            "queue = 'ordered' and group_key = 'g1' and status = 'ready'",
        ),
        (r#"{"key": "k10"}"#, "key = 'k10'"),
        (r#"{"key": "k15", "status": "ready"}"#, "key = 'k15' and status = 'ready'"),
        (r#"{"key": "k35", "status": "waiting"}"#, "key = 'k35' and status = 'waiting'"),
        (r#"{"worker": "w1"}"#, "owner = 'w1'"),
        (r#"{"worker": "w2", "status": "running"}"#, "owner = 'w2' and status = 'running'"),
        (r#"{"worker": "w2", "status": "aborted"}"#, "owner = 'w2' and status = 'aborted'"),
        (r#"{"worker": "w2", "status": "ready"}"#, "false"),
        (r#"{"spec": {"third": true}}"#, "spec @> '{\"third\": true}'"),
        (
            r#"{"meta": {"tag": "five"}, "queue": "plain"}"#,
            "meta @> '{\"tag\": \"five\"}' and queue = 'plain'",
        ),
        (r#"{"meta": {}}"#, "meta is not null"),
        (before.as_str(), is_before.as_str()),
        (between.as_str(), in_plain.as_str()),
        (after.as_str(), completed.as_str()),
    ];
    for (filter, condition) in filters {
        let settled = ["completed", "aborted", "cancelled"].iter().any(|it| filter.contains(it));
        let wanted = shown(&mut s, condition, if settled { LATEST } else { NEWEST });
        assert_eq!(all(&mut s, filter), wanted, "{filter}");
        assert_eq!(pages(&mut s, filter, 4), wanted, "{filter} in pages");
        if !wanted.is_empty() {
            assert_eq!(page(&mut s, filter, None, 1), wanted[..1], "{filter}, the first");
        }
    }
    assert!(!all(&mut s, r#"{"status": "waiting"}"#).is_empty());
    assert!(!all(&mut s, r#"{"worker": "w1"}"#).is_empty());
    // The rows are those of the view.
    let differing = s.count(
        "select count(*) from scylla.list_tasks('{}') l
         full join scylla.tasks t using (id) where to_jsonb(l) is distinct from to_jsonb(t)",
    );
    assert_eq!(differing, 0);
}

/// Tasks that settle, are owned, or wait between two pages are neither missed nor shown twice.
#[test]
fn pages_show_each_task_once_though_tasks_settle() {
    let database = database();
    let (mut s, mut worker) = (database.connect(), database.connect());
    let wanted: HashSet<Uuid> = s.submit_many("q", 200).into_iter().collect();
    let mut seen = Vec::new();
    let mut last = None;
    loop {
        let next = page(&mut s, r#"{"queue": "q"}"#, last, 20);
        let Some(id) = next.last().copied() else { break };
        last = Some(id);
        seen.extend(next);
        // Also the last task of the page.
        worker.cancel(id);
        for (at, lease) in worker.own("w", "q", 12).iter().enumerate() {
            worker.return_task(lease, ["completed", "aborted", "yield"][at % 3]).expect("a lease");
        }
        worker.own("w", "q", 3);
        worker.submit("q");
    }
    let distinct: HashSet<Uuid> = seen.iter().copied().collect();
    assert_eq!(distinct.len(), seen.len(), "a task was shown twice");
    assert!(wanted.is_subset(&distinct), "a task was missed");
}

/// Each wrong member, argument and place is an error that names it.
#[test]
fn bad_filters_are_refused() {
    let database = database();
    let mut s = database.connect();
    let live = s.submit("q");
    let long = format!("{{\"queue\": \"{}\"}}", "q".repeat(49));
    let refused = [
        ("null", "22004", "filter must not be null"),
        ("'null'", "22023", "filter must be an object"),
        ("'[]'", "22023", "filter must be an object"),
        ("'\"queue\"'", "22023", "filter must be an object"),
        (r#"'{"quue": "q"}'"#, "22023", "\"quue\""),
        (r#"'{"": "q"}'"#, "22023", "unrecognized member of a filter: \"\""),
        (r#"'{"queue": null}'"#, "22023", "queue must not be JSON null"),
        (r#"'{"queue": ["q"]}'"#, "22023", "queue must be a string"),
        (r#"'{"queue": ""}'"#, "22023", "queue must be 1 to 48 bytes long"),
        (&format!("'{long}'"), "22023", "queue must be 1 to 48 bytes long"),
        (r#"'{"status": "done"}'"#, "22023", "unrecognized value for status: \"done\""),
        (r#"'{"status": ["ready"]}'"#, "22023", "status must be a string"),
        (r#"'{"action": 1}'"#, "22023", "action must be a string"),
        (r#"'{"group_key": ""}'"#, "22023", "group_key must be 1 to 256 bytes long"),
        (r#"'{"key": {}}'"#, "22023", "key must be a string"),
        (r#"'{"worker": true}'"#, "22023", "worker must be a string"),
        (r#"'{"created_before": 1}'"#, "22023", "created_before must be a timestamptz"),
        (r#"'{"created_before": "soon"}'"#, "22023", "created_before must be a timestamptz"),
        (r#"'{"created_after": "infinity"}'"#, "22023", "created_after must be finite"),
        (
            r#"'{"created_after": "99999999-01-01"}'"#,
            "22023",
            "created_after must be a timestamptz",
        ),
        (r#"'{"spec": null}'"#, "22023", "spec must not be JSON null"),
        (r#"'{"meta": [1]}'"#, "22023", "meta must be an object"),
        (r#"'{"queue": "a\u0000b"}'"#, "22P05", "unsupported Unicode escape"),
        (r#"jsonb_build_object('spec', repeat('x', 2000000))"#, "54000", "filter is too large"),
    ];
    for function in ["list_tasks", "cancel_matching", "resubmit_matching", "delete_matching"] {
        for (filter, code, message) in refused {
            let error = s.refusal(&format!("select scylla.{function}({filter})"), &[]);
            assert_eq!(error.code().code(), code, "{function}({filter}): {error}");
            assert!(error.message().contains(message), "{function}({filter}): {error}");
        }
    }
    for (arguments, code) in [
        ("'{}', null, 0", "22023"),
        ("'{}', null, -1", "22023"),
        ("'{}', null, null", "22004"),
        ("'{}', gen_random_uuid()", "P0002"),
        (&format!("'{{\"status\": \"aborted\"}}', '{live}'"), "55000"),
    ] {
        assert_eq!(
            s.refused(&format!("select scylla.list_tasks({arguments})")),
            code,
            "{arguments}"
        );
    }
    assert_eq!(s.status(live), "ready");
    // Deep and odd values are only compared.
    let deep = format!("{{\"spec\": {}1{}}}", "[".repeat(1_000), "]".repeat(1_000));
    assert!(all(&mut s, &deep).is_empty());
    assert!(all(&mut s, r#"{"spec": 1e400}"#).is_empty());
    assert_eq!(all(&mut s, r#"{"spec": {}}"#), [live]);
    assert_eq!(page(&mut s, "{}", None, i32::MAX), [live]);
}

/// A role sees the tasks of the queues that it may look at, and no command of another role.
#[test]
fn a_role_sees_what_the_view_shows_it() {
    let database = database();
    let mut s = database.connect();
    s.run("create role looks_at_one; select scylla.grant('one', 'looks_at_one', '{look}')");
    s.run("create role looks_at_none");
    let one = s.submit("one");
    let hidden = s.submit("two");
    let aborted = s.submit("two");
    s.end(aborted, "aborted");
    s.run("set role looks_at_one");
    for filter in ["{}", r#"{"status": "ready"}"#, r#"{"spec": {}}"#, r#"{"queue": "one"}"#] {
        assert_eq!(all(&mut s, filter), [one], "{filter}");
    }
    assert!(all(&mut s, r#"{"status": "aborted"}"#).is_empty());
    assert_eq!(s.refused("select scylla.list_tasks('{\"queue\": \"two\"}')"), "42501");
    assert_eq!(s.refused(&format!("select scylla.list_tasks('{{}}', '{hidden}')")), "42501");
    s.run("reset role; set role looks_at_none");
    assert_eq!(s.refused("select scylla.list_tasks('{}')"), "42501");
    s.run("reset role");
    s.run("select scylla.grant('sql', 'looks_at_one', '{look}')");
    s.run("select scylla.run_sql('select 1', run_at => now() + interval '1 day')");
    let command = "select coalesce(string_agg(command, ', '), 'none') from scylla.list_tasks('{\"queue\": \"sql\"}')";
    assert_eq!(s.text(command), "select 1");
    s.run("set role looks_at_one");
    assert_eq!(s.text(command), "none");
    s.run("reset role");
}

/// What this transaction has done shows; a read-only transaction may look.
#[test]
fn a_page_shows_what_the_transaction_has_done() {
    let database = database();
    let mut s = database.connect();
    let (first, second) = (s.submit("q"), s.submit("q"));
    s.run("begin");
    let third = s.submit("q");
    s.cancel(first);
    assert_eq!(s.own("w", "q", 1)[0].id, second);
    assert_eq!(all(&mut s, r#"{"queue": "q"}"#), [third, second, first]);
    assert_eq!(all(&mut s, r#"{"status": "running"}"#), [second]);
    assert_eq!(all(&mut s, r#"{"status": "cancelled"}"#), [first]);
    let mut other = database.connect();
    // Reserved by the open transaction: ready, with its owner.
    assert_eq!(all(&mut other, r#"{"queue": "q", "status": "ready"}"#), [second, first]);
    assert_eq!(all(&mut other, r#"{"worker": "w"}"#), [second]);
    s.run("rollback");
    s.run("begin transaction read only isolation level repeatable read");
    assert_eq!(all(&mut s, "{}"), [second, first]);
    s.run("commit");
}

/// Many tasks: a page reads few rows, wherever it begins, and says where it would read many.
#[test]
fn a_page_reads_little_however_many_tasks_there_are() {
    let database = database();
    let mut s = database.connect();
    s.submit("few");
    for _ in 0..4 {
        s.value::<i64>(
            "select cardinality(scylla.submit_many('many', array_fill('{\"n\": 1}'::jsonb, array[10000])))::bigint",
            &[],
        );
    }
    s.value::<Vec<Uuid>>(
        "select scylla.submit_many('groups', array_fill('{}'::jsonb, array[20000]),
             group_keys => array(select (n % 1000)::text from generate_series(1, 20000) n))",
        &[],
    );
    s.value::<i64>("select scylla.cancel_matching('{\"queue\": \"many\"}', 36000)", &[]);
    s.run("vacuum analyze scylla.task");
    s.run("analyze scylla.finished");
    let middle: Uuid =
        s.value("select id from scylla.finished order by updated offset 18000 limit 1", &[]);
    let some_live: Uuid = s.value(
        "select id from scylla.task where queue = 'many' order by created offset 2000 limit 1",
        &[],
    );
    for (filter, after, wanted) in [
        (r#"{"queue": "many", "status": "ready"}"#, Some(some_live), 100),
        (r#"{"queue": "few"}"#, None, 1),
        (r#"{"queue": "groups"}"#, None, 100),
        (r#"{"queue": "groups", "group_key": "7"}"#, None, 20),
        (r#"{"queue": "many", "status": "cancelled"}"#, Some(middle), 100),
        (r#"{"status": "cancelled"}"#, Some(middle), 100),
        (r#"{"status": "ready", "queue": "many", "spec": {"n": 1}}"#, None, 100),
        (r#"{"worker": "w", "status": "running"}"#, None, 0),
    ] {
        s.run("select pg_stat_force_next_flush()");
        s.run("begin");
        assert_eq!(page(&mut s, filter, after, 100).len(), wanted, "{filter}");
        let read = s.count(
            "select sum(pg_stat_get_xact_tuples_returned(oid) + pg_stat_get_xact_tuples_fetched(oid))::bigint
             from pg_class where relnamespace = 'scylla'::regnamespace and relkind in ('r', 'i')",
        );
        s.run("rollback");
        assert!(read < 5_000, "{filter} read {read}");
    }
    // Many old tasks have settled since: their ids tell which were submitted last.
    let newest = shown(&mut s, "true", "created desc limit 100");
    for filter in ["{}", r#"{"queue": "many"}"#] {
        let mut seen = page(&mut s, filter, None, 100);
        if filter == "{}" {
            assert_eq!(seen, newest);
        }
        for _ in 0..5 {
            let next = page(&mut s, filter, seen.last().copied(), 100);
            assert_eq!(next.len(), 100, "{filter}");
            seen.extend(next);
        }
        let distinct: HashSet<Uuid> = seen.iter().copied().collect();
        assert_eq!(distinct.len(), seen.len(), "{filter}");
    }
    let last_pages = page(&mut s, r#"{"queue": "many"}"#, Some(middle), 100_000);
    let older = shown(
        &mut s,
        &format!(
            "queue = 'many' and created < (select created from scylla.finished where id = '{middle}')"
        ),
        NEWEST,
    );
    assert_eq!(last_pages, older);
    // The ids that callers made do not.
    s.run("update scylla.finished set id = gen_random_uuid() where id = (select id from scylla.finished order by updated desc limit 1)");
    assert_eq!(s.refused("select scylla.list_tasks('{}')"), "54000");
    for filter in [
        r#"{"queue": "many", "spec": {"n": 2}}"#,
        r#"{"queue": "many", "status": "cancelled", "meta": {"a": 1}}"#,
        r#"{"queue": "many", "worker": "w"}"#,
    ] {
        let error = s.refusal(&format!("select scylla.list_tasks('{filter}')"), &[]);
        assert_eq!(error.code().code(), "54000", "{filter}");
        assert!(error.hint().is_some_and(|it| it.starts_with("Add ")), "{filter}: {error}");
    }
    assert_eq!(page(&mut s, r#"{"queue": "few", "spec": {"n": 2}}"#, None, 5).len(), 0);
}

/// More queues than a page goes through: it asks for one.
#[test]
fn a_page_of_too_many_lanes_asks_for_a_queue() {
    let database = database();
    let mut s = database.connect();
    let tasks = "select jsonb_agg(jsonb_build_object('queue', 'q' || n % 600, 'priority', n / 600))
                 from generate_series(0, 2399) n";
    s.run(&format!("select count(*) from scylla.submit_tasks(({tasks}))"));
    let error = s.refusal("select scylla.list_tasks('{}')", &[]);
    assert_eq!((error.code().code(), error.hint()), ("54000", Some("Add queue to the filter.")));
    assert_eq!(all(&mut s, r#"{"queue": "q7"}"#).len(), 4);
    assert!(all(&mut s, r#"{"status": "completed"}"#).is_empty());
}
