//! A worker in a process of its own, for the tests: `program URL QUEUE LOG [OPTION=NUMBER]...`
//!
//! Its handlers write what happens to them into LOG, one line each.

use std::{env, fs::OpenOptions, io::Write, sync::LazyLock, thread, time::Duration};

use scylla_pg::{Connector, HandlerError, Task, Worker};

static LOG: LazyLock<String> =
    LazyLock::new(|| env::args().nth(3).expect("the third argument is the log"));

fn say(line: &str) {
    let mut log = OpenOptions::new().create(true).append(true).open(&*LOG).unwrap();
    log.write_all(format!("{line}\n").as_bytes()).unwrap();
}

fn begin(task: &Task<f64>) -> Duration {
    say(&format!("begin {} {}", task.id, task.tries));
    Duration::from_secs_f64(task.spec)
}

/// Is dropped when it is stopped.
async fn sleep(task: Task<f64>) -> Result<&'static str, HandlerError> {
    struct Dropped;
    impl Drop for Dropped {
        fn drop(&mut self) {
            say("dropped");
        }
    }
    let dropped = Dropped;
    tokio::time::sleep(begin(&task)).await;
    std::mem::forget(dropped);
    say(&format!("end {}", task.id));
    Ok("slept")
}

/// Ends when it is told to.
async fn listen(task: Task<f64>) -> Result<&'static str, HandlerError> {
    let length = begin(&task);
    tokio::select! {
        () = tokio::time::sleep(length) => Ok("slept"),
        cause = task.stopped() => {
            say(&format!("{cause:?} {}", task.id));
            Err(cause.into())
        }
    }
}

/// Hears that it is told to end, and does not.
async fn ignore(task: Task<f64>) -> Result<&'static str, HandlerError> {
    let length = begin(&task);
    let stopped = task.stopped();
    tokio::spawn(async move { say(&format!("{:?}", stopped.await)) });
    tokio::time::sleep(length).await;
    Ok("slept")
}

/// Keeps its thread.
async fn block(task: Task<f64>) -> Result<&'static str, HandlerError> {
    let length = begin(&task);
    thread::sleep(length);
    say(&format!("end {}", task.id));
    Ok("blocked")
}

#[tokio::main(worker_threads = 4)]
async fn main() -> Result<(), scylla_pg::Error> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let connector: Connector = arguments[0].parse()?;
    let mut builder = Worker::builder(connector)
        .queue(&arguments[1])
        .handler("sleep", sleep)
        .handler("listen", listen)
        .handler("ignore", ignore)
        .handler("block", block);
    for option in &arguments[3..] {
        let (name, value) = option.split_once('=').expect("an option is NAME=NUMBER");
        let value: f64 = value.parse().expect("a number");
        builder = match name {
            "lease" => builder.lease(Duration::from_secs_f64(value)),
            "grace" => builder.grace(Duration::from_secs_f64(value)),
            "concurrency" => builder.concurrency(value as usize),
            _ => panic!("no option {name}"),
        };
    }
    let worker = builder.build()?;
    let handle = worker.handle();
    say(&format!("name {}", handle.name()));
    worker.run().await?;
    let stats = handle.stats();
    say(&format!(
        "exit completed={} yielded={} cancelled={} lost={}",
        stats.completed, stats.yielded, stats.cancelled, stats.lost
    ));
    std::process::exit(0); // a handler that keeps its thread would keep the process
}
