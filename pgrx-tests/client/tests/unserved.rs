//! What calls say when the server has no background worker left for the scheduler or for SQL
//! commands.

use client::*;

/// The warnings of the last calls: their messages, each with a hint that names the setting.
#[track_caller]
fn warned(s: &mut Session, setting: &str) -> Vec<String> {
    let warnings = s.warnings();
    for it in &warnings {
        assert!(it.hint().is_some_and(|hint| hint.contains(setting)), "{it:?}");
        assert_eq!(it.code().code(), "53400");
    }
    warnings.iter().map(|it| it.message().to_owned()).collect()
}

#[track_caller]
fn why(s: &mut Session, id: Uuid) -> String {
    s.value("select scylla.why($1)", &[&id])
}

/// Without a scheduler: each call that relies on one warns.
#[test]
fn a_database_without_a_scheduler_says_so() {
    let server = Server::start(&["max_worker_processes = 2", "max_parallel_workers = 0"]);
    let database = server.bare_database();
    let mut s = database.connect();
    let missing = format!("the scylla scheduler of database \"{}\" is not running", database.name);
    let setting = "max_worker_processes";
    s.run("create extension scylla");
    assert_eq!(warned(&mut s, setting), std::slice::from_ref(&missing));
    let id = s.submit_with("q", "run_at => now() + interval '1 hour', post_result => true");
    // Without a scheduler, the first call builds the board, and says so.
    s.warnings();
    let text = why(&mut s, id);
    assert!(text.starts_with("due in ") && text.contains("max_worker_processes"), "{text}");
    assert_eq!(warned(&mut s, setting), std::slice::from_ref(&missing));
    s.run(&format!("call scylla.wait_for_task('{id}', timeout => '10 ms')"));
    assert_eq!(warned(&mut s, setting), std::slice::from_ref(&missing));
    for call in [
        "run_sql('select 1')",
        "schedule_sql('s', '@daily', 'select 1')",
        "schedule('t', '@daily', 'q')",
        "alter_schedule('t', schedule => '@hourly')",
    ] {
        s.run(&format!("select scylla.{call}"));
        assert_eq!(warned(&mut s, setting), std::slice::from_ref(&missing), "{call}");
    }
    s.run("select scylla.enable_cron_api(); select cron.schedule('@daily', 'select 1')");
    assert_eq!(warned(&mut s, setting), [missing]);
    // What has settled lacks nothing.
    s.cancel(id);
    assert_eq!(why(&mut s, id), "it is cancelled");
    s.run(&format!("call scylla.wait_for_task('{id}', timeout => '10 ms')"));
    assert_eq!(s.warnings().len(), 0);
}

/// A transaction that has written cannot build the board: it gets an error that says "try again",
/// and not the one of a task that has settled.
#[test]
fn a_board_that_is_not_built_is_told_apart_from_a_settled_task() {
    let server = Server::start(&["max_worker_processes = 2", "max_parallel_workers = 0"]);
    let database = server.bare_database();
    let mut s = database.connect();
    s.run("create extension scylla");
    s.run("begin; create table theirs ()");
    assert_eq!(s.refused("select count(*) from scylla.own_tasks('w', 'q')"), "57P03");
    // The same call succeeds in a transaction that has written nothing.
    s.run("rollback");
    let id = s.submit("q");
    let lease = s.own_one("q");
    s.complete(&lease);
    assert_eq!(s.refused(&format!("call scylla.wait_for_task('{id}')")), "55000");
}

/// With a scheduler, and no place for a process that runs commands.
#[test]
fn sql_commands_without_a_process_say_so() {
    // The launcher, PostgreSQL's own launcher for subscriptions, the scheduler.
    let server = Server::start(&["max_worker_processes = 3", "max_parallel_workers = 0"]);
    let database = server.database();
    database.scheduler();
    let mut s = database.connect();
    s.warnings();
    let id: Uuid = s.value("select scylla.run_sql('select 1', post_result => true)", &[]);
    let missing = "no process can be started that runs SQL commands";
    assert_eq!(warned(&mut s, "max_worker_processes"), [missing]);
    s.run(&format!("call scylla.wait_for_task('{id}', timeout => '10 ms')"));
    assert_eq!(warned(&mut s, "max_worker_processes"), [missing]);
    // Of another queue, nothing is missing.
    let other = s.submit_with("q", "post_result => true");
    assert_eq!(why(&mut s, other), "ready, and waits for a worker");
    s.run(&format!("call scylla.wait_for_task('{other}', timeout => '10 ms')"));
    assert_eq!(s.warnings().len(), 0);
}

/// A server that is set to run no commands.
#[test]
fn sql_commands_that_are_switched_off_say_so() {
    let server = Server::start(&["scylla.sql_workers = 0"]);
    let database = server.database();
    let mut s = database.connect();
    s.warnings();
    let id: Uuid = s.value("select scylla.run_sql('select 1')", &[]);
    assert_eq!(warned(&mut s, "scylla.sql_workers"), ["the server runs no SQL commands"]);
    assert!(why(&mut s, id).contains("scylla.sql_workers is 0"));
}

/// Where nothing is missing, nothing is said.
#[test]
fn a_server_with_processes_left_is_silent() {
    let database = database();
    database.scheduler();
    let mut s = database.connect();
    let id: Uuid = s.value("select scylla.run_sql('select pg_sleep(1)', post_result => true)", &[]);
    why(&mut s, id);
    s.run(&format!("call scylla.wait_for_task('{id}', timeout => '30 s')"));
    s.run("select scylla.refresh()");
    assert_eq!(s.warnings().len(), 0);
}
