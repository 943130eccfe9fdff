//! Commands that want a database for themselves send its scheduler away: for those who may give them,
//! and for as long as they take.

use client::*;
use std::time::Instant;

/// A role that may create databases and owns nothing, and a session of its own.
fn creator(server: &Server) -> Session {
    let mut s = server.connect();
    s.run("create role creator createdb");
    s.run("set role creator");
    s
}

/// The scheduler that was there is there still, after a while in which it could have ended.
#[track_caller]
fn assert_undisturbed(database: &Database, before: i32, what: &str) {
    sleep(milliseconds(150));
    assert_eq!(database.schedulers(), [before], "after {what}");
}

/// CREATEDB is no right to the databases of others.
#[test]
fn role_that_may_create_databases_sends_no_scheduler_away() {
    let server = Server::start(&["fsync = off"]);
    let database = server.database();
    let before = database.worker();
    let name = &database.name;
    let mut s = creator(&server);
    for command in [
        format!("drop database {name}"),
        format!("drop database {name} with (force)"),
        format!("alter database {name} rename to other"),
        format!("alter database {name} set tablespace pg_default"),
        format!("create database copy template {name}"),
    ] {
        assert_eq!(s.refused(&command), "42501", "{command}");
        assert_undisturbed(&database, before, &command);
    }
}

/// What the command itself refuses is refused before anything happens to the database.
#[test]
fn command_that_is_refused_sends_no_scheduler_away() {
    let server = Server::start(&["fsync = off"]);
    let database = server.database();
    let before = database.worker();
    let name = &database.name;
    let mut s = server.connect();
    s.run("create database taken template template0");
    let mut there = database.connect();
    for (command, expected) in [
        (format!("drop database {name}"), "25001"),
        (format!("create database copy template {name}"), "25001"),
        (format!("alter database {name} set tablespace pg_default"), "25001"),
    ] {
        s.run("begin");
        assert_eq!(s.refused(&command), expected, "{command}");
        assert_undisturbed(&database, before, &command);
        s.run("rollback");
        assert_eq!(s.refused(&format!("do $$ begin execute '{command}'; end $$")), expected);
        assert_undisturbed(&database, before, &command);
    }
    for (command, expected) in [
        (format!("alter database {name} rename to taken"), "42P04"),
        (format!("create database taken template {name}"), "42P04"),
    ] {
        assert_eq!(s.refused(&command), expected, "{command}");
        assert_undisturbed(&database, before, &command);
    }
    for (command, expected) in [
        (format!("drop database {name}"), "55006"),
        (format!("alter database {name} rename to other"), "0A000"),
    ] {
        assert_eq!(there.refused(&command), expected, "{command}");
        assert_undisturbed(&database, before, &command);
    }
    drop(there);
    s.run(&format!("alter database {name} is_template true"));
    assert_eq!(s.refused(&format!("drop database {name}")), "42809");
    assert_undisturbed(&database, before, "drop of a template");
    // A role with CREATEDB may copy a template, as in PostgreSQL.
    creator(&server).run(&format!("create database copy template {name}"));
    s.run(&format!("alter database {name} is_template false"));
}

/// However many commands one session has given, those of others find room.
#[test]
fn nobody_uses_up_the_room_for_such_commands() {
    let server = Server::start(&["fsync = off"]);
    let database = server.database();
    database.worker();
    let mut s = creator(&server);
    (0..20).for_each(|n| s.run(&format!("create database mine_{n} template template0")));
    s.run("begin");
    for n in 0..20 {
        s.run("savepoint s");
        s.run(&format!("alter database mine_{n} rename to renamed_{n}"));
    }
    let begun = Instant::now();
    server.connect().run(&format!("drop database {}", database.name));
    assert!(begun.elapsed() < seconds(3), "took {:?}", begun.elapsed());
    s.run("rollback");
}

/// What a savepoint takes back is given back at once.
#[test]
fn scheduler_is_back_when_a_savepoint_takes_the_command_back() {
    let server = Server::start(&["fsync = off"]);
    let database = server.database();
    let before = database.worker();
    let mut s = server.connect();
    s.run("begin; savepoint s");
    s.run(&format!("alter database {} rename to other", database.name));
    assert!(database.schedulers().is_empty());
    s.run("rollback to s");
    let begun = Instant::now();
    assert_ne!(database.worker(), before);
    assert!(begun.elapsed() < seconds(2), "took {:?}", begun.elapsed());
    s.run("commit");
    // And while a command that is not taken back is not committed, none tries to get in.
    s.run("begin");
    s.run(&format!("alter database {} rename to other", database.name));
    sleep(milliseconds(500));
    assert_eq!(
        s.count("select count(*) from pg_stat_activity where backend_type = 'scylla scheduler'"),
        0
    );
    s.run("rollback");
    database.worker();
}

/// An owner who is no superuser drops a database with its scheduler in it, by force too.
#[test]
fn owner_drops_a_database_with_its_scheduler() {
    let server = Server::start(&["fsync = off"]);
    let mut s = server.connect();
    s.run("create role owner createdb");
    for command in ["drop database", "drop database if exists"] {
        for force in ["", " with (force)"] {
            let database = server.database();
            s.run(&format!("alter database {} owner to owner", database.name));
            database.worker();
            s.run("set role owner");
            let begun = Instant::now();
            s.run(&format!("{command} {}{force}", database.name));
            assert!(begun.elapsed() < seconds(3), "took {:?}", begun.elapsed());
            s.run("reset role");
        }
    }
}
