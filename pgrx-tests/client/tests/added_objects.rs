//! Objects that an administrator adds to the tables: what is refused, and the indexes and
//! publications that are not.

use client::*;

/// A session with a statement timeout, so that no call hangs.
fn bounded(database: &Database) -> Session {
    let mut s = database.connect();
    s.run("set statement_timeout = '5 s'");
    s
}

/// An index on `scylla.task` whose function does this for each row that is written.
fn index(s: &mut Session, body: &str) {
    s.run(&format!(
        "create function added(queue text) returns text language plpgsql immutable as
             $$ begin {body} return queue; end $$;
         create index added on scylla.task (public.added(queue));
         alter function added volatile"
    ));
}

/// An added unique index makes each call that submits fail with 23505 and the index's name.
#[test]
fn an_added_unique_index_refuses_by_its_name() {
    let database = database();
    let mut s = bounded(&database);
    s.run("create unique index one_spec_each on scylla.task ((spec ->> 'n')) where spec ? 'n'");
    let first: Uuid = s.value("select scylla.submit('q', '{\"n\": 1}')", &[]);
    for call in [
        "scylla.submit('q', '{\"n\": 1}')",
        "scylla.submit('q', '{\"n\": 1}', key => 'k')",
        "scylla.submit('q', '{\"n\": 1}', key => 'k', on_conflict => 'ignore')",
        "scylla.submit('q', '{\"n\": 1}', key => 'k', on_conflict => 'replace')",
        "scylla.submit('q', '{\"n\": 1}', id => gen_random_uuid())",
        "scylla.submit('q', '{\"n\": 1}', run_at => now() + interval '1 hour')",
        "scylla.submit_tasks('[{\"queue\": \"q\", \"spec\": {\"n\": 1}}]')",
        "scylla.submit_tasks('[{\"queue\": \"q\", \"spec\": {\"n\": 2}}, {\"queue\": \"q\", \"spec\": {\"n\": 1}}]', false)",
        "scylla.delay('m', now() + interval '1 hour', 'out', 'v')",
    ] {
        if call.contains("delay") {
            s.run("create unique index one_queue_each on scylla.task (queue) where message is not null");
            s.run("select scylla.delay('l', now() + interval '1 hour', 'out', 'v')");
        }
        let said = s.refusal(&format!("select {call}"), &[]);
        assert_eq!(said.code().code(), "23505", "{call}: {}", said.message());
        assert!(said.message().contains("\"one_"), "{call}: {}", said.message());
    }
    // Rows that do not violate the index are accepted as before.
    s.run("select scylla.submit('q', '{\"n\": 3}', key => 'k')");
    let ignored: Uuid = s
        .value("select scylla.submit('q', '{\"n\": 3}', key => 'k', on_conflict => 'ignore')", &[]);
    assert_eq!(Some(ignored), s.value("select scylla.task_id('q', 'k')", &[]));
    s.run("select scylla.submit('q', '{\"n\": 3}', key => 'k', on_conflict => 'replace')");
    assert_eq!(s.own("w", "q", 10).len(), 2);
    assert_eq!(s.status(first), "running");
}

/// What is refused: how to make it, how it is named, and how to undo it.
const REFUSED: [(&str, &str, &str); 13] = [
    (
        "create trigger added before insert on scylla.task for each row execute function added()",
        "trigger added on table scylla.task",
        "drop trigger added on scylla.task",
    ),
    (
        "create trigger added after delete on scylla.dependency for each statement execute function added()",
        "trigger added on table scylla.dependency",
        "alter table scylla.dependency disable trigger added",
    ),
    (
        "create trigger added after insert on scylla.finished for each row execute function added()",
        "trigger added on table scylla.finished",
        "drop trigger added on scylla.finished",
    ),
    (
        "create constraint trigger added after update on scylla.queue deferrable initially deferred
             for each row execute function added()",
        "constraint added on table scylla.queue",
        "drop trigger added on scylla.queue",
    ),
    (
        "create rule added as on insert to scylla.task do also select 1",
        "rule added on table scylla.task",
        "drop rule added on scylla.task",
    ),
    (
        "alter table scylla.task enable row level security; create policy added on scylla.task using (true)",
        "row security on table scylla.task",
        "drop policy added on scylla.task; alter table scylla.task disable row level security",
    ),
    (
        "alter table scylla.task add constraint added check (tries < 100)",
        "constraint added on table scylla.task",
        "alter table scylla.task drop constraint added",
    ),
    (
        "alter table scylla.finished add constraint added check (tries < 100)",
        "constraint added on table scylla.finished",
        "alter table scylla.finished drop constraint added",
    ),
    (
        "create table noted (task uuid, constraint added foreign key (task) references scylla.task)",
        "constraint added on table noted",
        "drop table noted",
    ),
    (
        "create table named (queue text collate \"C\" primary key); insert into named values ('q'), ('other');
         alter table scylla.task add constraint added foreign key (queue) references named",
        "constraint added on table scylla.task",
        "drop table named cascade",
    ),
    (
        "alter table scylla.task add constraint added unique (id) deferrable",
        "constraint added on table scylla.task",
        "alter table scylla.task drop constraint added",
    ),
    (
        "alter table scylla.task add column twice bigint generated always as (priority * 2) stored",
        "table \"scylla.task\" has been altered",
        "alter table scylla.task drop column twice",
    ),
    (
        "alter table scylla.task add column noted timestamptz default now()",
        "table \"scylla.task\" has been altered",
        "alter table scylla.task drop column noted",
    ),
];

/// Each call is refused, whichever session makes it, and says what is there and what to use
/// instead. Nothing is lost: once it is gone, everything goes on.
#[test]
fn objects_of_others_are_refused() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut admin = bounded(&database);
    admin.run(
        "create function added() returns trigger language plpgsql as 'begin return null; end'",
    );
    let (kept, late) =
        (admin.submit("q"), admin.submit_with("q", "run_at => now() + interval '1 h'"));
    let lease = admin.own_one("q");
    assert_eq!(lease.id, kept);
    let mut old = bounded(&database);
    old.submit("other");
    for (change, what, back) in REFUSED {
        admin.run(change);
        let mut calls = vec!["select scylla.submit('q')".to_owned()];
        // A column matters where rows are written.
        if !what.contains("altered") {
            calls.extend([
                "select scylla.submit('q', key => 'k')".to_owned(),
                "select scylla.submit('q', id => gen_random_uuid())".to_owned(),
                "select scylla.own_tasks('w', 'other')".to_owned(),
                format!("select scylla.return_task('{}', '{}')", lease.id, lease.token),
                format!("select scylla.cancel('{late}')"),
                "select scylla.delay('m', now() + interval '1 h', 'q', 'v')".to_owned(),
            ]);
        }
        for s in [&mut bounded(&database), &mut old] {
            for call in &calls {
                let said = s.refusal(call, &[]);
                assert_eq!(said.code().code(), "55000", "{change} {call}: {said:?}");
                assert!(said.message().contains(what), "{change} {call}: {said:?}");
                let hint = said.hint().expect("a hint");
                let names = ["LISTEN", "scylla.finished", "logical decoding"];
                let is_altered = what.contains("altered");
                assert!(is_altered || names.iter().all(|it| hint.contains(it)), "{hint}");
            }
        }
        admin.run(back);
        old.submit("other");
        bounded(&database).own_one("other");
        assert!(admin.extend(&lease), "{change}: its lease is kept");
    }
    assert!(admin.extend(&lease));
    admin.complete(&lease);
    assert!(admin.cancel(late));
    assert_eq!(admin.count("select count(*) from scylla.finished"), 2);
    server.assert_log_is_clean();
}

/// The scheduler says what is there, and ends; once it is gone, it comes back with the next call.
#[test]
fn scheduler_says_what_was_added() {
    let server = Server::start(&["scylla.sweep_interval = '100 ms'"]);
    let database = server.database();
    let mut s = bounded(&database);
    let id = s.submit("q");
    s.own_one_with("q", "timeout => '2 s'");
    s.run("create function added() returns trigger language plpgsql as 'begin return null; end'");
    s.run(
        "create trigger added before update on scylla.task for each row execute function added()",
    );
    let line = "WARNING:  extension \"scylla\" does not support trigger added on table scylla.task";
    eventually(seconds(20), "it says it", || server.log().contains(line).then_some(()));
    eventually(seconds(10), "it ends", || database.schedulers().is_empty().then_some(()));
    s.run("drop trigger added on scylla.task");
    eventually(seconds(20), "the lease ends", || {
        s.submit("other");
        (s.status(id) == "ready").then_some(())
    });
    server.assert_log_is_clean();
}

/// A partition of its own is looked at when tasks settle into it.
#[test]
fn trigger_on_todays_partition_is_refused() {
    let database = database();
    let mut s = bounded(&database);
    let today = "'scylla.finished_' || to_char(now() at time zone 'utc', 'YYYYMMDD')";
    eventually(seconds(20), "the partitions are made", || {
        s.value::<bool>(&format!("select to_regclass({today}) is not null"), &[]).then_some(())
    });
    let today = s.text(&format!("select {today}"));
    s.run("create function added() returns trigger language plpgsql as 'begin return null; end'");
    s.submit("q");
    let lease = s.own_one("q");
    for (change, what, back) in [
        (
            format!(
                "create trigger added after insert on {today} for each row execute function added()"
            ),
            "trigger added on table",
            format!("drop trigger added on {today}"),
        ),
        (
            format!("alter table {today} add constraint added exclude (id with =)"),
            "exclusion constraint added",
            format!("alter table {today} drop constraint added"),
        ),
    ] {
        s.run(&change);
        let said = s.not_returned(&lease);
        assert_eq!(said.code().code(), "55000", "{said:?}");
        assert!(said.message().contains(what), "{said:?}");
        s.run(&back);
    }
    s.complete(&lease);
}

/// Publications and indexes of any kind are welcome.
#[test]
fn publications_and_indexes_are_welcome() {
    let database = database();
    let mut s = bounded(&database);
    s.run("create publication added for table scylla.task, scylla.finished");
    for table in ["task", "finished"] {
        for index in [
            "using gin (spec)",
            "using brin (created)",
            "using hash (queue)",
            "using gist (tstzrange(created, null))",
            "(queue) include (action)",
        ] {
            s.run(&format!("create index on scylla.{table} {index}"));
        }
    }
    for _ in 0..3 {
        let ids = s.submit_many("q", 300);
        s.submit_with("q", "key => 'k', spec => '{\"n\": 1}'");
        let leases = s.own("w", "q", 301);
        leases.iter().for_each(|lease| s.complete(lease));
        assert_eq!(ids.len() + 1, leases.len());
    }
    s.run("set enable_seqscan = off; analyze scylla.finished");
    for (condition, count) in [
        ("spec @> '{\"n\": 1}'", 3),
        ("queue = 'q'", 903),
        ("created < clock_timestamp()", 903),
        ("tstzrange(created, null) && tstzrange('-infinity', 'infinity')", 903),
    ] {
        let found = s.count(&format!("select count(*) from scylla.finished where {condition}"));
        assert_eq!(found, count, "{condition}");
    }
    Server::shared().assert_log_is_clean();
}

const SETTINGS: &str =
    "concat_ws(' ', current_setting('enable_seqscan'), current_setting('enable_sort'),
    current_setting('enable_nestloop'), current_setting('jit'))";

/// A setting that a function of an index sets for its transaction has its old value after the call.
#[test]
fn an_index_functions_settings_end_with_its_call() {
    let database = database();
    let mut s = database.connect();
    s.run("set jit = on");
    index(
        &mut s,
        "set local enable_seqscan = on; set local enable_sort = off; set local jit = on;",
    );
    s.submit("q");
    assert_eq!(s.text(&format!("select {SETTINGS}")), "on on on on");
    s.run("begin");
    s.submit_with("q", "key => 'k'");
    s.run("savepoint s");
    s.submit("q");
    s.run("rollback to s; commit");
    assert_eq!(s.text(&format!("select {SETTINGS}")), "on on on on");
}

/// A function of an index, and the statements it runs, see the session's settings.
#[test]
fn an_index_function_runs_with_the_sessions_settings() {
    let database = database();
    let mut s = database.connect();
    s.run("set jit = on; create table seen (settings text)");
    index(&mut s, &format!("insert into public.seen select {SETTINGS};"));
    s.submit("q");
    s.submit_with("q", "key => 'k'");
    assert_eq!(s.text("select string_agg(distinct settings, ', ') from seen"), "on on on on");
    assert_eq!(s.count("select count(*) from seen"), 2);
}
