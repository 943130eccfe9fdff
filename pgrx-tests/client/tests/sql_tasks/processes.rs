//! The processes that run commands: how many there are, and what happens when one is lost.

use crate::{first_code, run, running, settled, submit, until_running};
use client::*;

/// The processes that run commands, or wait for one.
fn processes(s: &mut Session) -> i64 {
    s.count("select count(*) from pg_stat_activity where backend_type = 'scylla sql worker'")
}

/// A command that runs until `let_go`.
fn hold(s: &mut Session) -> &'static str {
    s.run("select pg_advisory_lock(7)");
    "select pg_advisory_xact_lock_shared(7)"
}

fn let_go(s: &mut Session) {
    s.run("select pg_advisory_unlock(7)");
}

/// B125: processes are started on demand, up to the limit, and end when there is nothing to do.
#[test]
fn processes_are_started_on_demand() {
    let server = Server::start(&["scylla.sql_workers = 2"]);
    let database = server.database();
    let mut s = database.connect();
    assert_eq!(processes(&mut s), 0);
    let held = hold(&mut s);
    let ids: Vec<Uuid> = (0..6).map(|_| submit(&mut s, held, "")).collect();
    until_running(&mut s, held, 2);
    let states = "select count(*) from scylla.tasks where status = 'running'";
    assert_eq!(s.count(states), 2, "the others are ready");
    let_go(&mut s);
    for id in ids {
        assert!(processes(&mut s) <= 2);
        assert_eq!(settled(&mut s, id)["status"], "completed");
    }
    eventually(seconds(10), "they end", || (processes(&mut s) == 0).then_some(()));
    // Roles and databases share the limit: an idle process of another role makes room.
    s.run("create role a login; create role b login; create role c login");
    for role in ["a", "b", "c", "a"] {
        s.run(&format!("select scylla.grant('sql', '{role}', '{{submit}}')"));
        s.run(&format!("set role {role}"));
        let id = submit(&mut s, "select 1", "");
        s.run("reset role");
        assert_eq!(settled(&mut s, id)["status"], "completed");
        assert!(processes(&mut s) <= 2);
    }
}

/// B125: with `scylla.sql_workers` 0 nothing runs, and commands wait.
#[test]
fn without_processes_commands_wait() {
    let server = Server::start(&["scylla.sql_workers = 0"]);
    let database = server.database();
    let mut s = database.connect();
    let id = submit(&mut s, "select 1", "");
    sleep(seconds(1));
    assert_eq!(s.status(id), "ready");
    assert!(s.cancel(id));
}

/// B125: a server without a free place for a process runs the command when there is one.
#[test]
fn a_command_waits_for_a_place_among_the_server_s_processes() {
    // The launcher, a scheduler, PostgreSQL's own launcher for subscriptions: one place is left.
    let server = Server::start(&["max_worker_processes = 4", "max_parallel_workers = 0"]);
    let database = server.database();
    let mut s = database.connect();
    let held = hold(&mut s);
    let id = submit(&mut s, held, "");
    let other = submit(&mut s, "select 1", "");
    until_running(&mut s, held, 1);
    sleep(seconds(2));
    let_go(&mut s);
    assert_eq!(settled(&mut s, id)["status"], "completed");
    assert_eq!(settled(&mut s, other)["status"], "completed");
    assert!(!server.log().contains("could not start a process"), "no try was used up");
}

/// I1, B123: a crash in the middle of a command counts its try, and no command runs more often than
/// its task has tries.
#[test]
fn a_crash_in_the_middle_leaves_the_outcome_unknown() {
    let server = Server::start(&["restart_after_crash = on"]);
    let database = server.database();
    let mut s = database.connect();
    let once = submit(&mut s, "select pg_sleep(600)", "");
    let twice = submit(&mut s, "select pg_sleep(5)", ", max_tries => 2, retry_interval => '10 ms'");
    until_running(&mut s, "%sleep%", 2);
    server.kill();
    server.start_again();
    let mut s = database.connect();
    let entry = settled(&mut s, once);
    let status = entry["status"].as_str();
    assert_eq!((status, first_code(&entry)), (Some("aborted"), "outcome_unknown"));
    assert_eq!(entry["history"][1]["_typ"], "TaskTimeout");
    assert_eq!(settled(&mut s, twice)["status"], "completed");
    assert_eq!(s.entry(twice)["tries"], 2);
}

/// I1, B123: the same when the process itself is killed: the server restarts all others.
#[test]
fn a_killed_process_counts_the_try() {
    let server = Server::start(&["restart_after_crash = on"]);
    let database = server.database();
    let mut s = database.connect();
    s.run("create table runs (at timestamptz default now())");
    let command = "insert into runs default values; commit; select pg_sleep(604)";
    let id = submit(&mut s, command, ", max_tries => 2, retry_interval => '10 ms'");
    for tries in 1..=2 {
        let pid = until_running(&mut s, "%sleep(604)%", 1)[0];
        assert_eq!(s.entry(id)["tries"], tries);
        server.kill_process(pid);
        s = database.connect();
    }
    let entry = settled(&mut s, id);
    assert_eq!(entry["status"], "aborted");
    assert_eq!(first_code(&entry), "outcome_unknown", "{entry}");
    assert_eq!(s.count("select count(*) from runs"), 2, "as often as it has tries");
}

/// I1, B123: a scheduler that is lost while a command runs: the next one takes the command over.
#[test]
fn another_scheduler_takes_running_commands_over() {
    let server = Server::start(&["restart_after_crash = on"]);
    let database = server.database();
    let mut s = database.connect();
    let held = hold(&mut s);
    let fast = submit(&mut s, held, "");
    let slow = submit(&mut s, "select pg_sleep(4) -- slow", "");
    until_running(&mut s, "%-- slow", 1);
    until_running(&mut s, held, 1);
    server.terminate_scheduler(&database);
    let_go(&mut s);
    for id in [fast, slow] {
        let entry = settled(&mut s, id);
        assert_eq!((&entry["status"], &entry["tries"]), (&json!("completed"), &json!(1)));
    }
    // It ends a command whose task was cancelled meanwhile.
    let cancelled = submit(&mut s, "select pg_sleep(605)", "");
    until_running(&mut s, "%sleep(605)%", 1);
    server.terminate_scheduler(&database);
    s.cancel(cancelled);
    eventually(seconds(20), "it ends", || running(&mut s, "%sleep(605)%").is_empty().then_some(()));
    // With `kill -9` the server restarts all its processes, also those that run commands.
    let killed = submit(&mut s, "select pg_sleep(606)", "");
    until_running(&mut s, "%sleep(606)%", 1);
    let scheduler: i32 = s.value(
        "select pid from pg_stat_activity
         where backend_type = 'scylla scheduler' and datname = current_database()",
        &[],
    );
    server.kill_process(scheduler);
    let mut s = database.connect();
    assert_eq!(first_code(&settled(&mut s, killed)), "outcome_unknown");
    assert_eq!(run(&mut s, "select 1", "")["status"], "completed");
    server.assert_log_is_clean();
}

/// I9: a fast shutdown does not wait for commands.
#[test]
fn a_shutdown_ends_commands() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    let id = submit(&mut s, "select pg_sleep(607)", "");
    until_running(&mut s, "%sleep(607)%", 1);
    // pg_ctl waits for less time than the command takes.
    server.stop("fast");
    server.start_again();
    let mut s = database.connect();
    assert_eq!(first_code(&settled(&mut s, id)), "outcome_unknown");
}

/// B125: the processes are shared: a command begins when those of other databases leave room.
#[test]
fn a_command_begins_when_one_of_another_database_ends() {
    let server = Server::start(&["scylla.sql_workers = 1"]);
    let (one, other) = (server.database(), server.database());
    let (mut s, mut o) = (one.connect(), other.connect());
    let first = submit(&mut s, "select pg_sleep(2) -- the first", "");
    until_running(&mut s, "%-- the first", 1);
    let second = submit(&mut o, "select 1", "");
    assert_eq!(settled(&mut s, first)["status"], "completed");
    assert_eq!(settled(&mut o, second)["status"], "completed");
}

/// B125: a scheduler that has just looked, and found the queue paused, looks again.
#[test]
fn a_command_begins_however_soon_its_queue_is_resumed() {
    let server = Server::start(&[]);
    for wait in [10, 30, 60, 120] {
        // The first lease of a database has its scheduler look again from time to time.
        let database = server.database();
        let mut s = database.connect();
        s.run("select scylla.pause('sql')");
        let id = submit(&mut s, "select 1", "");
        sleep(milliseconds(wait));
        s.run("select scylla.resume('sql')");
        assert_eq!(settled(&mut s, id)["status"], "completed");
    }
}
