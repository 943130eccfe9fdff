//! The schema `pgmq`: what its functions do with messages.

mod clients;

use client::*;
use std::collections::BTreeSet;
use std::thread;

/// A database with the schema, and a queue in it.
fn with_queue() -> (Database, Session) {
    let database = database();
    let mut s = database.connect();
    s.run("select scylla.enable_pgmq_api(); select pgmq.create('q')");
    (database, s)
}

fn send(s: &mut Session, message: &str) -> i64 {
    s.value(&format!("select pgmq.send('q', '{message}')"), &[])
}

/// The messages of a call, in their order.
fn messages(s: &mut Session, call: &str) -> Vec<String> {
    let rows = s.query(&format!("select message::text from pgmq.{call}"), &[]).unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

fn numbers(s: &mut Session, call: &str) -> Vec<i64> {
    let rows = s.query(&format!("select * from pgmq.{call}"), &[]).unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// B135
#[test]
fn message_is_read_hidden_and_deleted() {
    let (_database, mut s) = with_queue();
    let [one, two] = ["1", "2"].map(|it| send(&mut s, it));
    assert!(0 < one && one < two && two < 1 << 53);
    assert_eq!(messages(&mut s, "read('q', 30, 1)"), ["1"]);
    assert_eq!(messages(&mut s, "read('q', 30, 10)"), ["2"]);
    assert!(messages(&mut s, "read('q', 30, 10)").is_empty());
    let row = "select read_ct::bigint from pgmq.q_q where vt > now() and last_read_at < now()";
    assert_eq!(s.count(&format!("{row} limit 1")), 1);
    let delete = |number| format!("select pgmq.delete('q', {number})::int::bigint");
    assert_eq!(s.count(&delete(one.to_string())), 1);
    assert_eq!(s.count(&delete(one.to_string())), 0);
    for none in ["0", "-1", "9223372036854775807", "null::bigint"] {
        assert_eq!(s.count(&delete(none.to_owned())), 0, "{none}");
    }
    let call = format!("delete('q', array[{two}, {one}, null, -1, {two}])");
    assert_eq!(numbers(&mut s, &call), [two]);
    assert_eq!(s.count("select count(*) from scylla.tasks"), 0);
}

/// B135: a message that was not read can be deleted, and so can one that waits.
#[test]
fn unread_messages_are_deleted_and_archived() {
    let (_database, mut s) = with_queue();
    let one = send(&mut s, "1");
    let two: i64 = s.value("select pgmq.send('q', '2', 60)", &[]);
    let three: i64 = s.value("select pgmq.send('q', '3', now() + '1 hour')", &[]);
    assert_eq!(numbers(&mut s, &format!("archive('q', array[{one}, {three}])")), [one, three]);
    assert_eq!(numbers(&mut s, &format!("delete('q', array[{two}, {one}])")), [two]);
    assert_eq!(messages(&mut s, "a_q"), ["1", "3"]);
    assert!(messages(&mut s, "q_q").is_empty());
    assert!(messages(&mut s, "read('q', 0, 5)").is_empty());
}

/// B135: what is read has a number, and what is in the archive was archived.
#[test]
fn tasks_of_others_are_no_messages() {
    let (_database, mut s) = with_queue();
    for call in [
        "scylla.submit('q', '{}', 'pgmq')",
        "scylla.submit_many('q', array['{}'::jsonb], 'pgmq')",
        "scylla.submit_tasks('[{\"queue\": \"q\", \"action\": \"pgmq\"}]')",
        "scylla.schedule('s', 'every 1 hour', 'q', action => 'pgmq')",
    ] {
        let error = failure(s.query(&format!("select {call}"), &[]), call);
        assert_eq!(error.code().code(), "22023", "{call}");
    }
    s.run("select scylla.submit('q', '{}', 'other')");
    let first = send(&mut s, "1");
    assert_eq!(s.count("select scylla.cancel_matching('{\"action\": \"pgmq\"}')"), 1);
    assert!(messages(&mut s, "a_q").is_empty());
    s.run("select scylla.resubmit(array(select id from scylla.finished))");
    let again = numbers(&mut s, "read('q', 30, 10)");
    assert!(again.len() == 1 && again[0] > first, "{first} {again:?}");
    assert_eq!(numbers(&mut s, &format!("archive('q', array[{}])", again[0])), again);
    assert_eq!(messages(&mut s, "a_q"), ["1"]);
}

/// B135
#[test]
fn delayed_messages_come_in_their_time() {
    let (_database, mut s) = with_queue();
    s.run("select pgmq.send('q', '1', 1); select pgmq.send('q', '2', -5)");
    s.run("select pgmq.send('q', '3', '{\"h\": 1}', clock_timestamp() + '1 s')");
    assert_eq!(messages(&mut s, "read('q', 30, 5)"), ["2"]);
    assert_eq!(messages(&mut s, "read_with_poll('q', 30, 1, 10)"), ["1"]);
    assert_eq!(messages(&mut s, "read_with_poll('q', 30, 5, 10)"), ["3"]);
}

/// B135: a `vt` of zero hides nothing, and counts.
#[test]
fn visible_again_when_the_timeout_is_over() {
    let (_database, mut s) = with_queue();
    send(&mut s, "1");
    let read = "select read_ct::bigint from pgmq.read('q', {}, 5)";
    assert_eq!(s.count(&read.replace("{}", "0")), 1);
    assert_eq!(s.count(&read.replace("{}", "-3")), 2);
    assert_eq!(s.count(&read.replace("{}", "1")), 3);
    assert!(messages(&mut s, "read('q', 1, 5)").is_empty());
    let poll = "select read_ct::bigint from pgmq.read_with_poll('q', 30, 5, 10)";
    assert_eq!(s.count(poll), 4);
    // Any number of times.
    for count in 5..40 {
        s.run("select pgmq.set_vt('q', array(select msg_id from pgmq.q_q), 0)");
        assert_eq!(s.count(&read.replace("{}", "30")), count);
    }
}

/// B135
#[test]
fn set_vt_moves_messages_read_or_not() {
    let (_database, mut s) = with_queue();
    let [one, two] = ["1", "2"].map(|it| send(&mut s, it));
    assert_eq!(messages(&mut s, "read('q', 30, 1)"), ["1"]);
    let call = format!("set_vt('q', array[{one}, {two}, 7], 3600)");
    assert_eq!(messages(&mut s, &call), ["1", "2"]);
    let far = "select count(*) from pgmq.q_q where vt > now() + '50 min'";
    assert_eq!(s.count(far), 2);
    let row =
        format!("select read_ct::bigint from pgmq.set_vt('q', {two}, now() - '1 s'::interval)");
    assert_eq!(s.count(&row), 0);
    assert_eq!(messages(&mut s, "read('q', 30, 5)"), ["2"]);
    let row = format!("select read_ct::bigint from pgmq.set_vt('q', {one}, 0)");
    assert_eq!(s.count(&row), 1);
    assert_eq!(messages(&mut s, "read('q', 30, 5)"), ["1"]);
    assert!(messages(&mut s, "set_vt('q', 12, 5)").is_empty());
    assert_eq!(s.refused("select pgmq.set_vt('q', 12, 'infinity'::timestamptz)"), "22023");
}

/// B135
#[test]
fn pop_reads_and_deletes() {
    let (database, mut s) = with_queue();
    assert_eq!(numbers(&mut s, "send_batch('q', '{1,2,3,4}')").len(), 4);
    s.run("begin");
    assert_eq!(messages(&mut s, "pop('q')"), ["1"]);
    assert_eq!(messages(&mut database.connect(), "pop('q', 2)"), ["2", "3"]);
    s.run("rollback");
    assert_eq!(messages(&mut s, "pop('q', 9)"), ["1", "4"]);
    assert_eq!(s.count("select count(*) from scylla.tasks"), 0);
}

/// B135
#[test]
fn headers_and_batches() {
    let (_database, mut s) = with_queue();
    let call = r#"send_batch('q', array['1', null, '{"a": null}']::jsonb[],
        array['{"h": 1}', null, '[2]']::jsonb[])"#;
    assert_eq!(numbers(&mut s, call).len(), 3);
    let rows =
        s.query("select message::text, headers::text from pgmq.read('q', 30, 5)", &[]).unwrap();
    let rows: Vec<(String, Option<String>)> =
        rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let expected = [("1", Some(r#"{"h": 1}"#)), ("null", None), (r#"{"a": null}"#, Some("[2]"))];
    let expected = expected.map(|(one, two)| (one.to_owned(), two.map(str::to_owned)));
    assert_eq!(rows, expected);
    for wrong in ["null", "'{}'", "'{1,2}', '{1}'::jsonb[]"] {
        assert_eq!(s.refused(&format!("select pgmq.send_batch('q', {wrong})")), "22023", "{wrong}");
    }
}

/// B135
#[test]
fn conditional_read_takes_what_contains_it() {
    let (_database, mut s) = with_queue();
    s.run(
        "select pgmq.send_batch('q', array(
            select jsonb_build_object('n', n, 'odd', n % 2 = 1) from generate_series(1, 3000) n))",
    );
    let odd = r#"read('q', 30, 2, '{"odd": true}')"#;
    let first = messages(&mut s, odd);
    assert_eq!(first, [r#"{"n": 1, "odd": true}"#, r#"{"n": 3, "odd": true}"#]);
    assert!(messages(&mut s, odd)[0].contains("\"n\": 5"));
    assert_eq!(messages(&mut s, r#"read('q', 30, 9, '{"n": 2999}')"#).len(), 1);
    assert!(messages(&mut s, r#"read('q', 30, 9, '{"n": 2999}')"#).is_empty());
    assert_eq!(messages(&mut s, "read('q', 30, 1)"), [r#"{"n": 2, "odd": false}"#]);
}

/// B135: no message of a group is read before the one before it is gone.
#[test]
fn groups_are_read_in_their_order() {
    let (_database, mut s) = with_queue();
    for (message, group) in [("1", "a"), ("2", "a"), ("3", "b"), ("4", "a"), ("5", "b")] {
        s.run(&format!(
            r#"select pgmq.send('q', '{message}', '{{"x-pgmq-group": "{group}"}}'::jsonb)"#
        ));
    }
    assert_eq!(messages(&mut s, "read_grouped_rr('q', 0, 9)"), ["1", "3", "2", "5", "4"]);
    assert_eq!(messages(&mut s, "read_grouped('q', 0, 4)"), ["1", "2", "4", "3"]);
    assert_eq!(messages(&mut s, "read_grouped_head('q', 0, 9)"), ["1", "3"]);
    assert_eq!(messages(&mut s, "read_grouped('q', 30, 1)"), ["1"]);
    assert_eq!(messages(&mut s, "read_grouped('q', 30, 9)"), ["3", "5"]);
    assert!(messages(&mut s, "read_grouped('q', 30, 9)").is_empty());
    s.run("select pgmq.delete('q', (select min(msg_id) from pgmq.q_q))");
    assert_eq!(messages(&mut s, "read_grouped_rr_with_poll('q', 30, 9, 5)"), ["2", "4"]);
}

/// B135: each message is one reader's.
#[test]
fn readers_share_the_messages() {
    let (database, mut s) = with_queue();
    const COUNT: i64 = 2_000;
    s.run(&format!(
        "select pgmq.send_batch('q', array(select to_jsonb(n) from generate_series(1, {COUNT}) n))"
    ));
    let reader = |n: usize| {
        let mut s = database.connect();
        move || {
            let mut seen = Vec::new();
            loop {
                let some = match n {
                    0 => numbers(&mut s, "pop('q', 3)"),
                    1 => numbers(&mut s, "read_grouped('q', 60, 5)"),
                    _ => numbers(&mut s, "read('q', 60, 7)"),
                };
                if some.is_empty() && n != 1 {
                    return seen;
                }
                if n > 0 && !some.is_empty() {
                    let gone = numbers(&mut s, &format!("delete('q', array{some:?})"));
                    assert_eq!(gone.len(), some.len());
                }
                let done = some.is_empty();
                seen.extend(some);
                if done {
                    return seen;
                }
            }
        }
    };
    let readers: Vec<_> = (0..4).map(|n| thread::spawn(reader(n))).collect();
    let seen: Vec<i64> = readers.into_iter().flat_map(|it| it.join().unwrap()).collect();
    assert_eq!(seen.len() as i64, COUNT);
    assert_eq!(seen.iter().collect::<BTreeSet<_>>().len() as i64, COUNT);
    assert_eq!(s.count("select count(*) from pgmq.q_q"), 0);
}

/// B135
#[test]
fn crash_loses_no_message() {
    let server = Server::start(&["scylla.persist_leases_after = '10 ms'"]);
    let database = server.database();
    let mut s = database.connect();
    s.run("select scylla.enable_pgmq_api(); select pgmq.create('q')");
    for message in ["1", "2", "3", "4"] {
        send(&mut s, message);
    }
    assert_eq!(messages(&mut s, "read('q', 600, 2)"), ["1", "2"]);
    s.run("select pgmq.archive('q', (select min(msg_id) from pgmq.q_q))");
    s.until_leases_are_written(1);
    server.kill();
    server.start_again();
    let mut s = database.connect();
    assert_eq!(messages(&mut s, "read('q', 600, 9)"), ["3", "4"]);
    assert_eq!(messages(&mut s, "a_q"), ["1"]);
    let next = send(&mut s, "5");
    assert_eq!(s.count(&format!("select count(*) from pgmq.q_q where msg_id < {next}")), 3);
    server.remove();
}

/// B135
#[test]
fn queues_are_created_and_dropped() {
    let (_database, mut s) = with_queue();
    for name in ["a;b", "a$", "a--b", "it''s"] {
        assert_eq!(s.refused(&format!("select pgmq.create('{name}')")), "22023", "{name}");
    }
    assert_eq!(s.refused(&format!("select pgmq.create('{}')", "x".repeat(48))), "22023");
    s.run(&format!("select pgmq.create('{}')", "x".repeat(47)));
    for call in ["send('none', '1')", "read('none', 1, 1)", "pop('none')", "purge_queue('none')"] {
        assert_eq!(s.refused(&format!("select pgmq.{call}")), "42P01", "{call}");
    }
    s.run("select pgmq.create('Mixed Case'); select pgmq.create('mixed case')");
    s.run("select pgmq.create_unlogged('u'); select pgmq.create_partitioned('p', '10', '20')");
    s.run("select pgmq.send('mixed case', '1')");
    let listed = "select string_agg(queue_name || is_partitioned || is_unlogged, ',') \
        from pgmq.list_queues() where length(queue_name) < 47";
    assert_eq!(s.text(listed), "qfalsefalse,Mixed Casefalsefalse,ufalsetrue,ptruefalse");
    assert_eq!(s.count("select count(*) from pgmq.\"q_mixed case\""), 1);
    s.run("select pgmq.read('mixed case', 30, 1)");
    let drop = "select pgmq.drop_queue('MIXED case')::int::bigint";
    assert_eq!((s.count(drop), s.count(drop)), (1, 0));
    assert_eq!(s.count("select count(*) from scylla.tasks"), 0);
    assert_eq!(s.count("select count(*) from pg_class where relname = 'q_mixed case'"), 0);
    s.submit("other");
    assert_eq!(s.refused("select pgmq.create('other')"), "42710");
    let id = s.text("select overlay(gen_random_uuid()::text placing '86d7-ad' from 15)");
    assert!(s.refused(&format!("select scylla.submit('other', id => '{id}')")) == "22023", "{id}");
    // The queues survive the schema.
    send(&mut s, "1");
    s.run("select scylla.disable_pgmq_api()");
    assert_eq!(s.count("select count(*) from pg_namespace where nspname = 'pgmq'"), 0);
    s.run("select scylla.enable_pgmq_api()");
    assert_eq!(messages(&mut s, "q_q"), ["1"]);
    assert_eq!(s.count("select pgmq.purge_queue('q')"), 1);
}

/// B135
#[test]
fn metrics_count_the_messages() {
    let (_database, mut s) = with_queue();
    s.run("select pgmq.send_batch('q', '{1,2,3}'); select pgmq.send('q', '4', 60)");
    s.run("select pgmq.read('q', 30, 1); select pgmq.pop('q')");
    let row = "select queue_name || queue_length || queue_visible_length || total_messages \
        || (oldest_msg_age_sec >= newest_msg_age_sec) from pgmq.";
    assert_eq!(s.text(&format!("{row}metrics('q')")), "q314true");
    s.run("select pgmq.create('empty')");
    assert_eq!(s.count("select count(*) from pgmq.metrics_all()"), 2);
    let empty = "select coalesce(newest_msg_age_sec::text, 'none') || queue_length from pgmq.";
    assert_eq!(s.text(&format!("{empty}metrics('empty')")), "none0");
}

/// B135
#[test]
fn topics_send_to_the_queues_that_are_bound() {
    let (_database, mut s) = with_queue();
    s.run("select pgmq.create('all'); select pgmq.bind_topic('logs.*', 'q')");
    s.run("select pgmq.bind_topic('#', 'all'); select pgmq.bind_topic('logs.#', 'all')");
    let send = |key: &str| format!("select pgmq.send_topic('{key}', '1')::bigint");
    assert_eq!(s.count(&send("logs.error")), 2);
    assert_eq!(s.count(&send("logs.api.error")), 1);
    assert_eq!(s.count(&send("logs-error")), 1);
    assert_eq!(s.count("select count(*) from pgmq.q_all"), 3);
    assert_eq!(s.count("select count(*) from pgmq.test_routing('logs.error')"), 3);
    let batch = "select count(*) from pgmq.send_batch_topic('logs.x', '{1,2}')";
    assert_eq!(s.count(batch), 4);
    for key in ["", ".a", "a.", "a..b", "a b", "a.*"] {
        assert_eq!(s.refused(&send(key)), "22023", "{key}");
    }
    for pattern in ["", ".a", "a.", "a..b", "a b", "a.**", "##", "*#"] {
        let call = format!("select pgmq.bind_topic('{pattern}', 'q')");
        assert_eq!(s.refused(&call), "22023", "{pattern}");
    }
    assert_eq!(s.refused("select pgmq.bind_topic('a', 'none')"), "42P01");
    let unbind = "select pgmq.unbind_topic('logs.*', 'q')::int::bigint";
    assert_eq!((s.count(unbind), s.count(unbind)), (1, 0));
    s.run("select pgmq.drop_queue('all')");
    assert_eq!(s.count(&send("logs.error")), 0);
    assert_eq!(s.count("select count(*) from pgmq.list_topic_bindings()"), 0);
}

/// B135
#[test]
fn notifications_are_sent_once_an_interval() {
    let (database, mut s) = with_queue();
    let mut listener = database.connect();
    listener.run("listen \"pgmq.q_q.INSERT\"");
    let mut heard = |s: &mut Session, sql: &str| {
        s.run(sql);
        listener.run("select 1");
        let mut notifications = listener.notifications();
        let mut count = 0;
        use postgres::fallible_iterator::FallibleIterator;
        let mut some = notifications.timeout_iter(milliseconds(300));
        while some.next().unwrap().is_some() {
            count += 1;
        }
        count
    };
    assert_eq!(heard(&mut s, "select pgmq.send('q', '1')"), 0);
    s.run("select pgmq.enable_notify_insert('q', 60000)");
    assert_eq!(heard(&mut s, "select pgmq.send('q', '1'); select pgmq.send('q', '2')"), 1);
    assert_eq!(heard(&mut s, "select pgmq.send('q', '3')"), 0);
    s.run("select pgmq.update_notify_insert('q', 0)");
    assert_eq!(heard(&mut s, "select pgmq.send('q', '4')"), 1);
    s.run("select pgmq.disable_notify_insert('q')");
    assert_eq!(heard(&mut s, "select pgmq.send('q', '5')"), 0);
    assert_eq!(s.refused("select pgmq.update_notify_insert('q', 0)"), "55000");
    assert_eq!(s.refused("select pgmq.enable_notify_insert('q', -1)"), "22023");
}

/// B135
#[test]
fn functions_need_privileges_on_the_queue() {
    let (database, mut s) = with_queue();
    s.run("create role pgmq_app login");
    send(&mut s, "1");
    let mut r = database.connect();
    r.run("set role pgmq_app; set search_path = ''");
    let calls = [
        ("submit", "pgmq.send('q', '1')"),
        ("submit", "pgmq.send_batch('q', '{1}')"),
        ("work", "pgmq.read('q', 0, 1)"),
        ("work", "pgmq.read_grouped('q', 0, 1)"),
        ("work", "pgmq.set_vt('q', 1, 5)"),
        ("work", "pgmq.delete('q', 1)"),
        ("work", "pgmq.archive('q', '{1}'::bigint[])"),
        ("work", "pgmq.pop('q', 1)"),
        ("cancel", "pgmq.purge_queue('q')"),
        ("look", "pgmq.metrics('q')"),
        ("manage", "pgmq.bind_topic('a', 'q')"),
        ("manage", "pgmq.enable_notify_insert('q')"),
    ];
    for granted in ["none", "submit", "work", "cancel", "look", "manage"] {
        if granted != "none" {
            s.run(&format!("select scylla.grant('q', 'pgmq_app', '{{{granted}}}')"));
        }
        for (needed, call) in calls {
            let outcome = r.try_value::<i64>(&format!("select count(*) from {call}"), &[]);
            let code = outcome.as_ref().err().map(code).unwrap_or_default();
            assert_eq!(code, if needed == granted { "" } else { "42501" }, "{granted}: {call}");
        }
        let seen = r.count("select count(*) from pgmq.list_queues()");
        assert_eq!(seen, i64::from(granted == "look"), "{granted}");
        let view = r.try_value::<i64>("select count(*) from pgmq.q_q", &[]);
        assert_eq!(view.is_ok(), granted == "look", "{granted}");
        if granted != "none" {
            s.run(&format!("select scylla.revoke('q', 'pgmq_app', '{{{granted}}}')"));
        }
    }
    s.run("select scylla.grant('q', 'pgmq_app', '{submit,work,cancel,look,manage}')");
    for call in ["create('new')", "drop_queue('q')"] {
        assert_eq!(r.refused(&format!("select pgmq.{call}")), "42501", "{call}");
    }
    for call in ["enable_pgmq_api()", "import_pgmq_queue('q')"] {
        assert_eq!(r.refused(&format!("select scylla.{call}")), "42501", "{call}");
    }
    // The id of another queue's message does not open it.
    s.run("select pgmq.create('other')");
    let other: i64 = s.value("select pgmq.send('other', '1')", &[]);
    assert_eq!(r.count(&format!("select pgmq.delete('q', {other})::int::bigint")), 0);
    assert_eq!(s.count("select count(*) from pgmq.q_other"), 1);
}

/// What pgmq 1.13 has of a queue, as far as an import reads it.
const FOREIGN: &str = "create schema pgmq;
    create table pgmq.q_old (msg_id bigint primary key generated always as identity,
        read_ct int not null default 0, enqueued_at timestamptz not null default now(),
        last_read_at timestamptz, vt timestamptz not null, message jsonb, headers jsonb);
    create table pgmq.a_old (msg_id bigint primary key, read_ct int not null default 0,
        enqueued_at timestamptz not null default now(), last_read_at timestamptz,
        archived_at timestamptz not null default now(), vt timestamptz not null, message jsonb,
        headers jsonb);
    insert into pgmq.q_old (read_ct, enqueued_at, vt, message, headers)
        select n % 3, now() - '1 day'::interval, now() + (n % 2) * '1 hour'::interval,
            to_jsonb(n), jsonb_build_object('h', n)
        from generate_series(1, 25000) n;
    insert into pgmq.a_old (msg_id, read_ct, vt, message)
        select -n + 30000, 2, now(), to_jsonb(n) from generate_series(1, 100) n";

/// B135
#[test]
fn queue_of_pgmq_is_imported() {
    let database = database();
    let mut s = database.connect();
    s.run(FOREIGN);
    let sums = "select count(*) || ' ' || sum(msg_id) || ' ' || sum(read_ct) || ' ' \
        || count(*) filter (where vt > now()) || ' ' || sum((headers->>'h')::int) \
        || ' ' || max(enqueued_at) from pgmq.q_old";
    let before = s.text(sums);
    let import = "select scylla.import_pgmq_queue('Old', max_messages => 4000)";
    assert_eq!(s.count(import), 4000);
    // An interrupted call changes nothing.
    s.run("begin");
    assert_eq!(s.count(import), 4000);
    s.run("rollback");
    let mut killed = database.connect();
    let pid: i32 = killed.value("select pg_backend_pid()", &[]);
    let call = thread::spawn(move || {
        killed.try_value::<i64>("select scylla.import_pgmq_queue('Old')", &[])
    });
    sleep(milliseconds(60));
    s.run(&format!("select pg_terminate_backend({pid})"));
    let moved = call.join().unwrap().unwrap_or(0);
    let there = s.count("select count(*) from pgmq.q_old");
    assert_eq!(there, 21_000 - moved);
    assert_eq!(s.count("select scylla.import_pgmq_queue('Old')"), there);
    assert_eq!(s.count("select scylla.import_pgmq_queue('Old')"), 0);
    assert_eq!(s.count("select scylla.import_pgmq_queue('Old', archive => true)"), 100);
    assert_eq!(s.refused("select scylla.import_pgmq_queue('none')"), "42P01");
    s.run("drop schema pgmq cascade; select scylla.enable_pgmq_api()");
    assert_eq!(s.text(sums), before);
    assert_eq!(s.count("select sum(msg_id)::bigint from pgmq.a_old"), 2_994_950);
    assert_eq!(messages(&mut s, "read('old', 30, 2)"), ["2", "4"]);
    assert_eq!(numbers(&mut s, "delete('old', array[1, 2])"), [1, 2]);
    assert!(numbers(&mut s, "send('old', '1')")[0] > 25_000);
    assert!(s.check_indexes("i.indrelid = 'scylla.task'::regclass") > 0);
}

/// B135: a dump has the schema with its queues, and the messages with their numbers.
#[test]
fn dump_has_the_queues_and_their_messages() {
    let (database, mut s) = with_queue();
    s.run("select pgmq.create('Other'), pgmq.create_partitioned('parts'), pgmq.bind_topic('a.#', 'q')");
    s.run("select pgmq.enable_notify_insert('q', 700); drop view pgmq.a_parts");
    let [one, two, three] = ["1", "2", "3"].map(|it| send(&mut s, it));
    s.run("select pgmq.send('q', '4', '{\"h\": 1}'::jsonb, 3600), pgmq.send('other', '5')");
    assert_eq!(numbers(&mut s, "read('q', 3600, 2)"), [one, two]);
    s.until_leases_are_written(2);
    s.run(&format!("select pgmq.archive('q', {two})"));
    let server = Server::shared();
    let path = server.path(&format!("{}.dump", database.name)).to_str().unwrap().to_owned();
    server.tool("pg_dump", &["-Fc", "-f", &path, &database.name]);
    let restored = server.bare_database();
    server.tool("pg_restore", &["-e", "-d", &restored.name, &path]);
    let mut r = restored.connect();
    for look in [
        "select string_agg(concat_ws(' ', msg_id, message, headers, enqueued_at), ', ') from pgmq.q_q",
        "select string_agg(concat_ws(' ', msg_id, message, archived_at), ', ') from pgmq.a_q",
        "select string_agg(concat_ws(' ', queue_name, is_partitioned, created_at), ', ') from pgmq.list_queues()",
        "select string_agg(concat_ws(' ', pattern, queue_name, bound_at), ', ') from pgmq.list_topic_bindings()",
        "select string_agg(concat_ws(' ', queue_name, throttle_interval_ms), ', ')
            from pgmq.list_notify_insert_throttles()",
    ] {
        assert_eq!(r.text(look), s.text(look), "{look}");
    }
    // As with each restored database, nothing runs before an administrator says so.
    assert!(messages(&mut r, "read('q', 30, 9)").is_empty());
    r.run("select scylla.open()");
    assert_eq!(messages(&mut r, "read_with_poll('q', 30, 9, 10)").last().unwrap(), "3");
    assert_eq!(messages(&mut r, "pop('Other')"), ["5"]);
    assert!(send(&mut r, "6") > three);
    assert_eq!(numbers(&mut r, &format!("delete('q', array[{one}, {two}])")), [one]);
    r.run("select pgmq.drop_queue('parts'), scylla.disable_pgmq_api()");
    r.run("select scylla.enable_pgmq_api(); drop schema pgmq cascade; drop extension scylla");
}
