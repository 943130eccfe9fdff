//! `doctor`: each finding appears, and disappears with what it says to do.

use super::server::*;
use serde_json::Value;

/// What there is to find of a check, but for what is fine.
fn findings(d: &Database, check: &str) -> Vec<(String, String, String)> {
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    d.json(&["doctor", "--older-than", "1 s"])
        .iter()
        .filter(|it| it["check"] == check && it["severity"] != "ok")
        .map(|it| (text(&it["severity"]), text(&it["message"]), text(&it["hint"])))
        .collect()
}

/// Waits for one finding: its severity, and words of its message and of its hint.
#[track_caller]
fn appears(d: &Database, check: &str, severity: &str, message: &str, hint: &str) {
    let mut last = Vec::new();
    let found = (0..60).any(|_| {
        last = findings(d, check);
        let found =
            last.iter().any(|(a, b, c)| a == severity && b.contains(message) && c.contains(hint));
        if !found {
            std::thread::sleep(std::time::Duration::from_millis(300));
        }
        found
    });
    assert!(found, "{check}: no {severity} {message:?} {hint:?} in {last:?}");
    let status = d.run(&["doctor", "--older-than", "1 s"]).status;
    assert!(severity == "note" || status == 1, "{severity}: exit status {status}");
}

#[track_caller]
fn disappears(d: &Database, check: &str, message: &str) {
    eventually(message, || {
        findings(d, check).iter().all(|it| !it.1.contains(message)).then_some(())
    });
}

fn set(d: &Database, setting: &str) {
    d.sql(&format!("alter system set {setting}"));
    d.sql("select pg_reload_conf()");
}

fn reset(d: &Database, setting: &str) {
    set(d, &format!("{setting} to default"));
}

#[test]
fn a_healthy_server_has_nothing_wrong() {
    let server = Server::start(&["idle_in_transaction_session_timeout = '10 min'"]);
    let d = Database::of(&server);
    let ran = eventually("all is well", || Some(d.run(&["doctor"])).filter(|ran| ran.status == 0));
    let checks: Vec<_> = ran
        .out
        .lines()
        .map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        checks,
        ["extension", "scheduler", "processes", "board", "xmin", "settings", "tables", "queues"]
            .map(|check| format!("ok {check}"))
    );
    let json = d.json(&["doctor"]);
    assert_eq!(json.len(), 8);
    for finding in json {
        assert_eq!(finding["severity"], "ok");
        assert!(finding["message"].is_string() && finding["hint"].is_null(), "{finding}");
    }
}

#[test]
fn a_server_without_the_library() {
    let server = Server::start(&["max_worker_processes = 20"]);
    let d = Database::of(&server);
    let bare = Database::bare(&server);
    appears(&bare, "extension", "error", "is not installed in database", "create extension scylla");
    server.restart(&["shared_preload_libraries = ''"]);
    appears(
        &d,
        "extension",
        "error",
        "the server has not loaded scylla",
        "shared_preload_libraries",
    );
    // Each command says so, in the server's words.
    let ran = d.run(&["submit", "q"]);
    assert_eq!(ran.status, 1);
    assert!(ran.err.contains("shared_preload_libraries"), "{}", ran.err);
    server.restart(&["shared_preload_libraries = 'scylla'"]);
    disappears(&d, "extension", "has not loaded");
    assert_eq!(findings(&d, "extension"), []);
}

#[test]
fn an_extension_that_was_not_updated() {
    let d = Database::bare(shared());
    d.sql("create extension scylla version '0.1.0'");
    appears(
        &d,
        "extension",
        "error",
        "has scylla 0.1.0, and the server's files are of 0.2.0",
        "alter extension scylla update",
    );
    d.sql("alter extension scylla update");
    assert_eq!(findings(&d, "extension"), []);
}

#[test]
fn a_database_without_a_scheduler() {
    let server = Server::start(&["max_worker_processes = 2", "max_parallel_workers = 0"]);
    let d = Database::of(&server);
    appears(&d, "scheduler", "error", "no scheduler serves database", "max_worker_processes");
    appears(&d, "processes", "warning", "all 2 background workers", "max_worker_processes");
    server.restart(&["max_worker_processes = 8"]);
    disappears(&d, "scheduler", "no scheduler");
    disappears(&d, "processes", "background workers");
}

#[test]
fn a_database_that_is_closed() {
    let d = Database::of(shared());
    d.sql("select scylla.open(false)");
    appears(&d, "scheduler", "error", "is closed", "scylla.open()");
    d.sql("select scylla.open()");
    disappears(&d, "scheduler", "is closed");
}

/// A scheduler that is stopped is late, and does not fire.
#[test]
fn a_scheduler_that_is_held_up() {
    let server = Server::start(&["max_worker_processes = 20", "scylla.sweep_interval = '1 s'"]);
    let d = Database::of(&server);
    let pid = eventually("a scheduler", || {
        Some(d.sql("select scheduler_pid from scylla.health")).filter(|it| !it.is_empty())
    });
    let signal = |name: &str| {
        assert!(std::process::Command::new("kill").args([name, &pid]).status().unwrap().success());
    };
    // In the midst of its work it would hold what doctor reads.
    let idle = format!(
        "select state = 'idle' and clock_timestamp() > state_change + '100 ms'
         from pg_stat_activity where pid = {pid}"
    );
    eventually("the scheduler sleeps", || (d.sql(&idle) == "t").then_some(()));
    signal("-STOP");
    appears(&d, "scheduler", "warning", " late", "log");
    signal("-CONT");
    disappears(&d, "scheduler", " late");
}

#[test]
fn a_board_that_is_nearly_full() {
    let server = Server::start(&["scylla.board_size = 64", "max_worker_processes = 20"]);
    let d = Database::of(&server);
    d.sql("select scylla.submit('q') from generate_series(1, 100)");
    let own = |n: usize| {
        let leases = format!("scylla.own_tasks('w', 'q', {n}, timeout => '1 hour')");
        assert_eq!(d.sql(&format!("select count(*) from {leases}")), n.to_string());
    };
    own(1); // what was submitted before there was a scheduler is read when it is asked for
    appears(&d, "board", "note", "slots of the board are in use", "scylla.board_size");
    own(54);
    appears(&d, "board", "error", "55 of 64 slots of the board have leases", "scylla.board_size");
    d.sql("select scylla.delete_matching('{\"queue\": \"q\"}')");
    disappears(&d, "board", "slots");
    // A group takes a lane for each action.
    let lanes = "select scylla.submit('g', group_key => n::text) from generate_series(1, lanes) n";
    d.sql(&format!("select count(*) from scylla.health, lateral ({lanes}) x"));
    appears(&d, "board", "note", "lanes of the board are in use", "scylla.board_size");
    d.sql("select scylla.delete_matching('{\"queue\": \"g\"}')");
    disappears(&d, "board", "lanes");
}

#[test]
fn what_keeps_dead_rows() {
    let server = Server::start(&[
        "max_prepared_transactions = 2",
        "wal_level = logical",
        "max_worker_processes = 20",
    ]);
    let d = Database::of(&server);
    assert_eq!(findings(&d, "xmin"), []);
    let mut session = d.session();
    session.run("begin isolation level repeatable read; select scylla.submit('q')");
    appears(
        &d,
        "xmin",
        "warning",
        "of role postgres, idle in transaction, keeps dead rows",
        "pg_terminate_backend",
    );
    // It is not old for those who ask for older ones.
    assert!(!d.run(&["doctor"]).out.contains("idle in transaction, keeps"));
    session.run("rollback");
    disappears(&d, "xmin", "idle in transaction");
    d.sql("create table t (n int); begin; insert into t values (1); prepare transaction 'it''s'");
    appears(&d, "xmin", "warning", "prepared transaction 'it''s'", "rollback prepared 'it''s'");
    d.sql("rollback prepared 'it''s'");
    disappears(&d, "xmin", "prepared");
    d.sql("select pg_create_logical_replication_slot('slot', 'pgoutput')");
    appears(&d, "xmin", "warning", "replication slot slot", "pg_drop_replication_slot('slot')");
    d.sql("select pg_drop_replication_slot('slot')");
    disappears(&d, "xmin", "slot");
}

#[test]
fn settings_that_do_not_fit() {
    let server = Server::start(&["max_connections = 12", "max_worker_processes = 20"]);
    let d = Database::of(&server);
    for (setting, value, severity, message) in [
        ("autovacuum", "off", "warning", "autovacuum does not run"),
        ("fsync", "off", "warning", "fsync is off"),
        ("full_page_writes", "off", "warning", "full_page_writes is off"),
        ("synchronous_commit", "off", "note", "synchronous_commit is off"),
        ("statement_timeout", "'20 s'", "warning", "statement_timeout ends workers"),
    ] {
        assert!(findings(&d, "settings").iter().all(|it| !it.1.contains(message)), "{setting}");
        set(&d, &format!("{setting} = {value}"));
        appears(&d, "settings", severity, message, setting);
        reset(&d, setting);
        disappears(&d, "settings", message);
    }
    appears(
        &d,
        "settings",
        "note",
        "a forgotten transaction",
        "idle_in_transaction_session_timeout",
    );
    set(&d, "idle_in_transaction_session_timeout = '10 min'");
    disappears(&d, "settings", "a forgotten transaction");

    // The program's own connection is one of nine.
    let sessions: Vec<_> = (0..8)
        .map(|_| {
            let mut session = d.session();
            session.run("select 1");
            session
        })
        .collect();
    appears(&d, "processes", "warning", "9 of 9 connections are in use", "max_connections");
    drop(sessions);
    disappears(&d, "processes", "connections are in use");

    server.restart(&["huge_pages = off", "shared_buffers = '1100 MB'"]);
    appears(&d, "settings", "note", "huge_pages is off", "vm.nr_hugepages");
    server.restart(&["huge_pages = try"]);
    disappears(&d, "settings", "huge_pages");
}

#[test]
fn tables_that_are_not_vacuumed() {
    let server = Server::start(&["autovacuum = off", "max_worker_processes = 20"]);
    let d = Database::of(&server);
    d.sql("alter table scylla.task set (autovacuum_enabled = false)");
    appears(
        &d,
        "tables",
        "warning",
        "autovacuum is off for scylla.task",
        "reset (autovacuum_enabled)",
    );
    d.sql("alter table scylla.task reset (autovacuum_enabled)");
    disappears(&d, "tables", "autovacuum is off");
    d.sql("select scylla.submit_many('q', array_fill('1'::jsonb, array[60000])) is null");
    d.done(&["delete", "-q", "q", "--yes"]);
    appears(&d, "tables", "warning", "scylla.task has ", "vacuum scylla.task");
    d.sql("vacuum scylla.task");
    disappears(&d, "tables", "dead rows");
}

#[test]
fn queues_that_wait() {
    let server = Server::start(&["max_worker_processes = 20", "scylla.sql_workers = 0"]);
    let d = Database::of(&server);
    d.sql("select scylla.submit('mail')");
    d.sql("select scylla.submit('held')");
    d.sql("select scylla.pause('held')");
    d.sql("select scylla.run_sql('select 1')");
    appears(
        &d,
        "queues",
        "warning",
        "queue \"held\" is paused, with 1 ready tasks",
        "scylla.resume('held')",
    );
    appears(&d, "queues", "error", "1 SQL tasks wait for a process", "scylla.sql_workers");
    // Not at once: a worker may be about to come.
    appears(
        &d,
        "queues",
        "warning",
        "queue \"mail\" has 1 ready tasks and no worker",
        "Start a worker",
    );
    d.sql("select scylla.submit('mail')");
    d.sql("select count(*) from scylla.own_tasks('w', 'mail')");
    disappears(&d, "queues", "no worker");
    // One that is asked to stop owns nothing more.
    let worker = d.sql("select scylla.register_worker()");
    d.sql(&format!("select count(*) from scylla.own_tasks('{worker}', 'drained')"));
    d.sql("select scylla.submit('drained')");
    d.sql(&format!("select scylla.drain_worker('{worker}')"));
    appears(&d, "queues", "warning", "queue \"drained\" has 1 ready tasks", "Start a worker");
    d.sql("select count(*) from scylla.own_tasks('other', 'drained')");
    disappears(&d, "queues", "queue \"drained\"");
    d.sql("select scylla.cancel_matching('{\"queue\": \"held\"}')");
    appears(&d, "queues", "note", "queue \"held\" is paused, with 0 ready tasks", "scylla.resume");
    d.sql("select scylla.resume('held')");
    disappears(&d, "queues", "is paused");
    server.restart(&["scylla.sql_workers = 2"]);
    disappears(&d, "queues", "SQL tasks");
}

#[test]
fn a_role_that_sees_little_is_told_what_was_not_checked() {
    let d = Database::of(shared());
    d.sql("do $$ begin create role stranger login; exception when duplicate_object then end $$");
    let ran = d.run_as("stranger", &["doctor"]);
    for check in ["processes", "board", "queues"] {
        let line =
            ran.out.lines().find(|line| line.split_whitespace().nth(1) == Some(check)).unwrap();
        assert!(line.starts_with("note"), "{line}");
    }
    assert!(ran.out.contains("Grant pg_monitor"), "{}", ran.out);
    d.sql("grant pg_monitor to stranger");
    let ran = d.run_as("stranger", &["doctor"]);
    assert!(!ran.out.contains("pg_monitor"), "{}", ran.out);
    d.sql("revoke pg_monitor from stranger");
}
