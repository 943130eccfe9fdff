//! SQL commands that the server runs itself: as the role that asked, like the message of a simple
//! query.

use client::*;

mod connections;
mod elsewhere;
mod ending;
mod processes;
mod rights;
mod running;
mod sharing;

/// Waits until a task has settled; its entry.
#[track_caller]
fn settled(s: &mut Session, id: Uuid) -> Value {
    eventually(seconds(20), "the task settles", || {
        let entry = s.entry(id);
        let is_over = ["completed", "aborted", "cancelled"].contains(&entry["status"].as_str()?);
        is_over.then_some(entry)
    })
}

/// Submits a command; the task's id.
#[track_caller]
fn submit(s: &mut Session, command: &str, options: &str) -> Uuid {
    s.value(&format!("select scylla.run_sql($1{options})"), &[&command])
}

/// Runs a command as a task; the entry of the settled task.
#[track_caller]
fn run(s: &mut Session, command: &str, options: &str) -> Value {
    let id = submit(s, command, options);
    settled(s, id)
}

/// The code of the first error of a task.
fn first_code(entry: &Value) -> &str {
    entry["errors"][0]["code"].as_str().unwrap_or("none")
}

/// The processes that run a command whose text matches this pattern, in any database.
fn running(s: &mut Session, pattern: &str) -> Vec<i32> {
    let sql = "select coalesce(array_agg(pid order by pid), '{}') from pg_stat_activity
               where backend_type = 'scylla sql worker' and state = 'active' and query like $1";
    s.value(sql, &[&pattern])
}

/// Waits until as many commands run; their processes.
#[track_caller]
fn until_running(s: &mut Session, pattern: &str, count: usize) -> Vec<i32> {
    eventually(seconds(20), "the commands run", || {
        Some(running(s, pattern)).filter(|pids| pids.len() == count)
    })
}
