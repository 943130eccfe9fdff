//! A task, a worker that runs it, and its result, in one process.
//!
//! `DATABASE_URL=postgres://… cargo run --example first_worker`

use std::{env, time::Duration};

use scylla_pg::{Client, Connector, HandlerError, NewTask, Spec, Task, Worker};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Welcome {
    to: String,
}

impl Spec for Welcome {
    const QUEUE: &'static str = "mail";
    const ACTION: &'static str = "welcome";
}

async fn welcome(task: Task<Welcome>) -> Result<String, HandlerError> {
    Ok(format!("sent to {}", task.spec.to))
}

#[tokio::main]
async fn main() -> Result<(), scylla_pg::Error> {
    let url = env::var("DATABASE_URL").expect("DATABASE_URL says where the database is");
    let connector: Connector = url.parse()?;
    let client = Client::connect(connector.clone());

    let worker = Worker::builder(connector).register(welcome).build()?;
    let handle = worker.handle();
    let running = tokio::spawn(worker.run());

    let task = NewTask::from(Welcome { to: "ann@example.com".into() }).post_result();
    let id = client.submit(task).await?;
    println!("{}", client.result::<String>(id, Duration::from_secs(60)).await?);

    handle.stop();
    running.await.expect("the worker does not panic")
}
