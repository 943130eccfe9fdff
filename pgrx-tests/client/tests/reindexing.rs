//! Indexes that are replaced while a call runs.

use client::*;
use std::thread;

/// A call that began before REINDEX CONCURRENTLY and reads the table after it succeeds. In between,
/// the call waits for its board: the server has no scheduler that builds it.
#[test]
fn a_call_goes_on_though_the_primary_key_is_reindexed() {
    let server = Server::start(&["max_worker_processes = 0"]);
    let database = server.database();
    let mut s = database.connect();
    s.submit_many("q", 2);
    s.own_one("q");
    server.stop("fast");
    server.start_again();
    let (mut s, mut old) = (database.connect(), database.connect());
    // REINDEX waits for transactions older than the new index before it replaces the old one.
    old.run("begin isolation level repeatable read; select 1");
    let mut reindexing = database.connect();
    let pid = reindexing.pid;
    let reindexing =
        thread::spawn(move || reindexing.run("reindex index concurrently scylla.task_pkey"));
    let waits = "select wait_event = 'virtualxid' from pg_stat_activity where pid = $1";
    eventually(seconds(10), "it waits for the old snapshot", || {
        s.value::<Option<bool>>(waits, &[&pid]).filter(|waits| *waits)
    });
    let mut owning = database.connect();
    let pid = owning.pid;
    let owning = thread::spawn(move || owning.own("w", "q", 10).len());
    let waits = "select wait_event_type = 'Extension' from pg_stat_activity where pid = $1";
    eventually(seconds(10), "the call waits for its board", || {
        s.value::<Option<bool>>(waits, &[&pid]).filter(|waits| *waits)
    });
    old.run("commit");
    reindexing.join().expect("the index is replaced");
    assert!(!owning.is_finished(), "the call waits still");
    assert!(owning.join().expect("no error") >= 1);
    server.assert_log_is_clean();
}
