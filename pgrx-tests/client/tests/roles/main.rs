//! Who may do what: grants on queues, checked by every function and every view.

mod defaults;
mod dump;
mod grants;
mod matrix;
mod schedules;
mod secrets;
mod waits;

use client::*;

const ALL: &str = "submit,work,cancel,look,manage";

/// A role of one test. Roles belong to the whole server, so its name has the database's.
fn role(s: &mut Session, name: &str) -> String {
    let role = format!("{}_{name}", s.text("select current_database()::text"));
    s.run(&format!("create role {role} login"));
    role
}

/// A new role with privileges on a queue.
fn granted(s: &mut Session, name: &str, queue: &str, privileges: &str) -> String {
    let role = role(s, name);
    grant(s, queue, &role, privileges);
    role
}

fn grant(s: &mut Session, queue: &str, role: &str, privileges: &str) {
    s.run(&format!("select scylla.grant('{queue}', '{role}', '{{{privileges}}}')"));
}

fn revoke(s: &mut Session, queue: &str, role: &str, privileges: &str) {
    s.run(&format!("select scylla.revoke('{queue}', '{role}', '{{{privileges}}}')"));
}

/// A session as a role.
fn connect_as(database: &Database, role: &str) -> Session {
    let mut s = database.connect();
    s.run(&format!("set role {role}"));
    s
}

/// `ok`, or the SQLSTATE.
fn answer(s: &mut Session, sql: &str) -> String {
    match s.batch_execute(sql) {
        Ok(()) => "ok".to_owned(),
        Err(error) => code(&error),
    }
}
