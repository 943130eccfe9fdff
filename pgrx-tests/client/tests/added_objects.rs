//! What an administrator adds to the tables: indexes that refuse rows, triggers that suppress them,
//! triggers that set the planner's settings.

use client::*;

/// A session whose calls end soon, one way or the other.
fn bounded(database: &Database) -> Session {
    let mut s = database.connect();
    s.run("set statement_timeout = '5 s'");
    s
}

fn trigger(s: &mut Session, when: &str, body: &str) {
    s.run(&format!(
        "create function added() returns trigger language plpgsql as $$ begin {body} end $$;
         create trigger added {when} execute function added()"
    ));
}

/// 23505, with the index's name, from each call that submits.
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
    // what the index lets through is taken as ever
    s.run("select scylla.submit('q', '{\"n\": 3}', key => 'k')");
    let ignored: Uuid = s
        .value("select scylla.submit('q', '{\"n\": 3}', key => 'k', on_conflict => 'ignore')", &[]);
    assert_eq!(Some(ignored), s.value("select scylla.task_id('q', 'k')", &[]));
    s.run("select scylla.submit('q', '{\"n\": 3}', key => 'k', on_conflict => 'replace')");
    assert_eq!(s.own("w", "q", 10).len(), 2);
    assert_eq!(s.status(first), "running");
}

/// 55000, with the trigger's name; nothing is announced that is not there.
#[test]
fn a_trigger_that_suppresses_a_row_is_named() {
    let database = database();
    let mut s = bounded(&database);
    trigger(
        &mut s,
        "before insert on scylla.task for each row when (new.spec ? 'not')",
        "return null;",
    );
    for call in [
        "scylla.submit('q', '{\"not\": 1}')",
        "scylla.submit('q', '{\"not\": 1}', key => 'k')",
        "scylla.submit('q', '{\"not\": 1}', key => 'k', on_conflict => 'ignore')",
        "scylla.submit('q', '{\"not\": 1}', key => 'k', on_conflict => 'replace')",
        "scylla.submit('q', '{\"not\": 1}', id => gen_random_uuid())",
        "scylla.submit_tasks('[{\"queue\": \"q\", \"spec\": {\"not\": 1}}]')",
        "scylla.submit_tasks('[{\"queue\": \"q\"}, {\"queue\": \"q\", \"spec\": {\"not\": 1}}]', false)",
    ] {
        let said = s.refusal(&format!("select {call}"), &[]);
        assert_eq!(said.code().code(), "55000", "{call}: {}", said.message());
        let told = [said.message(), said.detail().unwrap_or_default()].concat();
        assert!(told.contains("\"added\""), "{call}: {told}");
    }
    assert_eq!(s.count("select count(*) from scylla.task"), 0);
    // other rows pass, keys and all
    s.run("select scylla.submit('q', key => 'k')");
    s.run("select scylla.submit('q', key => 'k', on_conflict => 'ignore')");
    s.run("select scylla.submit('q', key => 'k', on_conflict => 'replace')");
    s.run("select scylla.delay('m', now() + interval '1 hour', 'out', 'v')");
    assert!(
        !s.value::<bool>("select scylla.delay('m', now() + interval '1 hour', 'out', 'v')", &[])
    );
    assert_eq!(s.own("w", "q", 10).len(), 1);
}

/// A message that is not there is not said to wait.
#[test]
fn a_trigger_that_suppresses_a_message_is_named() {
    let database = database();
    let mut s = bounded(&database);
    trigger(&mut s, "before insert on scylla.task for each row", "return null;");
    for deadline in ["now() + interval '1 hour'", "now()"] {
        let said = s.refusal(&format!("select scylla.delay('m', {deadline}, 'out', 'v')"), &[]);
        assert_eq!(said.code().code(), "55000", "{deadline}: {}", said.message());
    }
}

/// A row under another id than the one that was given out is no task that anybody can find.
#[test]
fn a_trigger_that_changes_an_id_is_named() {
    let database = database();
    let mut s = bounded(&database);
    trigger(
        &mut s,
        "before insert on scylla.task for each row",
        "new.id := gen_random_uuid(); return new;",
    );
    for call in ["scylla.submit('q')", "scylla.submit('q', key => 'k')"] {
        let said = s.refusal(&format!("select {call}"), &[]);
        assert_eq!(said.code().code(), "55000", "{call}: {}", said.message());
    }
    assert_eq!(s.count("select count(*) from scylla.task"), 0);
}

const SETTINGS: &str =
    "concat_ws(' ', current_setting('enable_seqscan'), current_setting('enable_sort'),
    current_setting('enable_nestloop'), current_setting('jit'))";

/// What a trigger sets for its transaction is as it was before, after the transaction.
#[test]
fn a_triggers_settings_end_with_its_transaction() {
    let database = database();
    let mut s = database.connect();
    s.run("set jit = on");
    trigger(
        &mut s,
        "after insert on scylla.task for each row",
        "set local enable_seqscan = on; set local enable_sort = off; set local jit = on; return null;",
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

/// What a trigger reads, and what its own statements are planned with, is the session's.
#[test]
fn a_trigger_runs_with_the_sessions_settings() {
    let database = database();
    let mut s = database.connect();
    s.run("set jit = on; create table seen (settings text)");
    trigger(
        &mut s,
        "after insert on scylla.task for each row",
        &format!("insert into public.seen select {SETTINGS}; return null;"),
    );
    s.submit("q");
    s.submit_with("q", "key => 'k'");
    assert_eq!(s.text("select string_agg(distinct settings, ', ') from seen"), "on on on on");
}
