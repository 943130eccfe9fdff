//! With whose rights commands run.

use crate::{first_code, run, settled, submit, until_running};
use client::*;

/// Roles that may submit commands: `asks`, and what others are named here.
fn with_roles(s: &mut Session, others: &[&str]) {
    for role in ["asks"].iter().chain(others) {
        s.run(&format!("create role {role} login"));
        s.run(&format!("grant usage, create on schema public to {role}"));
        s.run(&format!("select scylla.grant('sql', '{role}', '{{submit,look,manage}}')"));
    }
}

/// Submits a command as a role.
fn submit_as(s: &mut Session, role: &str, command: &str) -> Uuid {
    s.run(&format!("set role {role}"));
    let id = submit(s, command, "");
    s.run("reset role");
    id
}

fn run_as(s: &mut Session, role: &str, command: &str) -> Value {
    let id = submit_as(s, role, command);
    settled(s, id)
}

/// B121: a command has the rights of its role, whatever it tries.
#[test]
fn a_command_has_the_rights_of_the_role_that_asked() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    with_roles(&mut s, &["other"]);
    s.run("create table secret (); create table who (name text, session text)");
    s.run("grant insert on who to asks");
    let entry = run_as(
        &mut s,
        "asks",
        "reset role; reset session authorization; set session authorization default;
         insert into who values (current_user, session_user)",
    );
    assert_eq!(entry["status"], "completed", "{entry}");
    assert_eq!(s.text("select name || ' ' || session from who"), "asks asks");
    for command in [
        "select from secret",
        "set role postgres",
        "set session authorization postgres",
        "set role other",
        "copy who to '/tmp/who'",
        "alter system set work_mem = 1000",
        "update scylla.task set role = 'postgres', command = 'drop table secret'",
        "insert into scylla.schedule select * from scylla.schedule",
    ] {
        let entry = run_as(&mut s, "asks", command);
        assert_eq!(first_code(&entry), "42501", "{command}");
    }
    // A function of the superuser's that is a security definer acts for the caller, not for itself.
    s.run(
        "create function definer() returns uuid language sql security definer
         as $$ select scylla.run_sql('insert into who values (current_user, session_user)') $$",
    );
    s.run("set role asks");
    let id: Uuid = s.value("select definer()", &[]);
    s.run("reset role");
    settled(&mut s, id);
    assert_eq!(s.text("select name from who offset 1"), "postgres", "the role is current_user");
}

/// B121: what a command leaves in its session is gone for the next one.
#[test]
fn nothing_leaks_into_the_next_command() {
    let server = Server::start(&["scylla.sql_workers = 1"]);
    let database = server.database();
    let mut s = database.connect();
    with_roles(&mut s, &["other"]);
    s.run("create table pids (pid int); grant insert on pids to public");
    s.run("create table member (); alter table member owner to other; grant other to asks");
    let note = "insert into pids values (pg_backend_pid());";
    for command in [
        "set work_mem = '65MB'; set search_path = 'nowhere'; set my.own = 'x'",
        "set role other",
        "create temp table left_over (); prepare p as select 1",
        "select pg_advisory_lock(7)",
    ] {
        let entry = run_as(&mut s, "asks", &format!("{note}{command}"));
        assert_eq!(entry["status"], "completed", "{entry}");
    }
    let check = "do $$ begin
        assert current_setting('work_mem') <> '65MB';
        assert current_setting('search_path') <> 'nowhere';
        assert coalesce(current_setting('my.own', true), '') = '';
        assert current_user = 'asks' and session_user = 'asks';
        assert to_regclass('pg_temp.left_over') is null;
        assert not exists (select from pg_prepared_statements);
        assert not exists (select from pg_locks where locktype = 'advisory');
        end $$";
    let entry = run_as(&mut s, "asks", &format!("{note}{check}"));
    assert_eq!(entry["status"], "completed", "{entry}");
    assert_eq!(s.count("select count(distinct pid) from pids"), 1, "it was one session");
    // Another role's command has another session.
    let entry = run_as(&mut s, "other", note);
    assert_eq!(entry["status"], "completed", "{entry}");
    assert_eq!(s.count("select count(distinct pid) from pids"), 2);
}

/// B121: rights are checked when the command is submitted, and again when it begins.
#[test]
fn rights_that_are_lost_meanwhile_abort_the_task() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    with_roles(&mut s, &["dropped", "barred", "cut_off", "elsewhere"]);
    s.run(&format!("revoke connect on database {} from public", database.name));
    s.run(&format!(
        "grant connect on database {} to asks, dropped, barred, cut_off",
        database.name
    ));
    s.run("set role elsewhere");
    let there = format!("select scylla.run_sql('select 1', '{}')", database.name);
    assert_eq!(s.refused(&there), "42501", "no right to connect");
    s.run("reset role");
    s.run("create role nologin; select scylla.grant('sql', 'nologin', '{submit}')");
    s.run("set role nologin");
    assert_eq!(s.refused("select scylla.run_sql('select 1')"), "42501");
    assert_eq!(s.refused("select scylla.schedule_sql('n', '@daily', 'select 1')"), "42501");
    s.run("reset role");

    let hold = submit(&mut s, "select pg_sleep(600)", "");
    let waits = format!(", after => array['{hold}'::uuid], on_failure => 'run'");
    let mut ids = Vec::new();
    for role in ["dropped", "barred", "cut_off", "asks"] {
        s.run(&format!("set role {role}"));
        ids.push(submit(&mut s, "select 1", &waits));
        s.run("reset role");
    }
    until_running(&mut s, "%sleep(600)%", 1);
    s.run("drop owned by dropped; drop role dropped; alter role barred nologin");
    s.run(&format!("revoke connect on database {} from cut_off", database.name));
    s.cancel(hold);
    let entries: Vec<Value> = ids.iter().map(|id| settled(&mut s, *id)).collect();
    let codes: Vec<&str> = entries.iter().map(first_code).collect();
    assert_eq!(codes, ["42501", "42501", "42501", "none"], "{entries:?}");
}

/// B121: a schedule whose owner may have no commands run becomes inactive; others go on.
#[test]
fn a_schedule_without_its_owner_becomes_inactive() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    with_roles(&mut s, &["barred"]);
    for role in ["asks", "barred"] {
        s.run(&format!("set role {role}"));
        let call = format!("select scylla.schedule_sql('{role}', 'every 1 second', 'select 1')");
        s.run(&call);
        s.run("reset role");
    }
    s.run("alter role barred nologin");
    eventually(seconds(10), "it is inactive", || {
        let look = "select active from scylla.schedules where name = 'barred'";
        (!s.value::<bool>(look, &[])).then_some(())
    });
    let completed = "select completed from scylla.schedules where name = 'asks'";
    eventually(seconds(10), "the other one runs", || (s.count(completed) > 0).then_some(()));
    assert!(server.log().contains("WARNING:  schedule \"barred\" is inactive from now on"));
    // A command may contain a secret: a role sees its own only.
    s.run("set role asks");
    assert_eq!(s.count("select count(*) from scylla.schedules"), 2);
    let seen = "select string_agg(name, ' ') from scylla.schedules where command is not null";
    assert_eq!(s.text(seen), "asks");
}

/// B121: with `scylla.enable_superuser_sql` off no command runs as a superuser.
#[test]
fn superusers_can_be_refused() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    with_roles(&mut s, &[]);
    assert_eq!(run(&mut s, "select 1", "")["status"], "completed");
    let hold = submit(&mut s, "select pg_sleep(600)", "");
    let waits = format!(", after => array['{hold}'::uuid], on_failure => 'run'");
    let before = submit(&mut s, "select 1", &waits);
    until_running(&mut s, "%sleep(600)%", 1);
    server.configure("scylla.enable_superuser_sql", "off");
    eventually(seconds(5), "the setting is read", || {
        (s.text("show scylla.enable_superuser_sql") == "off").then_some(())
    });
    for call in ["run_sql('select 1')", "schedule_sql('s', '@daily', 'select 1')"] {
        assert_eq!(s.refused(&format!("select scylla.{call}")), "42501");
    }
    s.cancel(hold);
    let entry = settled(&mut s, before);
    assert_eq!(first_code(&entry), "42501", "submitted before");
    assert_eq!(run_as(&mut s, "asks", "select 1")["status"], "completed");
}

/// B121: only a role with the rights of a command's role submits the command again.
#[test]
fn resubmitting_needs_the_rights_of_the_role() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    with_roles(&mut s, &["member", "stranger"]);
    s.run("grant asks to member; create table who (name text); grant insert on who to public");
    s.run("alter role member inherit");
    let command = "insert into who values (current_user); select 1/0";
    let of_asks = run_as(&mut s, "asks", command)["rn"].clone();
    let of_postgres = run(&mut s, command, "")["rn"].clone();
    let resubmit = |id: &Value| {
        format!("select (scylla.resubmit(array['{}']::uuid[]))[1]", id.as_str().unwrap())
    };
    for (role, id) in [("stranger", &of_asks), ("asks", &of_postgres), ("member", &of_postgres)] {
        s.run(&format!("set role {role}"));
        assert_eq!(s.refused(&resubmit(id)), "42501", "{role}");
        s.run("reset role");
    }
    for role in ["member", "asks", "postgres"] {
        s.run(&format!("set role {role}"));
        let id: Uuid = s.value(&resubmit(&of_asks), &[]);
        s.run("reset role");
        let entry = settled(&mut s, id);
        assert_eq!(first_code(&entry), "22012");
        let look = "select role::text || ' ' || command from scylla.finished where id = $1";
        let kept: String = s.value(look, &[&id]);
        assert_eq!(kept, format!("asks {command}"), "it runs as the role that asked first");
    }
}

/// B121: a command is shown to roles that have its role's rights, live and settled.
#[test]
fn commands_are_shown_to_those_with_the_rights_of_the_role() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    with_roles(&mut s, &["member", "stranger"]);
    s.run("grant asks to member; alter role member inherit");
    let settled = run_as(&mut s, "asks", "select 'secret'")["rn"].clone();
    let id = submit_as(&mut s, "asks", "select 'secret', pg_sleep(600)");
    until_running(&mut s, "select 'secret', pg_sleep(600)", 1);
    s.run("select scylla.pause('sql')");
    submit_as(&mut s, "asks", "select 'secret', 'later'");
    let look = "select count(*), count(command), count(*) filter (where role = 'asks' and database is null)
        from scylla.tasks";
    for (role, shown) in [("postgres", 3), ("asks", 3), ("member", 3), ("stranger", 0)] {
        s.run(&format!("set role {role}"));
        let row = s.query_one(look, &[]).expect("the view");
        let counts: [i64; 3] = [row.get(0), row.get(1), row.get(2)];
        assert_eq!(counts, [3, shown, 3], "{role}");
        s.run("reset role");
    }
    assert!(
        s.text(&format!("select command from scylla.tasks where id = {settled}").replace('"', "'"))
            .contains("secret")
    );
    s.cancel(id);
}

/// B121: a role that may write all tables has no command run as another role.
#[test]
fn writing_the_tables_gives_no_rights() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    with_roles(&mut s, &["writer"]);
    s.run("grant pg_write_all_data, pg_read_all_data to writer");
    s.run("select scylla.run_sql('select 1', run_at => now() + interval '1 hour')");
    s.run("select scylla.schedule_sql('s', '@daily', 'select 1')");
    s.run("set role writer");
    for change in [
        "update scylla.task set command = 'drop table who'",
        "update scylla.schedule set command = 'drop table who'",
        "insert into scylla.task (id, queue, action, priority, ready, post_result, created, updated,
             spec, role, command)
         values (gen_random_uuid(), 'sql', '', 0, true, false, now(), now(), '{}', 'postgres', 'x')",
        // What was aborted can be submitted again.
        "insert into scylla.finished (id, queue, action, priority, post_result, created, updated, tries,
             num_failures, progress, status, role, command, spec, errors, history)
         values (gen_random_uuid(), 'sql', '', 0, false, now(), now(), 1, 0, 0, 'aborted', 'postgres', 'x',
             '{}', '[]', '[]')",
    ] {
        assert_eq!(s.refused(change), "23514", "{change}");
    }
    s.run("reset role");
    assert_eq!(run(&mut s, "select 1/0", "")["status"], "aborted");
    let sql = "select inhrelid::regclass::text from pg_inherits where inhparent = 'scylla.finished'::regclass";
    let partitions: Vec<String> = s.query(sql, &[]).unwrap().iter().map(|row| row.get(0)).collect();
    assert!(partitions.len() > 3, "{partitions:?}");
    s.run("set role writer");
    for table in partitions {
        let change =
            format!("insert into {table} select * from scylla.finished where command is not null");
        assert_eq!(s.refused(&change), "23514", "{change}");
    }
}

/// B121: a membership without SET does not suffice to act for a role (from PostgreSQL 16 on).
#[test]
fn a_member_that_cannot_become_the_role_does_not_act_for_it() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    if s.value::<i32>("select current_setting('server_version_num')::int", &[]) < 160_000 {
        return;
    }
    with_roles(&mut s, &["member"]);
    s.run("grant asks to member with inherit true, set false; select scylla.enable_cron_api()");
    s.run("grant usage on schema cron to public; grant execute on all functions in schema cron to public");
    // What is inherited counts as the member's own.
    s.run(
        "select scylla.revoke('sql', r, '{manage}'), scylla.grant('sql', r, '{submit}')
        from unnest('{asks,member}'::regrole[]) r",
    );
    let failed = run_as(&mut s, "asks", "select 1/0")["rn"].as_str().unwrap().to_owned();
    s.run("set role asks");
    let job: i64 = s.value("select cron.schedule('j', '@daily', 'select 1')", &[]);
    s.run("reset role; grant pg_write_all_data, pg_read_all_data to member; set role member");
    let tries = [
        format!("select cron.alter_job({job}, command => 'select 2')"),
        format!("select cron.unschedule({job})"),
        format!("select scylla.alter_schedule('cron:{job}', active => false)"),
        "update scylla.schedule set command = 'select 2'".to_owned(),
        format!("select scylla.resubmit(array['{failed}']::uuid[])"),
    ];
    let codes = tries.each_ref().map(|it| s.refused(it));
    assert_eq!(codes, ["P0002", "42501", "42501", "23514", "42501"]);
    s.run("reset role; select scylla.grant('sql', 'member', '{manage}'); set role member");
    assert_eq!(s.refused(&tries[4]), "42501", "with the privilege");
    s.run("reset role; grant asks to member with set true; set role member");
    for call in [0, 4] {
        s.run(&tries[call]);
    }
}

/// B121: a role that was a superuser has no command run in a session that remembers it as one.
#[test]
fn a_superuser_that_was_demoted_has_a_new_session() {
    let server = Server::start(&["scylla.sql_workers = 1"]);
    let database = server.database();
    let mut s = database.connect();
    s.run("create role boss superuser login; create table pids (pid int); grant all on pids to public");
    s.run("select scylla.grant('sql', 'boss', '{submit}'); create role bert");
    let note = "insert into pids values (pg_backend_pid());";
    let steps = [
        ("select", "none"),
        ("alter role boss nosuperuser", "42501"),
        ("alter role boss superuser", "none"),
        (
            "alter role boss set work_mem = '65MB'; alter role boss rename to chief; alter role chief rename to boss",
            "none",
        ),
    ];
    for (change, code) in steps {
        s.run(change);
        // The session of before would wait for two seconds.
        let entry =
            run_as(&mut s, "boss", &format!("{note} commit; set session authorization bert"));
        assert_eq!(first_code(&entry), code, "{change}: {entry}");
        assert_eq!(entry["tries"], 1, "no try is lost");
        assert_eq!(
            entry["history"].as_array().map(Vec::len),
            Some(if code == "none" { 1 } else { 2 })
        );
    }
    assert_eq!(s.count("select count(distinct pid) from pids"), 4);
    server.assert_log_is_clean();
}
