//! Commands in other databases, in other encodings, and in a dump.

use crate::{first_code, run, settled, submit, until_running};
use client::*;

/// B120: a command runs in the database that it names, whatever the encodings of the two.
#[test]
fn a_command_runs_in_another_database() {
    let server = Server::start(&[]);
    let here = server.database();
    let mut s = here.connect();
    s.run("create database latin template template0 encoding 'LATIN1' locale 'C'");
    let there = here.named("latin");
    let mut t = there.connect();
    t.run("set client_encoding = 'UTF8'; create table café (name text)");
    let entry = run(&mut s, "insert into café values ('naïve')", ", database => 'latin'");
    assert_eq!(entry["result"]["command_tag"], "INSERT 0 1", "{entry}");
    assert_eq!(t.text("select name from café where octet_length(name) = 5"), "naïve");
    // A letter that the other encoding has not.
    let entry = run(&mut s, "select '한'", ", database => 'latin'");
    assert_eq!(first_code(&entry), "22P05", "{entry}");
    // A message from there: what is not ASCII is not told.
    let entry = run(&mut s, "do $$ begin raise 'né'; end $$", ", database => 'latin'");
    assert_eq!(entry["errors"][0]["description"], "n?", "{entry}");
    let entry = run(&mut s, "do $$ begin raise 'né'; end $$", "");
    assert_eq!(entry["errors"][0]["description"], "né", "{entry}");
    // And from a database of that encoding to this one.
    t.run("create extension scylla");
    // A message keeps its letters.
    let id = submit(&mut t, "do $$ begin raise 'né'; end $$", "");
    assert_eq!(settled(&mut t, id)["errors"][0]["description"], "né");
    let command = format!("select scylla.run_sql('create table \"é\" ()', '{}')", here.name);
    let id: Uuid = t.value(&command, &[]);
    assert_eq!(settled(&mut t, id)["status"], "completed");
    assert_eq!(s.count("select count(*) from pg_class where relname = 'é'"), 1);
    // A database that is gone.
    let hold = submit(&mut s, "select pg_sleep(600)", "");
    let waits = format!(", 'latin', after => array['{hold}'::uuid], on_failure => 'run'");
    let later = submit(&mut s, "select 1", &waits);
    drop(t);
    s.run("drop database latin with (force)");
    s.cancel(hold);
    assert_eq!(first_code(&settled(&mut s, later)), "22023");
    server.assert_log_is_clean();
}

/// I9, B122: DROP DATABASE WITH (FORCE) ends a command there; a process that waits for another
/// command is not in the way without it.
#[test]
fn a_database_can_be_dropped() {
    let server = Server::start(&["scylla.sql_workers = 2"]);
    let here = server.database();
    let mut s = here.connect();
    s.run("create database busy");
    s.run("create database idle");
    let id = submit(&mut s, "select pg_sleep(600)", ", database => 'busy'");
    assert_eq!(run(&mut s, "select 1", ", database => 'idle'")["status"], "completed");
    s.run("drop database idle");
    until_running(&mut s, "%sleep(600)%", 1);
    assert_eq!(s.refused("drop database busy"), "55006");
    s.run("drop database busy with (force)");
    assert_eq!(first_code(&settled(&mut s, id)), "outcome_unknown");
    // The same where the task's own database goes: its slot serves others.
    let gone = server.database();
    let mut g = gone.connect();
    for _ in 0..2 {
        submit(&mut g, "select pg_sleep(602)", "");
    }
    until_running(&mut s, "%sleep(602)%", 2);
    drop(g);
    s.run(&format!("drop database {} with (force)", gone.name));
    assert_eq!(run(&mut s, "select 1", "")["status"], "completed");
    server.assert_log_is_clean();
}

/// B121, I12: a dump names roles and keeps commands. The restored database runs them when it is
/// opened, also what ran when the dump was made: nothing of it had been committed.
#[test]
fn a_dump_keeps_commands() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    s.run("create role mover login; create table t (name name)");
    s.run("select scylla.grant('sql', 'mover', '{submit}'); grant insert on t to mover");
    s.run("set role mover");
    let waits = submit(&mut s, "insert into t values (current_user)", ", priority => 1");
    s.run("select scylla.schedule_sql('s', '@daily', 'select 1', 'postgres')");
    s.run("reset role");
    settled(&mut s, waits);
    s.run("set role mover");
    let ready = submit(&mut s, "insert into t values (current_user)", ", run_at => now() + '6 s'");
    s.run("reset role");
    let begun = submit(&mut s, "select pg_sleep(603)", "");
    until_running(&mut s, "%sleep(603)%", 1);
    let path = server.path("dump").to_str().unwrap().to_owned();
    server.tool("pg_dump", &["-Fc", "-f", &path, &database.name]);
    assert_eq!(settled(&mut s, ready)["status"], "completed");
    s.run("drop owned by mover; drop role mover; create role mover login");
    let restored = server.bare_database();
    server.tool("pg_restore", &["-e", "-d", &restored.name, &path]);
    let mut r = restored.connect();
    r.run("grant insert on t to mover");
    let look = "select concat_ws(' ', owner, database, command) from scylla.schedules";
    assert_eq!(r.text(look), "mover postgres select 1");
    assert_eq!(r.status(begun), "ready", "closed: nothing runs");
    assert_eq!(r.count("select count(*) from t"), 1);
    r.run("select scylla.open()");
    assert_eq!(settled(&mut r, ready)["status"], "completed");
    assert_eq!(r.text("select string_agg(name, ' ') from t"), "mover mover");
    until_running(&mut s, "%sleep(603)%", 2);
    assert_eq!((s.status(begun), r.status(begun)), ("running".into(), "running".into()));
    assert_eq!(s.entry(begun)["tries"], 1, "the original goes on");
}

/// B121: a command runs in the database that its name meant when it was given, not in another one
/// that has the name later, whose owner is a stranger.
#[test]
fn a_database_of_the_same_name_is_another_one() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    s.run("select scylla.enable_cron_api()");
    s.run("create role mallory createdb login");
    s.run("create database there");
    let hold = submit(&mut s, "select pg_sleep(600)", "");
    let waits = format!(
        ", 'there', after => array['{hold}'::uuid], on_failure => 'run', max_tries => 5,
         retry_interval => '1 s'"
    );
    let later = submit(&mut s, "select 1", &waits);
    let failed = run(&mut s, "select 1/0", ", database => 'there'")["rn"].clone();
    s.run("select scylla.schedule_sql('s', 'every 1 second', 'select 1', 'there')");
    s.run("select cron.schedule_in_database('j', '1 second', 'select 1', 'there')");
    s.run("select scylla.schedule_sql('here', 'every 1 second', 'select 1')");
    s.run("drop database there with (force)");
    s.run("set role mallory");
    s.run("create database there");
    s.run("reset role");
    s.cancel(hold);
    let entry = settled(&mut s, later);
    assert_eq!((first_code(&entry), &entry["tries"]), ("22023", &json!(1)), "{entry}");
    assert_eq!(entry["errors"].as_array().map(Vec::len), Some(1), "no other try");
    let resubmit = "select (scylla.resubmit(array[$1::text::uuid]))[1]";
    let again: Uuid = s.value(resubmit, &[&failed.as_str().unwrap()]);
    assert_eq!(first_code(&settled(&mut s, again)), "22023", "submitted again");
    let active = "select string_agg(name, ' ' order by name) from scylla.schedules where active";
    eventually(seconds(10), "they are inactive", || (s.text(active) == "here").then_some(()));
    assert!(server.log().contains("WARNING:  schedule \"s\" is inactive from now on"));
    // A schedule that was due between the two found none.
    let details = ["is not the one that the command was given", "does not exist"];
    let details = details.map(|it| format!("Database \"there\" {it}."));
    assert!(details.iter().any(|it| server.log().contains(it)));
    // Named again, it is the new one. A name that was given to it later is as another database.
    assert_eq!(run(&mut s, "select 1", ", database => 'there'")["status"], "completed");
    s.run("select scylla.schedule_sql('s', 'every 1 second', 'select 1', 'there')");
    eventually(seconds(10), "it is active", || (s.text(active) == "here s").then_some(()));
    s.run("select scylla.pause('sql')");
    let renamed = submit(&mut s, "select 1", ", database => 'there'");
    eventually(seconds(10), "the process leaves", || {
        (s.batch_execute("alter database there rename to elsewhere").is_ok()).then_some(())
    });
    s.run("select scylla.resume('sql')");
    assert_eq!(first_code(&settled(&mut s, renamed)), "22023");
    server.assert_log_is_clean();
}

/// B121: a database that accepts no connections is refused at the call.
#[test]
fn a_database_that_is_closed_is_refused() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    s.run("select scylla.enable_cron_api()");
    for call in [
        "scylla.run_sql('select 1', 'template0')",
        "scylla.schedule_sql('s', '@daily', 'select 1', 'template0')",
        "cron.schedule_in_database('j', '@daily', 'select 1', 'template0')",
    ] {
        assert_eq!(s.refused(&format!("select {call}")), "55000", "{call}");
    }
    let id: i64 = s.value("select cron.schedule('j', '@daily', 'select 1')", &[]);
    let alter = format!("select cron.alter_job({id}, database => 'template0')");
    assert_eq!(s.refused(&alter), "55000");
}

/// B121, I12: a dump names databases: a restored command runs in the one of that name there.
#[test]
fn a_dump_names_databases() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = database.connect();
    s.run("create database \"the \"\"odd\"\" one\"");
    s.run("create database gone");
    let options = ", run_at => now() + '1 h', database => 'the \"odd\" one'";
    let kept = submit(&mut s, "select 1", options);
    let lost = submit(&mut s, "select 1", ", run_at => now() + '1 h', database => 'gone'");
    let path = server.path("dump").to_str().unwrap().to_owned();
    server.tool("pg_dump", &["-Fc", "-f", &path, &database.name]);
    for name in ["the \"odd\" one", "gone"] {
        let name = name.replace('"', "\"\"");
        s.run(&format!("drop database \"{name}\""));
    }
    s.run("create database \"the \"\"odd\"\" one\"");
    let restored = server.bare_database();
    server.tool("pg_restore", &["-e", "-d", &restored.name, &path]);
    s.run("create database gone");
    let mut r = restored.connect();
    r.run("select scylla.open(); update scylla.task set due = now(), run_at = now(); select scylla.refresh()");
    assert_eq!(settled(&mut r, kept)["status"], "completed");
    assert_eq!(first_code(&settled(&mut r, lost)), "22023");
    assert!(server.log().contains("WARNING:  database gone does not exist"));
}
