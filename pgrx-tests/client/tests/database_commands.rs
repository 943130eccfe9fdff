//! Commands that need a database without connections end its scheduler: only if the caller may run
//! the command, and only until it is done.

use client::*;
use std::time::Instant;

/// A session as a role that may create databases and owns none.
fn creator(server: &Server) -> Session {
    let mut s = server.connect();
    s.run("create role creator createdb");
    s.run("set role creator");
    s
}

/// Asserts that the scheduler is the same as before, after a while in which it could have ended.
#[track_caller]
fn assert_undisturbed(database: &Database, before: i32, what: &str) {
    sleep(milliseconds(150));
    assert_eq!(database.schedulers(), [before], "after {what}");
}

/// A role with CREATEDB cannot end the scheduler of a database that it does not own.
#[test]
fn role_that_may_create_databases_ends_no_scheduler() {
    let server = Server::start(&[]);
    let database = server.database();
    let before = database.scheduler();
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

/// A command that PostgreSQL refuses does not end the scheduler.
#[test]
fn command_that_is_refused_ends_no_scheduler() {
    let server = Server::start(&[]);
    let database = server.database();
    let before = database.scheduler();
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

/// The commands of one session never use up the slots that other sessions' commands need.
#[test]
fn no_session_uses_up_the_slots_for_such_commands() {
    let server = Server::start(&[]);
    let database = server.database();
    database.scheduler();
    let mut s = creator(&server);
    (0..20).for_each(|n| s.run(&format!("create database mine_{n} template template0")));
    s.run("begin");
    for n in 0..20 {
        s.run("savepoint s");
        s.run(&format!("alter database mine_{n} rename to renamed_{n}"));
    }
    // With a scheduler in it, it would fail.
    server.connect().run(&format!("drop database {}", database.name));
    s.run("rollback");
}

/// A rollback to a savepoint before the command lets the scheduler start again at once.
#[test]
fn scheduler_is_back_when_a_savepoint_rolls_the_command_back() {
    let server = Server::start(&[]);
    let database = server.database();
    let mut s = server.connect();
    let mut times = [(); 5].map(|_| {
        let before = database.scheduler();
        s.run("begin; savepoint s");
        s.run(&format!("alter database {} rename to other", database.name));
        assert!(database.schedulers().is_empty());
        s.run("rollback to s");
        let begun = Instant::now();
        assert_ne!(database.scheduler(), before);
        s.run("commit");
        begun.elapsed()
    });
    // A launcher that is not told looks once in 5 s.
    times.sort_unstable();
    assert!(times[2] < seconds(2), "{times:?}");
    // While a command has not committed and is not rolled back, no scheduler tries to connect.
    s.run("begin");
    s.run(&format!("alter database {} rename to other", database.name));
    sleep(milliseconds(500));
    assert_eq!(
        s.count("select count(*) from pg_stat_activity where backend_type = 'scylla scheduler'"),
        0
    );
    s.run("rollback");
    database.scheduler();
}

/// An owner who is not a superuser can drop a database while its scheduler runs, also with FORCE.
#[test]
fn owner_drops_a_database_with_its_scheduler() {
    let server = Server::start(&[]);
    let mut s = server.connect();
    s.run("create role owner createdb");
    for command in ["drop database", "drop database if exists"] {
        for force in ["", " with (force)"] {
            let database = server.database();
            s.run(&format!("alter database {} owner to owner", database.name));
            database.scheduler();
            s.run("set role owner");
            // With a scheduler in it, it would fail.
            s.run(&format!("{command} {}{force}", database.name));
            s.run("reset role");
        }
    }
}
