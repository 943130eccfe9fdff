//! Tasks through the worker of `clients/rust`, with a handler that does nothing.

use std::time::{Duration, Instant};

use scylla_pg::{Connector, HandlerError, Task, Worker};
use tokio::{runtime::Runtime, time::sleep};

/// Runs a worker of the queue `bench` for that time. Prints how many tasks it has returned, and how
/// many a second.
pub fn run(connection: &str, concurrency: usize, seconds: usize) {
    let connector: Connector = connection.parse().expect("a connection string");
    let builder = Worker::builder(connector).queue("bench").concurrency(concurrency);
    let builder = builder.prepared_statements(true);
    let worker = builder.fallback(nothing).build().expect("a worker");
    let handle = worker.handle();
    Runtime::new().expect("a runtime").block_on(async {
        let stopping = handle.clone();
        let running = tokio::spawn(worker.run_until(async move {
            while stopping.stats().completed == 0 {
                sleep(Duration::from_millis(1)).await; // until it has connected
            }
            let (begun, before) = (Instant::now(), stopping.stats().completed);
            sleep(Duration::from_secs(seconds as u64)).await;
            let rate = (stopping.stats().completed - before) as f64 / begun.elapsed().as_secs_f64();
            print!("{rate:.3} ");
        }));
        running.await.expect("the worker does not panic").expect("the worker ends well");
    });
    println!("{}", handle.stats().completed);
}

async fn nothing(_: Task) -> Result<(), HandlerError> {
    Ok(())
}
