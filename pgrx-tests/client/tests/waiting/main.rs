//! Waiting in the server: `wait_for_work` and `wait_for_task`.
//!
//! Most tests share a server whose scheduler scans only once a minute, so that a lost wake-up is
//! noticed.

mod actions;
mod any;
mod clients;
mod event;
mod manners;
mod task;
mod work;

use client::*;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

fn slow() -> Database {
    open(slow_server())
}

/// A database whose board is built, so that a wait does not wait for the board.
fn open(server: &Server) -> Database {
    let database = server.database();
    database.connect().own("w", "q", 1);
    database
}

fn slow_server() -> &'static Server {
    static SLOW: OnceLock<Server> = OnceLock::new();
    extern "C" fn remove() {
        SLOW.get().into_iter().for_each(Server::remove);
    }
    let start = || {
        // SAFETY: registers a plain function without arguments
        unsafe { libc::atexit(remove) };
        Server::start(&["scylla.notify_interval = '1 min'"])
    };
    SLOW.get_or_init(start)
}

const FOR_WORK: &str = "call scylla.wait_for_work($1, $2::text::interval)";
const FOR_TASK: &str = "call scylla.wait_for_task($1, $2::text::interval)";

const FOR_ACTIONS: &str = "call scylla.wait_for_work($1, $2::text::interval, actions => $3)";
const FOR_ANY: &str = "call scylla.wait_for_any($1, $2::text::interval, actions => $3)";

fn for_work(s: &mut Session, queue: &str, timeout: &str) -> bool {
    s.value(FOR_WORK, &[&queue, &timeout])
}

fn for_actions(s: &mut Session, queue: &str, actions: &[&str], timeout: &str) -> bool {
    s.value(FOR_ACTIONS, &[&queue, &timeout, &actions])
}

fn for_any(s: &mut Session, queues: &[&str], timeout: &str) -> Option<String> {
    s.value(FOR_ANY, &[&queues, &timeout, &None::<Vec<String>>])
}

type Ending = (Option<String>, Option<Value>);

fn for_task(s: &mut Session, id: Uuid, timeout: &str) -> Ending {
    let row = s.query_one(FOR_TASK, &[&id, &timeout]).expect("wait_for_task");
    (row.get(0), row.get(1))
}

fn ending(status: &str, result: Value) -> Ending {
    (Some(status.to_owned()), (!result.is_null()).then_some(result))
}

/// Runs `f` in its own session, and returns once that session waits in the server.
fn waiting<T: Send + 'static>(
    database: &Database,
    work: impl FnOnce(&mut Session) -> T + Send + 'static,
) -> (i32, JoinHandle<T>) {
    let mut session = database.connect();
    let pid = session.pid;
    let thread = thread::spawn(move || work(&mut session));
    let mut look = database.connect();
    let waits = "select count(*) from pg_stat_activity
        where pid = $1 and state = 'active' and wait_event_type = 'Extension'";
    eventually(seconds(10), "the session waits", || {
        (look.value::<i64>(waits, &[&pid]) == 1).then_some(())
    });
    (pid, thread)
}

/// The answer of a waiter, and its time.
fn report(database: &Database, n: usize, queue: &'static str) -> Receiver<(bool, Instant)> {
    let (sender, receiver) = channel();
    for _ in 0..n {
        let sender = sender.clone();
        waiting(database, move |s| {
            let answer = s.try_value(FOR_WORK, &[&queue, &"20 s"]);
            let _ = sender.send((answer.unwrap_or(false), Instant::now()));
        });
    }
    receiver
}

fn psql(database: &Database, commands: &[&str]) -> Child {
    psql_at(database.reach(), database, commands)
}

fn psql_at((host, port): (String, u16), database: &Database, commands: &[&str]) -> Child {
    let mut command = Command::new(format!("{}/psql", slow_server().bin()));
    command.args(["-XqAt", "-h", &host, "-p", &port.to_string(), "-U", "postgres"]);
    command.args(["-d", &database.name]);
    command.args(commands.iter().flat_map(|it| ["-c", it]));
    command.stdout(Stdio::piped()).spawn().expect("psql runs")
}

/// The backend of a psql that waits.
fn psql_waits(s: &mut Session) -> i32 {
    let look = "select max(pid) from pg_stat_activity where application_name = 'psql'
        and datname = current_database() and wait_event_type = 'Extension'";
    eventually(seconds(5), "psql waits", || s.value::<Option<i32>>(look, &[]))
}
