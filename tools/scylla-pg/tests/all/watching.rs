//! `top`.

use super::server::*;
use std::io::{Read, Write};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

#[test]
fn top_shows_what_the_queues_do() {
    let d = Database::of(shared());
    assert_eq!(d.done(&["top", "--interval", "0.1"]), "no queue");
    d.sql("select scylla.submit('busy') from generate_series(1, 5)");
    d.sql("select scylla.submit('idle', run_at => now() + interval '1 day')");
    d.sql("select scylla.pause('idle')");
    d.sql("select count(*) from scylla.own_tasks('w', 'busy', 2)");
    let found = eventually("the new database's tasks are counted", || {
        let found = d.json(&["top", "--interval", "0.1"]).remove(0)["queues"].take();
        let are_counted = found.as_array()?.iter().all(|it| !it["ready"].is_null());
        let has_oldest = found[0]["oldest_ready_seconds"].is_number();
        println!("{found}");
        (are_counted && has_oldest).then_some(found)
    });
    let queues = found.as_array().unwrap();
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
    // For a while, since it is idle between a statement's plan and its run, too.
    let looked = "select count(*) from pg_stat_activity
        where datname = current_database() and query like '%scylla.stats%' and pid <> pg_backend_pid()
            and state = 'idle' and state_change < clock_timestamp() - interval '300 ms'";
    // On a slow machine the work may need longer than an interval.
    for interval in [2.0, 6.0, 18.0] {
        let begun = Instant::now();
        let mut command = d.command(&["top", "--json", "--interval", &interval.to_string()]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        eventually("it has looked once", || (d.sql(looked) == "1").then_some(()));
        d.sql("select scylla.submit('q') from generate_series(1, 39)");
        d.sql("select scylla.return_task(id, token, 'aborted', error => '\"x\"') from scylla.own_tasks('w', 'q', 10)");
        d.sql("select scylla.return_task(id, token) from scylla.own_tasks('w', 'q', 10)");
        let was_in_time = child.try_wait().unwrap().is_none();
        let output = child.wait_with_output().unwrap();
        let longest = begun.elapsed().as_secs_f64();
        let text = std::str::from_utf8(&output.stdout).unwrap();
        let queue = objects(text).remove(0)["queues"][0].take();
        let rate = |name: &str| queue[format!("{name}_per_second")].as_f64().unwrap();
        if !was_in_time || rate("submitted") == 0.0 {
            continue;
        }
        // The interval is as long as the machine makes it, and the same for all rates.
        let seconds = 39.0 / rate("submitted");
        assert!(
            seconds > interval * 0.99 && seconds < longest,
            "{seconds} of {longest} s: {queue}"
        );
        for (name, number) in [("settled", 20.0), ("aborted", 10.0)] {
            let measured = rate(name) * seconds;
            assert!((measured - number).abs() < 0.01, "{name}: {measured}: {queue}");
        }
        return;
    }
    panic!("the work was not done within 18 s");
}

/// On a terminal it goes on, also when the server was away.
#[test]
fn a_terminal_is_refreshed() {
    let server = Server::start(&["max_worker_processes = 20"]);
    let d = Database::of(&server);
    d.sql("select scylla.submit('before')");
    // A program that was started in the background may have been told to ignore the interrupt.
    let top = format!("env --default-signal=INT {PROGRAM} top --interval 0.2");
    let mut command = d.terminal(&top);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut keys, mut out) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let shown = Arc::new(Mutex::new(Vec::new()));
    let to = shown.clone();
    let reading = thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(length @ 1..) = out.read(&mut bytes) {
            to.lock().unwrap().extend_from_slice(&bytes[..length]);
        }
    });
    let shows = |text: &str, times: usize| {
        eventually(text, || {
            let shown = String::from_utf8_lossy(&shown.lock().unwrap()).matches(text).count();
            (shown >= times).then_some(())
        });
    };
    shows("before", 3);
    server.restart(&[]);
    shows("scylla-pg: ", 1);
    d.sql("select scylla.submit('later')");
    shows("later", 3);
    // Interrupted by the keyboard, it ends.
    keys.write_all(b"\x03").unwrap();
    child.wait().unwrap();
    reading.join().unwrap();
}
