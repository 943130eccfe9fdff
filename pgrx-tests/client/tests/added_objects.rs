//! Objects that an administrator adds to the tables: unique indexes, triggers that suppress or
//! change rows, and triggers that change the planner's settings.

use client::*;

/// A session with a statement timeout, so that no call hangs.
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

/// A trigger that suppresses a task makes the call fail with 55000 and the trigger's name, and the
/// scheduler sends no notification for that task.
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
    // Other rows are inserted, including those with keys.
    s.run("select scylla.submit('q', key => 'k')");
    s.run("select scylla.submit('q', key => 'k', on_conflict => 'ignore')");
    s.run("select scylla.submit('q', key => 'k', on_conflict => 'replace')");
    s.run("select scylla.delay('m', now() + interval '1 hour', 'out', 'v')");
    assert!(
        !s.value::<bool>("select scylla.delay('m', now() + interval '1 hour', 'out', 'v')", &[])
    );
    assert_eq!(s.own("w", "q", 10).len(), 1);
}

/// A trigger that suppresses a message makes the call fail with 55000: the call never reports a
/// message as delayed that was not inserted.
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

/// A trigger that changes a task's id makes the call fail with 55000, since the caller would get an
/// id that does not exist.
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

/// A setting that a trigger sets for its transaction has its old value after the transaction.
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

/// A trigger, and the statements it runs, see the session's settings.
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
