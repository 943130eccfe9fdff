//! Commands that do not end when they should.

use crate::{first_code, run, running, settled, submit, until_running};
use client::*;
use std::time::Instant;

/// Goes on, whatever cancels it.
const STUBBORN: &str = "do $$ begin loop
    begin perform pg_sleep(60); exception when query_canceled then null; end;
    end loop; end $$ -- stubborn";

#[track_caller]
fn until_gone(s: &mut Session, pattern: &str) {
    eventually(seconds(20), "it ends", || running(s, pattern).is_empty().then_some(()));
}

/// B122: a command that goes on after a cancel of its task is terminated.
#[test]
fn a_command_that_ignores_its_cancel_is_terminated() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    let ids: Vec<Uuid> = (0..3).map(|_| submit(&mut s, STUBBORN, "")).collect();
    until_running(&mut s, "%-- stubborn", 3);
    ids.iter().for_each(|id| assert!(s.cancel(*id)));
    let begun = Instant::now();
    until_gone(&mut s, "%-- stubborn");
    assert!(begun.elapsed() > seconds(3), "it had time to end: {:?}", begun.elapsed());
    assert_eq!(ids.iter().map(|id| s.status(*id)).collect::<Vec<_>>(), ["cancelled"; 3]);
    assert_eq!(run(&mut s, "select 1", "")["status"], "completed");
    let told = server.log().matches("LOG:  terminating the process of SQL task").count();
    assert_eq!(told, 3);
    server.assert_log_is_clean();
}

/// B122: the same where its time is up: that is the task's error, with the usual code.
#[test]
fn a_command_that_ignores_its_timeout_is_terminated() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    s.run("create table t (n int)");
    let command = format!("insert into t values (1); {STUBBORN}");
    let entry = run(&mut s, &command, ", timeout => '300 ms'");
    assert_eq!((&entry["status"], first_code(&entry)), (&json!("aborted"), "57014"), "{entry}");
    assert_eq!(s.count("select count(*) from t"), 0);
    // A try is a try.
    let entry = run(&mut s, &command, ", timeout => '300 ms', max_tries => 2");
    assert_eq!((&entry["tries"], &entry["errors"][1]["code"]), (&json!(2), &json!("57014")));
    server.assert_log_is_clean();
}

/// B122: what is left of a command after a statement caught its time-out has no time of its own.
#[test]
fn a_timeout_bounds_what_follows_a_cancel_that_was_caught() {
    let database = database();
    let mut s = database.connect();
    let caught = "begin perform pg_sleep(60); exception when query_canceled then null; end;";
    for command in [
        format!("do $$ begin {caught} perform pg_sleep(60); end $$"),
        format!("do $$ begin {caught} end $$; select pg_sleep(60)"),
        format!("do $$ begin {caught} commit; {caught} perform pg_sleep(60); end $$"),
        // None of the statements alone takes as long.
        "select pg_sleep(0.15); ".repeat(200),
    ] {
        let begun = Instant::now();
        let entry = run(&mut s, &command, ", timeout => '200 ms'");
        assert_eq!(first_code(&entry), "57014", "{command}: {entry}");
        let message = entry["errors"][0]["description"].as_str().unwrap_or_default().to_owned();
        assert!(message.starts_with("canceling"), "not terminated: {message}");
        assert!(begun.elapsed() < seconds(25), "{:?}", begun.elapsed());
    }
}

/// I9, B122: a dropped extension leaves no command that runs, where it was the last one too.
#[test]
fn a_dropped_extension_ends_its_commands() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    submit(&mut s, STUBBORN, "");
    submit(&mut s, "select pg_sleep(600) -- plain", "");
    until_running(&mut s, "%-- stubborn", 1);
    until_running(&mut s, "%-- plain", 1);
    s.run("drop extension scylla");
    until_gone(&mut s, "%-- plain");
    until_gone(&mut s, "%-- stubborn");
    // Their slots are free again.
    s.run("create extension scylla");
    for _ in 0..2 {
        let ids: Vec<Uuid> = (0..3).map(|_| submit(&mut s, "select pg_sleep(0.3)", "")).collect();
        ids.iter().for_each(|id| assert_eq!(settled(&mut s, *id)["status"], "completed"));
    }
    server.assert_log_is_clean();
}

/// B122: a closed database begins no command; those that run have their time, and end with a
/// cancel.
#[test]
fn commands_of_a_closed_database_end() {
    let database = database();
    let mut s = database.connect();
    let cancelled = submit(&mut s, "select pg_sleep(600) -- cancelled", "");
    let ends = submit(&mut s, "select pg_sleep(2) -- ends", "");
    until_running(&mut s, "%-- cancelled", 1);
    until_running(&mut s, "%-- ends", 1);
    s.run("select scylla.open(false)");
    let later = submit(&mut s, "select 1", "");
    s.cancel(cancelled);
    until_gone(&mut s, "%-- cancelled");
    assert_eq!(settled(&mut s, ends)["status"], "completed");
    assert_eq!(s.status(later), "ready");
    s.run("select scylla.open()");
    assert_eq!(settled(&mut s, later)["status"], "completed");
}

/// B122: a command whose process cannot connect, since another transaction has its database locked,
/// ends with a cancel, too.
#[test]
fn a_command_that_waits_for_its_database_is_cancelled() {
    let server = Server::start(&[]);
    let (database, there) = (server.database(), server.bare_database());
    let mut s = database.connect();
    let mut blocks = server.connect();
    blocks.run(&format!("begin; alter database {0} rename to x{0}", there.name));
    let options = format!(", '{}'", there.name);
    let id = submit(&mut s, "select 1", &options);
    let waiting = "select count(*) from pg_locks where locktype = 'object' and not granted";
    eventually(seconds(20), "it waits", || (s.count(waiting) == 1).then_some(()));
    assert_eq!(s.status(id), "running");
    s.cancel(id);
    eventually(seconds(20), "it ends", || (s.count(waiting) == 0).then_some(()));
    blocks.run("rollback");
    assert_eq!(run(&mut s, "select 1", &options)["status"], "completed");
}
