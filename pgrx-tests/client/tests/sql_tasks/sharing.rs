//! How roles and databases share the processes that run commands.

use crate::{run, running, settled, submit, until_running};
use client::*;

pub fn with_roles(s: &mut Session, roles: &[&str]) {
    for role in roles {
        s.run(&format!("create role {role} login"));
        s.run(&format!("select scylla.grant('sql', '{role}', '{{submit,look}}')"));
    }
}

/// Submits a command as a role.
#[track_caller]
pub fn submit_as(s: &mut Session, role: &str, command: &str, options: &str) -> Uuid {
    s.run(&format!("set role {role}"));
    let id = submit(s, command, options);
    s.run("reset role");
    id
}

/// B125: a role that has its share of the processes delays no other, whatever its tasks' priorities
/// and groups; its other commands are ready until one has ended.
#[test]
fn a_role_leaves_a_process_to_the_others() {
    let server = Server::start(&["scylla.sql_workers = 4"]);
    let database = server.database();
    let mut s = database.connect();
    with_roles(&mut s, &["greedy", "one", "two"]);
    for n in 0..40 {
        // In its own group, and in that of the other.
        let group = ["", ", group_key => 'one'"][n % 2];
        submit_as(
            &mut s,
            "greedy",
            "select pg_sleep(600) -- greedy",
            &format!(", priority => 9{group}"),
        );
    }
    until_running(&mut s, "%-- greedy", 3);
    let ids = [0, 1, 2, 3].map(|n| submit_as(&mut s, ["one", "two"][n % 2], "select 1", ""));
    for id in ids {
        assert_eq!(settled(&mut s, id)["status"], "completed");
    }
    assert_eq!(running(&mut s, "%-- greedy").len(), 3);
    let owned = "select count(*) from scylla.tasks where status = 'running'";
    assert_eq!(s.count(owned), 3, "what has not begun is ready");
    // Its next command begins when one has ended.
    let id: Uuid = s.value("select id from scylla.tasks where status = 'running' limit 1", &[]);
    s.cancel(id);
    eventually(seconds(20), "the next one begins", || {
        (running(&mut s, "%-- greedy").len() == 3 && s.count(owned) == 3).then_some(())
    });
}

/// B125: the same for a database, however many roles it has.
#[test]
fn a_database_leaves_a_process_to_the_others() {
    let server = Server::start(&["scylla.sql_workers = 4"]);
    let (greedy, other) = (server.database(), server.database());
    let (mut g, mut s) = (greedy.connect(), other.connect());
    let roles = ["one", "two", "three"];
    with_roles(&mut g, &roles);
    // Something is kept for a database once its scheduler has begun.
    assert_eq!(run(&mut s, "select 1", "")["status"], "completed");
    for n in 0..9 {
        submit_as(&mut g, roles[n % 3], "select pg_sleep(600) -- greedy", "");
    }
    until_running(&mut g, "%-- greedy", 3);
    let id = submit(&mut s, "select 1", "");
    assert_eq!(settled(&mut s, id)["status"], "completed");
    assert_eq!(running(&mut g, "%-- greedy").len(), 3);
}

/// How many commands of one database began after a command of another one was submitted, and before
/// that began. The first database has many commands to run.
#[track_caller]
fn overtaken_by(server: &Server) -> i64 {
    let (busy, other) = (server.database(), server.database());
    let (mut b, mut s) = (busy.connect(), other.connect());
    b.run("create table t (at timestamptz)");
    s.run("create table t (at timestamptz)");
    b.run(
        "select scylla.run_sql('insert into t values (clock_timestamp()); select pg_sleep(0.05)')
           from generate_series(1, 400)",
    );
    eventually(seconds(20), "some have run", || {
        (b.count("select count(*) from t") > 3).then_some(())
    });
    let begun = s.text("select clock_timestamp()::text");
    let id = submit(&mut s, "insert into t values (clock_timestamp())", "");
    assert_eq!(settled(&mut s, id)["status"], "completed");
    let at = s.text("select at::text from t");
    let between =
        "select count(*) from t where at between $1::text::timestamptz and $2::text::timestamptz";
    let count = b.value(between, &[&begun, &at]);
    assert!(
        b.count("select count(*) from scylla.tasks where status = 'ready'") > 100,
        "it was early"
    );
    count
}

/// B125: databases that wait for a process get them in turn.
#[test]
fn a_database_with_many_commands_does_not_delay_another() {
    let server = Server::start(&["scylla.sql_workers = 1"]);
    let count = overtaken_by(&server);
    assert!(count <= 2, "{count} of the other database's commands were first");
}

/// B125: the same where the server has one place among its processes.
#[test]
fn idle_processes_make_room_among_the_server_s_processes() {
    // The launcher, two schedulers, PostgreSQL's own launcher for subscriptions: one place is left.
    let server = Server::start(&["max_worker_processes = 5", "max_parallel_workers = 0"]);
    let count = overtaken_by(&server);
    // Each process that leaves must be gone before another one starts.
    assert!(count <= 2, "{count} of the other database's commands were first");
}

/// B125: a command belongs to the group of its role, unless told: roles have their turns, and a
/// limit for each.
#[test]
fn roles_are_groups_of_their_own() {
    let server = Server::start(&["scylla.sql_workers = 1"]);
    let database = server.database();
    let mut s = database.connect();
    with_roles(&mut s, &["many", "\"Few\""]);
    s.run("create table t (at serial, name text); grant all on t, t_at_seq to public");
    s.run("select scylla.pause('sql')");
    let note = "insert into t (name) values (current_user)";
    let first = submit_as(&mut s, "many", note, "");
    (0..20).for_each(|_| _ = submit_as(&mut s, "many", note, ""));
    let few = submit_as(&mut s, "\"Few\"", note, "");
    let told = submit_as(&mut s, "many", note, ", group_key => 'g'");
    let groups = [first, few, told].map(|id| s.entry(id)["group_key"].clone());
    assert_eq!(groups, [json!("many"), json!("Few"), json!("g")]);
    s.run("select scylla.resume('sql')");
    settled(&mut s, few);
    settled(&mut s, told);
    assert!(s.count("select at::bigint from t where name = 'Few'") <= 3, "it had its turn");
    // Runs of schedules, too.
    s.run("set role many");
    s.run("select scylla.schedule_sql('plain', 'every 1 second', 'select 1')");
    s.run("select scylla.schedule_sql('told', 'every 1 second', 'select 1', group_key => 'g2')");
    s.run("reset role");
    for (name, group) in [("plain", "many"), ("told", "g2")] {
        let look = format!(
            "select coalesce(min(group_key), '-') from scylla.tasks
             where key like '{name}@%' and status = 'completed'"
        );
        eventually(seconds(20), "a run", || (s.text(&look) == group).then_some(()));
    }
    s.run("select scylla.schedule_sql('told', 'every 1 second', 'select 1')");
    let look = "select (group_key is null)::text from scylla.schedule where name = 'told'";
    assert_eq!(s.text(look), "true", "registered again without");
}
