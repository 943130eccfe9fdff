//! `top`.

use super::server::*;
use std::process::Stdio;
use std::thread::{self, sleep};
use std::time::Duration;

#[test]
fn top_shows_what_the_queues_do() {
    let d = Database::of(shared());
    assert_eq!(d.done(&["top", "--interval", "0.1"]), "no queue");
    d.sql("select scylla.submit('busy') from generate_series(1, 5)");
    d.sql("select scylla.submit('idle', run_at => now() + interval '1 day')");
    d.sql("select scylla.pause('idle')");
    d.sql("select count(*) from scylla.own_tasks('w', 'busy', 2)");
    let found = eventually("the new database's tasks are counted", || {
        let found = d.json(&["top", "--interval", "0.1"]);
        (!found[0]["queues"][0]["ready"].is_null()).then_some(found)
    });
    let queues = found[0]["queues"].as_array().unwrap();
    assert_eq!(queues.len(), 2);
    let busy = &queues[0];
    assert_eq!(busy["queue"], "busy");
    assert_eq!(
        (&busy["ready"], &busy["running"], &busy["waiting"]),
        (&3.into(), &2.into(), &0.into())
    );
    assert_eq!((&busy["workers"], &busy["paused"]), (&1.into(), &false.into()));
    assert!(busy["oldest_ready_seconds"].as_f64().unwrap() > 0.0);
    let idle = &queues[1];
    assert_eq!((&idle["waiting"], &idle["paused"]), (&1.into(), &true.into()));
    assert!(idle["oldest_ready_seconds"].is_null());
    let text = d.done(&["top", "--once", "--interval", "0.1"]);
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("QUEUE  WAITING  READY  RUNNING"), "{text}");
    assert!(lines[1].starts_with("busy"), "{text}");
    assert!(lines[2].ends_with("paused"), "{text}");
}

/// Work that is done while `top` measures.
#[test]
fn rates_are_measured_over_the_interval() {
    let d = Database::of(shared());
    d.sql("select scylla.submit('q')");
    let mut command = d.command(&["top", "--json", "--interval", "2"]);
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            sleep(Duration::from_millis(700));
            d.sql("select scylla.submit('q') from generate_series(1, 39)");
            d.sql("select scylla.return_task(id, token, 'aborted', error => '\"x\"') from scylla.own_tasks('w', 'q', 10)");
            d.sql("select scylla.return_task(id, token) from scylla.own_tasks('w', 'q', 10)");
        });
    });
    let output = child.wait_with_output().unwrap();
    let queue = objects(std::str::from_utf8(&output.stdout).unwrap()).remove(0)["queues"][0].take();
    for (rate, number) in [("submitted", 39.0), ("settled", 20.0), ("aborted", 10.0)] {
        let measured = queue[format!("{rate}_per_second")].as_f64().unwrap() * 2.0;
        // The interval is as long as the machine makes it.
        assert!(measured > number * 0.6 && measured < number * 1.1, "{rate}: {measured}");
    }
}

/// On a terminal it goes on, also when the server was away.
#[test]
fn a_terminal_is_refreshed() {
    let server = Server::start(&["max_worker_processes = 20"]);
    let d = Database::of(&server);
    d.sql("select scylla.submit('before')");
    let line = format!("timeout --foreground -s INT 9 {PROGRAM} top --interval 0.2");
    let mut command = d.terminal(&line);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    sleep(Duration::from_secs(1));
    server.restart(&[]);
    d.sql("select scylla.submit('later')");
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.matches("QUEUE").count() > 5, "{text}");
    assert!(text.contains("before") && text.contains("later"), "{text}");
    assert!(text.contains("scylla-pg: "), "{text}");
}
