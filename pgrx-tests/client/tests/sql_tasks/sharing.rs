//! How roles and databases share the processes that run commands.

use crate::{run, running, settled, submit, until_running};
use client::*;
use std::time::Duration;

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
/// that began, and how long that took: the most and the least of some. The first database has many
/// commands to run.
#[track_caller]
fn overtaken_by(server: &Server) -> (i64, Duration) {
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
    let (mut most, mut least) = (0, Duration::MAX);
    for _ in 0..5 {
        let begun = s.text("select clock_timestamp()::text");
        let id = submit(&mut s, "insert into t values (clock_timestamp())", "");
        assert_eq!(settled(&mut s, id)["status"], "completed");
        let at = s.text("select max(at)::text from t");
        let between = "select count(*), extract(epoch from $2::text::timestamptz - $1::text::timestamptz)::float8
            from t where at between $1::text::timestamptz and $2::text::timestamptz";
        let row = b.query_one(between, &[&begun, &at]).expect("a row");
        most = most.max(row.get(0));
        least = least.min(Duration::from_secs_f64(row.get(1)));
    }
    let left = b.count("select count(*) from scylla.tasks where status = 'ready'");
    assert!(left > 100, "the other database has {left} left");
    (most, least)
}

/// B125: databases that wait for a process get them in turn.
#[test]
fn a_database_with_many_commands_does_not_delay_another() {
    let server = Server::start(&["scylla.sql_workers = 1"]);
    let (count, _) = overtaken_by(&server);
    assert!(count <= 2, "{count} of the other database's commands were first");
}

/// B125: of databases that all have commands to run, each has its turn before another has its
/// second one.
#[test]
fn databases_with_many_commands_take_turns() {
    const EACH: i64 = 40;
    let server = Server::start(&["scylla.sql_workers = 1"]);
    let databases = [(); 3].map(|()| server.database());
    let mut sessions = databases.each_ref().map(|it| it.connect());
    for s in &mut sessions {
        s.run("create table t (at timestamptz); select scylla.pause('sql')");
        s.run(&format!(
            "select scylla.run_sql('insert into t values (clock_timestamp()); select pg_sleep(0.01)')
               from generate_series(1, {EACH})"
        ));
    }
    sessions.iter_mut().for_each(|s| s.run("select scylla.resume('sql')"));
    let mut begun = Vec::new();
    for (n, s) in sessions.iter_mut().enumerate() {
        let done = "select count(*) from scylla.finished where status = 'completed'";
        let what = format!("all {EACH} commands of database {n} have completed");
        eventually(seconds(60), &what, || (s.count(done) == EACH).then_some(()));
        let rows = s.query("select extract(epoch from at)::float8 from t", &[]).expect("the times");
        begun.extend(rows.iter().map(|row| (row.get::<_, f64>(0), n)));
    }
    begun.sort_by(|one, other| one.0.total_cmp(&other.0));
    let order: Vec<usize> = begun.into_iter().map(|(_, database)| database).collect();
    // The databases by number, in the order in which their commands began: 012012…
    let shown: String = order.iter().map(|database| database.to_string()).collect();
    let places = [0, 1, 2]
        .map(|n| -> Vec<usize> { (0..order.len()).filter(|at| order[*at] == n).collect() });
    // As long as each had something to run.
    let first = places.iter().map(|it| it[0]).max().unwrap();
    let last = places.iter().map(|it| *it.last().unwrap()).min().unwrap();
    assert!(
        last > first + 60,
        "all three databases had commands to run from the command {first} to the command {last} only, wanted are \
         more than 60; the databases of the commands, in the order of their begin: {shown}"
    );
    for (n, places) in places.iter().enumerate() {
        for two in places.windows(2).filter(|two| first <= two[0] && two[1] <= last) {
            let others = two[1] - two[0] - 1;
            assert!(
                others <= 3,
                "between the commands {} and {} of database {n}, {others} commands of other databases began, \
                 wanted are at most 3; the databases of the commands, in the order of their begin: {shown}",
                two[0],
                two[1]
            );
        }
    }
}

/// B125: the same where the server has one place among its processes.
#[test]
fn idle_processes_make_room_among_the_server_s_processes() {
    // The launcher, two schedulers, PostgreSQL's own launcher for subscriptions: one place is left.
    let server = Server::start(&["max_worker_processes = 5", "max_parallel_workers = 0"]);
    let (count, took) = overtaken_by(&server);
    // Each process that leaves must be gone before another one starts.
    assert!(count <= 2, "{count} of the other database's commands were first");
    // Else an idle one leaves after two seconds.
    assert!(took < milliseconds(1_500), "{took:?}");
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
