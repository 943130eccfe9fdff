//! A session that waits for work.

use crate::database::Database;
use crate::wait::{eventually, seconds};
use std::thread;

/// Waits for work of a queue in a session of its own; returns once it waits. The session ends with
/// whether there was work.
pub fn wait_for_work(database: &Database, queue: &'static str) -> (i32, thread::JoinHandle<bool>) {
    let mut session = database.connect();
    let pid = session.pid;
    let waits =
        thread::spawn(move || session.value("call scylla.wait_for_work($1, '30 s')", &[&queue]));
    let mut s = database.connect();
    let look = "select count(*) from pg_stat_activity
        where pid = $1 and wait_event_type = 'Extension'";
    eventually(seconds(10), "it waits", || (s.value::<i64>(look, &[&pid]) == 1).then_some(()));
    (pid, waits)
}
