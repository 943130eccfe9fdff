//! The programs of `examples/` do what they say.

use std::process::Command;

use crate::{processes::example, server::shared};

async fn run(name: &str) -> String {
    let database = shared().database(true).await;
    let mut command = Command::new(example(name));
    command.env("DATABASE_URL", database.url());
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn first_worker() {
    assert_eq!(run("first_worker").await, "sent to ann@example.com\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn transaction() {
    assert_eq!(run("transaction").await, "order 1 is not paid\norder 2 is shipped\n");
}
