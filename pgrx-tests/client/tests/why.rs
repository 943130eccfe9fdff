//! `why` has a text for every reason why a task does not run.

use client::*;

/// The texts of tasks, by what they wait for.
#[track_caller]
fn assert_why(s: &mut Session, all: &[(&str, Uuid, &str)]) {
    for (name, id, expected) in all {
        assert_eq!(s.text(&format!("select scylla.why('{id}')")), *expected, "{name}");
    }
}

fn configure(s: &mut Session, queue: &str, setting: &str) {
    s.run(&format!("select scylla.configure_queue('{queue}', {setting})"));
}

/// One row for each reason that a task or its lease has.
#[test]
fn every_reason_of_a_task_has_its_text() {
    let database = database();
    let mut s = database.connect();

    let completed = s.submit("completed");
    s.end(completed, "completed");
    let aborted = s.submit("aborted");
    s.end(aborted, "aborted");
    let cancelled = s.submit("cancelled");
    s.cancel(cancelled);

    let ready = s.submit("ready");
    let due = s.submit_with("due", "run_at => now() + interval '9 min 59 s'");
    let retry = s.submit_with("retry", "retry_interval => '9 min 59 s', retry_jitter => '0'");
    s.end(retry, "retry");

    let (first, second) = (s.submit("first"), s.submit("second"));
    let after = s.submit_after("after", &[first, second, completed], "timeout => null");

    let running = s.submit("running");
    s.own_one_with("running", "timeout => '1 hour'");
    let mut owner = database.connect();
    let reserved = s.submit("reserved");
    owner.run("begin");
    owner.own_one_with("reserved", "timeout => '1 hour'");
    let mut holder = database.connect();
    let expired = s.submit("expired");
    s.own_one_with("expired", "timeout => '2 s'");
    // The scheduler does not wait for the row.
    holder.run("begin; set local lock_timeout = '5 s'");
    holder.run(&format!("select from scylla.task where id = '{expired}' for update"));
    sleep(milliseconds(2_100));

    let unready = s.submit("unready");
    s.run(&format!("update scylla.task set ready = false where id = '{unready}'"));

    let waits = format!("waits for 2 of 3 tasks, the oldest {first}");
    let is_reserved = format!(
        "it is reserved for worker \"w\" until the transaction of process {} commits",
        owner.pid
    );
    assert_why(
        &mut s,
        &[
            ("completed", completed, "it is completed"),
            ("aborted", aborted, "it is aborted"),
            ("cancelled", cancelled, "it is cancelled"),
            ("running", running, "it is running, owned by worker \"w\""),
            ("reserved", reserved, &is_reserved),
            ("expired", expired, "its lease of worker \"w\" has expired, and is being ended"),
            ("predecessors", after, &waits),
            ("delayed", due, "due in 10 min"),
            ("retry", retry, "due in 10 min, for try 2"),
            ("not ready", unready, "waits for the scheduler"),
            ("ready", ready, "ready, and waits for a worker"),
        ],
    );
}

/// One row for each reason that a queue, a group or the database has.
#[test]
fn every_reason_of_a_queue_has_its_text() {
    let server = Server::start(&["scylla.sql_workers = 0"]);
    let database = server.database();
    let mut s = database.connect();

    let paused = s.submit("paused");
    s.run("select scylla.pause('paused')");
    configure(&mut s, "full", "max_running => 1");
    let full = s.submit_many("full", 2)[1];
    s.own_one("full");
    configure(&mut s, "slow", "max_per_second => 0.001");
    let slow = s.submit_many("slow", 2)[1];
    s.own_one("slow");
    configure(&mut s, "grouped", "max_running_per_group => 1");
    let [running, of_group, of_none, first, second] = ["'a'", "'a'", "null", "'b'", "'b'"]
        .map(|g| s.submit_with("grouped", &format!("group_key => {g}")));
    let behind =
        format!("waits for task {first} of its group, which is ready and waits for a worker");
    s.try_own_task(running).expect("a lease");
    let ready = s.submit("ready");
    let command = s.value::<Uuid>("select scylla.run_sql('select 1')", &[]);

    let of_group_text = "its group runs as many tasks as max_running_per_group allows";
    let of_commands = "ready, and waits for a process that runs SQL commands; no process does, \
                       since scylla.sql_workers is 0";
    let of_queues = [
        ("paused", paused, "its queue is paused; scylla.resume() lets it hand out tasks"),
        ("max_running", full, "its queue runs as many tasks as max_running allows"),
        ("max_per_second", slow, "its queue hands out no more tasks than max_per_second allows"),
        ("max_running_per_group", of_group, of_group_text),
        ("SQL command", command, of_commands),
        ("no group", of_none, "ready, and waits for a worker and for the turn of its group"),
        ("another group", first, "ready, and waits for a worker and for the turn of its group"),
        ("not the first", second, &behind),
    ];
    assert_why(&mut s, &of_queues);
    s.run("select scylla.critical_only(true)");
    let text = "only critical queues hand out tasks; scylla.critical_only(false) lets all do so";
    assert_why(&mut s, &[("not critical", ready, text)]);
    s.run("select scylla.critical_only(false)");
    assert_why(&mut s, &[("not critical any more", ready, "ready, and waits for a worker")]);
    s.run("select scylla.open(false)");
    let text = "the database is closed, as one that was copied or restored; scylla.open() opens it";
    let due = s.submit_with("due", "run_at => now() + interval '1 day'");
    assert_why(&mut s, &[("closed", ready, text), ("closed, and not due", due, text)]);
}
