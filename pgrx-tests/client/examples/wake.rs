//! wake work|notify N: how long after a submission a worker hears of it, N times.
//! wake listen N: N sessions that listen, until the standard input ends.
//!
//! Connects as PGHOST, PGPORT, PGUSER and PGDATABASE say; the queue is `wake`. Prints the median,
//! the 99th percentile and the maximum, in milliseconds. The time begins when the submission is
//! sent, so it includes the commit.

use postgres::fallible_iterator::FallibleIterator;
use postgres::{Client, Config, NoTls};
use std::io::Read;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

fn connect() -> Client {
    let setting = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    let mut config = Config::new();
    config.host(&setting("PGHOST")).port(setting("PGPORT").parse().expect("PGPORT is a number"));
    config.user(&setting("PGUSER")).dbname(&setting("PGDATABASE"));
    config.connect(NoTls).expect("connect")
}

/// Reports when the worker has heard of a task, and owns the task.
fn hear_by_waiting(heard: &Sender<Instant>) {
    let mut client = connect();
    let wait = client.prepare("call scylla.wait_for_work('wake', '1 hour')").expect("prepare");
    let take = client.prepare(TAKE).expect("prepare");
    loop {
        client.query(&wait, &[]).expect("wait_for_work");
        let now = Instant::now();
        if client.query(&take, &[]).expect("own_tasks").is_empty() {
            continue;
        }
        if heard.send(now).is_err() {
            return;
        }
    }
}

fn hear_by_notification(heard: &Sender<Instant>) {
    let (mut listener, mut worker) = (connect(), connect());
    listener.batch_execute("listen \"scylla.wake\"").expect("listen");
    let take = worker.prepare(TAKE).expect("prepare");
    let mut notifications = listener.notifications();
    let mut notifications = notifications.blocking_iter();
    while notifications.next().expect("the connection lives").is_some() {
        let now = Instant::now();
        if worker.query(&take, &[]).expect("own_tasks").is_empty() {
            continue;
        }
        if heard.send(now).is_err() {
            return;
        }
    }
}

const TAKE: &str = "select scylla.return_task(id, token) from scylla.own_tasks('wake', 'wake', 1)";

fn measure(hear: fn(&Sender<Instant>), count: usize) {
    let (sender, heard) = channel();
    thread::spawn(move || hear(&sender));
    let mut client = connect();
    let submit = client.prepare("select scylla.submit('wake')").expect("prepare");
    thread::sleep(Duration::from_millis(500));
    let mut times: Vec<Duration> = (0..count)
        .map(|n| {
            // so that submissions fall on every point of the scheduler's interval
            thread::sleep(Duration::from_micros(5_000 + (n as u64 * 7_919) % 13_000));
            let sent = Instant::now();
            client.query(&submit, &[]).expect("submit");
            heard.recv_timeout(Duration::from_secs(10)).expect("heard").duration_since(sent)
        })
        .collect();
    times.sort_unstable();
    let at = |share: usize| times[(count * share / 1_000).min(count - 1)].as_secs_f64() * 1e3;
    println!("{:.2} {:.2} {:.2}", at(500), at(990), at(1_000));
}

fn listen(count: usize) {
    let threads: Vec<_> = (0..count).map(|_| connect()).collect();
    for mut client in threads {
        client.batch_execute("listen \"scylla.bench\"").expect("listen");
        thread::spawn(move || {
            let mut notifications = client.notifications();
            let mut notifications = notifications.blocking_iter();
            while let Ok(Some(_)) = notifications.next() {}
        });
    }
    println!("listening");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let count = arguments.get(1).and_then(|it| it.parse().ok()).filter(|count| *count > 0);
    match (arguments.first().map(String::as_str), count) {
        (Some("work"), Some(count)) => measure(hear_by_waiting, count),
        (Some("notify"), Some(count)) => measure(hear_by_notification, count),
        (Some("listen"), Some(count)) => listen(count),
        _ => {
            eprintln!("wake work|notify|listen N");
            std::process::exit(2);
        }
    }
}
