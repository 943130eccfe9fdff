//! What holds for a client's connection, and for a command, too.

use crate::sharing::{submit_as, with_roles};
use crate::{first_code, run, running, settled, submit, until_running};
use client::*;

/// The log has commands as it has those of clients.
#[test]
fn commands_are_logged_as_statements() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    let lines = |text: &str| server.log().lines().filter(|line| line.contains(text)).count();
    run(&mut s, "select 'quiet'", "");
    for (setting, value, command, expected) in [
        (
            "log_statement",
            "ddl",
            "create table loud (); select 'x%s'",
            "statement: create table loud (); select 'x%s'",
        ),
        ("log_statement", "ddl", "select 'still quiet'", ""),
        ("log_statement", "all", "select 'all %d'", "statement: select 'all %d'"),
        ("log_min_duration_statement", "0", "select 'timed'", "ms  statement: select 'timed'"),
    ] {
        s.run(&format!("alter database {} set {setting} = '{value}'", database.name));
        // The process of the command before has not read it.
        s.run("select pg_terminate_backend(pid, 10000) from pg_stat_activity where backend_type = 'scylla sql worker'");
        assert_eq!(run(&mut s, command, "")["status"], "completed", "{command}");
        s.run(&format!("alter database {} reset {setting}", database.name));
        let text = if expected.is_empty() { "quiet" } else { expected };
        assert_eq!(lines(text), usize::from(!expected.is_empty()), "{command}");
    }
    assert_eq!(lines("DISCARD ALL"), 0);
    server.assert_log_is_clean();
}

/// B121: commands count as connections of their role and of their database; one more waits.
#[test]
fn connection_limits_hold_for_commands() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    with_roles(&mut s, &["limited", "free", "barred"]);
    let long = "select pg_sleep(600) -- limited";
    let first = submit_as(&mut s, "limited", long, "");
    submit_as(&mut s, "limited", long, "");
    until_running(&mut s, "%-- limited", 2);
    s.run("alter role limited connection limit 2; alter role barred connection limit 0");
    let waits = submit_as(&mut s, "limited", "select 1", ", priority => 9");
    let passes = submit_as(&mut s, "free", "select 1", "");
    let barred = submit_as(&mut s, "barred", "select 1", "");
    assert_eq!(settled(&mut s, passes)["status"], "completed");
    assert_eq!(first_code(&settled(&mut s, barred)), "53300");
    assert_eq!(s.status(waits), "ready");
    s.cancel(first);
    assert_eq!(settled(&mut s, waits)["status"], "completed");
    assert_eq!(running(&mut s, "%-- limited").len(), 1);
    // A database's limit, too, which is not for superusers.
    let there = server.bare_database();
    s.run(&format!("alter database {} connection limit 1", there.name));
    let options = format!(", database => '{}'", there.name);
    let first = submit_as(&mut s, "free", "select pg_sleep(600) -- there", &options);
    let second = submit_as(&mut s, "free", "select 1", &options);
    until_running(&mut s, "%-- there", 1);
    assert_eq!(run(&mut s, "select 1", &options)["status"], "completed", "a superuser");
    assert_eq!(s.status(second), "ready");
    s.cancel(first);
    assert_eq!(settled(&mut s, second)["status"], "completed");
}

/// Sets `scylla.sql_databases`.
#[track_caller]
fn allow(server: &Server, s: &mut Session, value: &str) {
    server.configure("scylla.sql_databases", value);
    eventually(seconds(5), "the setting is read", || {
        (s.text("show scylla.sql_databases") == value).then_some(())
    });
}

/// B121: an administrator says which databases commands of other databases may run in.
#[test]
fn other_databases_can_be_refused() {
    let server = Server::start(&[]);
    let (database, there) = (server.database(), server.bare_database());
    let mut s = database.connect();
    let options = format!(", database => '{}'", there.name);
    let call = format!("select scylla.run_sql('select 1'{options})");
    assert_eq!(run(&mut s, "select 1", &options)["status"], "completed");
    let hold = submit(&mut s, "select pg_sleep(600)", "");
    let later = format!("{options}, after => array['{hold}'::uuid], on_failure => 'run'");
    let before = submit(&mut s, "select 1", &later);
    allow(&server, &mut s, "postgres, other");
    assert_eq!(s.refused(&call), "42501");
    let schedule = format!("select scylla.schedule_sql('s', '@daily', 'select 1'{options})");
    assert_eq!(s.refused(&schedule), "42501");
    s.cancel(hold);
    assert_eq!(first_code(&settled(&mut s, before)), "42501", "submitted before");
    let own = format!(", database => '{}'", database.name);
    for options in ["", ", database => 'postgres'", &own] {
        assert_eq!(run(&mut s, "select 1", options)["status"], "completed", "{options}");
    }
    allow(&server, &mut s, "");
    assert_eq!(s.refused("select scylla.run_sql('select 1', 'postgres')"), "42501");
    assert_eq!(run(&mut s, "select 1", "")["status"], "completed");
    allow(&server, &mut s, &format!("postgres,\"{}\"", there.name));
    assert_eq!(run(&mut s, "select 1", &options)["status"], "completed");
}
