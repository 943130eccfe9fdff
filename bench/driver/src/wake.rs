//! How soon a worker hears of a task. The queue is `wake`. The time begins when the submission is
//! sent, so it includes the commit.

use crate::connection::connect;
use postgres::fallible_iterator::FallibleIterator;
use std::io::Read;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Reports when the worker has heard of a task, and owns the task.
fn hear_by_waiting(connection: &str, heard: &Sender<Instant>) {
    let mut client = connect(connection);
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

fn hear_by_notification(connection: &str, heard: &Sender<Instant>) {
    let (mut listener, mut worker) = (connect(connection), connect(connection));
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

/// Measures how soon `wait_for_work` returns.
pub fn by_waiting(connection: &str, count: usize) {
    measure(connection, hear_by_waiting, count);
}

/// Measures how soon the notification comes.
pub fn by_notification(connection: &str, count: usize) {
    measure(connection, hear_by_notification, count);
}

fn measure(connection: &str, hear: fn(&str, &Sender<Instant>), count: usize) {
    let (sender, heard) = channel();
    let to = connection.to_owned();
    thread::spawn(move || hear(&to, &sender));
    let mut client = connect(connection);
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
    report(&mut times);
}

fn report(times: &mut [Duration]) {
    times.sort_unstable();
    let at = |share: usize| {
        times[(times.len() * share / 1_000).min(times.len() - 1)].as_secs_f64() * 1e3
    };
    println!("{:.2} {:.2} {:.2}", at(500), at(990), at(1_000));
}

/// Measures how soon a worker that waits hears that its task was cancelled.
pub fn by_cancelling(connection: &str, count: usize) {
    let (sender, heard) = channel();
    let (mut client, mut waiting) = (connect(connection), connect(connection));
    thread::spawn(move || {
        let sql = "call scylla.wait_for_event('wake', '{wake}', '1 hour', '{}')";
        let wait = waiting.prepare(sql).expect("prepare");
        loop {
            let event: Option<String> = waiting.query_one(&wait, &[]).expect("an event").get(0);
            let is_signal = event.as_deref() == Some("signal");
            if is_signal && sender.send(Instant::now()).is_err() {
                return;
            }
        }
    });
    let submit = client.prepare("select scylla.submit('wake')").expect("prepare");
    let own =
        client.prepare("select id from scylla.own_tasks('wake', 'wake', 1)").expect("prepare");
    let cancel = client.prepare("select scylla.cancel($1)").expect("prepare");
    thread::sleep(Duration::from_millis(500));
    let mut times: Vec<Duration> = (0..count)
        .map(|n| {
            client.query(&submit, &[]).expect("submit");
            let id: uuid::Uuid = client.query_one(&own, &[]).expect("a task").get(0);
            thread::sleep(Duration::from_micros(2_000 + (n as u64 * 7_919) % 13_000));
            let sent = Instant::now();
            client.query(&cancel, &[&id]).expect("cancel");
            heard.recv_timeout(Duration::from_secs(10)).expect("heard").duration_since(sent)
        })
        .collect();
    report(&mut times);
}

/// Sessions that listen to the queue `bench` until the standard input ends.
pub fn listen(connection: &str, count: usize) {
    let threads: Vec<_> = (0..count).map(|_| connect(connection)).collect();
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
