//! The driver of clients/conformance: `conformance URL`. Commands and events are lines of JSON.

use std::{
    collections::HashSet,
    io::{BufRead, Write},
    sync::{LazyLock, Mutex},
    time::Duration,
};

use scylla_pg::{
    Cause, Client, Connector, Error, HandlerError, NewTask, NewTasks, OnConflict, Task, Worker,
    serde_json::{self, Value, json},
    tokio_postgres,
    uuid::Uuid,
};
use serde::Deserialize;
use tokio::sync::mpsc;

#[derive(Deserialize)]
struct Spec {
    #[serde(default)]
    ms: u64,
    #[serde(default)]
    then: String,
    #[serde(default)]
    deaf: bool,
    #[serde(default)]
    value: Value,
}

static SNOOZED: LazyLock<Mutex<HashSet<Uuid>>> = LazyLock::new(Mutex::default);

fn say(line: &Value) {
    std::io::stdout().lock().write_all(format!("{line}\n").as_bytes()).expect("stdout");
}

fn stopped(id: Uuid, cause: &str) {
    say(&json!({"event": "stopped", "task": id, "cause": cause}));
}

async fn work(task: Task<Spec>) -> Result<Value, HandlerError> {
    say(&json!({"event": "begin", "task": task.id, "tries": task.tries}));
    let pause = tokio::time::sleep(Duration::from_millis(task.spec.ms));
    if task.spec.deaf {
        pause.await;
    } else {
        tokio::select! {
            () = pause => {}
            cause = task.stopped() => {
                stopped(task.id, name_of(cause));
                return Err(cause.into());
            }
        }
    }
    if task.spec.then == "snooze" && SNOOZED.lock().unwrap().insert(task.id) {
        stopped(task.id, "Snooze");
        return Err(HandlerError::snooze(Duration::from_millis(300)));
    }
    say(&json!({"event": "end", "task": task.id}));
    match &*task.spec.then {
        "error" => Err(HandlerError::retry("told to fail")),
        "abort" => Err(HandlerError::abort("told", "told to abort")),
        "meta" => Ok(Value::Object(task.meta)),
        _ => Ok(task.spec.value),
    }
}

fn name_of(cause: Cause) -> &'static str {
    match cause {
        Cause::Cancelled => "Cancelled",
        Cause::LeaseLost => "LeaseLost",
        Cause::TimeLimit => "TimeLimit",
        Cause::Shutdown => "Shutdown",
        _ => "unknown",
    }
}

enum New {
    One(NewTask),
    Many(NewTasks),
}

fn new_tasks(command: &Value) -> New {
    let queue = command["queue"].as_str().expect("a queue");
    let action = command["action"].as_str().expect("an action");
    let options = &command["options"];
    let count = command["count"].as_u64().expect("a count") as usize;
    if count > 1 {
        let specs = std::iter::repeat_n(&command["spec"], count);
        return New::Many(NewTasks::new(queue, specs).action(action));
    }
    let mut task = NewTask::new(queue, &command["spec"]).action(action);
    if let Some(key) = options["key"].as_str() {
        task = task.key(key);
    }
    task = match options["on_conflict"].as_str() {
        Some("ignore") => task.on_conflict(OnConflict::Ignore),
        Some("replace") => task.on_conflict(OnConflict::Replace),
        _ => task,
    };
    if let Some(priority) = options["priority"].as_u64() {
        task = task.priority(priority as u32);
    }
    if let Some(group_key) = options["group_key"].as_str() {
        task = task.group_key(group_key);
    }
    if let Some(tries) = options["max_tries"].as_u64() {
        task = task.max_tries(tries as u32);
    }
    if options["post_result"] == true {
        task = task.post_result();
    }
    for (name, value) in options["meta"].as_object().into_iter().flatten() {
        task = task.meta(name, value.clone());
    }
    New::One(task)
}

async fn submit(url: &str, client: &Client, command: &Value) -> Result<Vec<Uuid>, Error> {
    let Some(end) = command["in"].as_str() else {
        return match new_tasks(command) {
            New::One(task) => Ok(vec![client.submit(task).await?]),
            New::Many(tasks) => client.submit_many(tasks).await,
        };
    };
    let (mut connection, driving) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
    let driving = tokio::spawn(driving);
    let mut outer = connection.transaction().await?;
    let inner = outer.transaction().await?;
    let ids = match new_tasks(command) {
        New::One(task) => vec![client.in_tx(&inner).submit(task).await?],
        New::Many(tasks) => client.in_tx(&inner).submit_many(tasks).await?,
    };
    if end == "savepoint" {
        inner.rollback().await?
    } else {
        inner.commit().await?
    }
    if end == "rollback" {
        outer.rollback().await?
    } else {
        outer.commit().await?
    }
    drop(connection);
    let _ = driving.await;
    Ok(ids)
}

fn build(connector: &Connector, command: &Value) -> Result<Worker, Error> {
    let mut builder = Worker::builder(connector.clone()).handler("work", work);
    for queue in command["queues"].as_array().into_iter().flatten() {
        builder = builder.queue(queue.as_str().expect("a queue"));
    }
    if let Some(name) = command["name"].as_str() {
        builder = builder.name(name);
    }
    if let Some(handlers) = command["concurrency"].as_u64() {
        builder = builder.concurrency(handlers as usize);
    }
    if let Some(seconds) = command["lease"].as_f64() {
        builder = builder.lease(Duration::from_secs_f64(seconds));
    }
    if let Some(seconds) = command["grace"].as_f64() {
        builder = builder.grace(Duration::from_secs_f64(seconds));
    }
    builder.build()
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).expect("a URL");
    let connector: Connector = url.parse()?;
    let client = Client::connect(connector.clone());
    let (sender, mut commands) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let line = line.expect("a line of text");
            let command: Value = serde_json::from_str(&line).expect("a line of JSON");
            if sender.send(command).is_err() {
                break;
            }
        }
    });
    let mut working = None;
    while let Some(command) = commands.recv().await {
        let answer = match command["do"].as_str() {
            Some("submit") => {
                submit(&url, &client, &command).await.map(|ids| json!({"tasks": ids}))
            }
            Some("result") => {
                let id = command["task"].as_str().and_then(|id| id.parse().ok()).expect("an id");
                let value = client.result::<Value>(id, Duration::from_secs(60)).await;
                value.map(|value| json!({"value": value}))
            }
            Some("work") => build(&connector, &command).map(|worker| {
                working = Some(tokio::spawn(async move {
                    let ended = worker.run().await;
                    std::process::exit(ended.is_err().into());
                }));
                json!({})
            }),
            other => panic!("unknown command {other:?}"),
        };
        let mut answer = answer.unwrap_or_else(
            |error| json!({"error": error.to_string(), "sqlstate": error.sqlstate()}),
        );
        answer["id"] = command["id"].clone();
        say(&answer);
    }
    if let Some(working) = working {
        let _ = working.await;
    }
    Ok(())
}
