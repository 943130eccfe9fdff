//! How a worker ends.

use std::{
    future::ready,
    sync::Arc,
    time::{Duration, Instant},
};

use scylla_pg::{
    Connector, Error, HandlerError, NewTask, Status, Task, Worker, run_all, serde_json::Value,
    uuid::Uuid,
};
use tokio::sync::{Notify, mpsc};

use crate::{
    processes::Program,
    server::{Server, millis, queue, serve, shared, until, worker},
};

/// Submits a task that takes so many seconds.
async fn submit(server: &Server, queue: &str, action: &str, seconds: f64) -> Uuid {
    server.client().submit(NewTask::new(queue, seconds).action(action)).await.unwrap()
}

async fn is_back(server: &Server, id: Uuid) {
    let entry = server.task(id).await;
    assert_eq!((entry.status, entry.tries, entry.owner), (Status::Ready, 0, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn drain_lets_handlers_end() {
    for signal in ["TERM", "INT"] {
        let (server, queue) = (shared(), queue());
        let mut program = Program::start(&server, &queue, &["concurrency=2"]).await;
        let ids = [
            submit(&server, &queue, "sleep", 2.0).await,
            submit(&server, &queue, "block", 2.0).await,
        ];
        program.says_times("begin", 2).await;
        let later = submit(&server, &queue, "sleep", 0.0).await;
        program.signal(signal);
        assert_eq!(
            program.ended().await,
            (Some(0), "exit completed=2 yielded=0 cancelled=0 lost=0".into())
        );
        for id in ids {
            assert_eq!(server.task(id).await.status, Status::Completed);
        }
        is_back(&server, later).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn drain_worker_reaches_a_worker_that_is_full_and_one_that_is_idle() {
    for full in [true, false] {
        let (server, queue) = (shared(), queue());
        let mut program = Program::start(&server, &queue, &["concurrency=1"]).await;
        let id = submit(&server, &queue, "sleep", if full { 1.0 } else { 0.0 }).await;
        program.says(if full { "begin" } else { "end" }).await;
        assert!(server.client().drain_worker(&program.name().await).await.unwrap());
        assert_eq!(
            program.ended().await,
            (Some(0), "exit completed=1 yielded=0 cancelled=0 lost=0".into())
        );
        assert_eq!(server.task(id).await.status, Status::Completed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_signal_to_a_worker_that_drains_already_lets_handlers_end() {
    let (server, queue) = (shared(), queue());
    let mut program = Program::start(&server, &queue, &["concurrency=1"]).await;
    let id = submit(&server, &queue, "sleep", 2.0).await;
    program.says("begin").await;
    assert!(server.client().drain_worker(&program.name().await).await.unwrap());
    tokio::time::sleep(millis(500)).await; // it has heard of it
    program.signal("TERM");
    assert_eq!(
        program.ended().await,
        (Some(0), "exit completed=1 yielded=0 cancelled=0 lost=0".into())
    );
    assert_eq!(server.task(id).await.status, Status::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_grace_is_over_handlers_are_stopped_and_their_tasks_handed_back() {
    let (server, queue) = (shared(), queue());
    for (action, says, most) in [
        ("sleep", Some("dropped"), 2.0),
        ("listen", Some("Shutdown"), 2.0),
        ("ignore", Some("Shutdown"), 5.5),
        ("block", None, 5.5),
    ] {
        let mut program = Program::start(&server, &queue, &["grace=0.5", "concurrency=2"]).await;
        let id = submit(&server, &queue, action, 60.0).await;
        program.says("begin").await;
        let begun = Instant::now();
        program.signal("TERM");
        assert_eq!(
            program.ended().await,
            (Some(0), "exit completed=0 yielded=1 cancelled=0 lost=0".into()),
            "{action}"
        );
        let took = begun.elapsed().as_secs_f64();
        assert!(took > 0.5 && took < most, "{action}: {took}");
        assert!(says.is_none_or(|words| program.said(words) == 1), "{action}");
        is_back(&server, id).await;
        server.client().cancel(id).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_hands_back_at_once() {
    let (server, queue) = (shared(), queue());
    let mut program = Program::start(&server, &queue, &["concurrency=3"]).await;
    let mut ids = vec![];
    for action in ["sleep", "ignore", "block"] {
        ids.push(submit(&server, &queue, action, 60.0).await);
    }
    program.says_times("begin", 3).await;
    program.signal("TERM");
    tokio::time::sleep(millis(300)).await;
    assert_eq!(server.with_status(&queue, "running").await, 3);
    let begun = Instant::now();
    program.signal("INT");
    assert_eq!(
        program.ended().await,
        (Some(0), "exit completed=0 yielded=3 cancelled=0 lost=0".into())
    );
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    for id in ids {
        is_back(&server, id).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_kill_9_another_worker_has_the_task_when_its_lease_is_over() {
    let (server, queue) = (shared(), queue());
    let first = Program::start(&server, &queue, &["lease=1"]).await;
    let id = submit(&server, &queue, "sleep", 2.0).await;
    first.says("begin").await;
    first.signal("KILL");
    let second = Program::start(&server, &queue, &["lease=1"]).await;
    second.says(&format!("begin {id} 2")).await;
    second.says("end").await;
    until("it has completed", async || {
        (server.task(id).await.status == Status::Completed).then_some(())
    })
    .await;
    assert_eq!(server.task(id).await.tries, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_stops_without_a_server() {
    let (server, queue) = (Server::own(&[]).await, queue());
    let mut program = Program::start(&server, &queue, &["grace=1", "lease=60"]).await;
    submit(&server, &queue, "listen", 60.0).await;
    program.says("begin").await;
    server.stop().await;
    let begun = Instant::now();
    program.signal("TERM");
    assert_eq!(program.ended().await.0, Some(0));
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
    assert_eq!(program.said("Shutdown"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_comes_in_the_grace_counts_when_the_server_is_away_for_a_moment() {
    let (server, queue) = (Server::own(&[]).await, queue());
    let mut program = Program::start(&server, &queue, &["grace=10", "lease=60"]).await;
    let id = submit(&server, &queue, "sleep", 4.0).await;
    program.says("begin").await;
    tokio::time::sleep(millis(2_500)).await; // the server remembers a lease of a second through a crash
    server.stop().await;
    program.signal("TERM");
    program.says("end").await;
    server.start().await;
    assert_eq!(
        program.ended().await,
        (Some(0), "exit completed=1 yielded=0 cancelled=0 lost=0".into())
    );
    assert_eq!(server.task(id).await.status, Status::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_dropped_hands_back_at_once() {
    let (server, queue) = (shared(), queue());
    let builder = worker(&queue).grace(Duration::from_secs(60));
    let worker = builder.fallback(async |_: Task<Value>| {
        std::future::pending::<()>().await;
        Ok::<_, HandlerError>(())
    });
    let running = tokio::spawn(worker.build().unwrap().run_until(std::future::pending()));
    let id = submit(&server, &queue, "", 1.0).await;
    until("it runs", async || (server.task(id).await.status == Status::Running).then_some(()))
        .await;
    running.abort();
    until("it is back", async || (server.task(id).await.status == Status::Ready).then_some(()))
        .await;
    is_back(&server, id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn run_until_ends_with_its_future_and_its_handle() {
    let (server, queue) = (shared(), queue());
    let (go, ended) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let gate = go.clone();
    let builder = worker(&queue).grace(Duration::from_secs(20)).fallback(move |_: Task<Value>| {
        let gate = gate.clone();
        async move {
            gate.notified().await;
            Ok::<_, HandlerError>(())
        }
    });
    let worker = builder.build().unwrap();
    let (handle, shutdown) = (worker.handle(), ended.clone());
    let running = tokio::spawn(worker.run_until(async move { shutdown.notified().await }));
    let id = submit(&server, &queue, "", 1.0).await;
    until("it runs", async || (server.task(id).await.status == Status::Running).then_some(()))
        .await;
    ended.notify_one();
    tokio::time::sleep(millis(100)).await;
    assert!(!running.is_finished());
    go.notify_one();
    running.await.unwrap().unwrap();
    assert_eq!((server.task(id).await.status, handle.stats().completed), (Status::Completed, 1));
    // a second stop at once: nothing is waited for
    let serving = serve(crate::server::worker(&queue).grace(Duration::from_secs(60)).fallback(
        async |_: Task<Value>| {
            std::future::pending::<()>().await;
            Ok::<_, HandlerError>(())
        },
    ));
    let id = submit(&server, &queue, "", 1.0).await;
    serving.until("it runs", |stats| stats.owned == 1).await;
    serving.handle.stop_now();
    assert_eq!(serving.ended().await.yielded, 1);
    is_back(&server, id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_was_stopped_before_it_runs_ends() {
    let nothing = async |_: Task<Value>| Ok::<_, HandlerError>(());
    let worker = worker(&queue()).fallback(nothing).build().unwrap();
    worker.handle().stop();
    let ended =
        tokio::time::timeout(Duration::from_secs(10), worker.run_until(std::future::pending()));
    ended.await.unwrap().unwrap();
    // also when there is no server to tell
    let nowhere: Connector = "host=127.0.0.1 port=1 user=x".parse().unwrap();
    let worker = Worker::builder(nowhere).queue("q").fallback(nothing).build().unwrap();
    let (handle, running) =
        (worker.handle(), tokio::spawn(worker.run_until(std::future::pending())));
    tokio::time::sleep(millis(300)).await;
    assert!(!running.is_finished());
    handle.stop();
    tokio::time::timeout(Duration::from_secs(10), running).await.unwrap().unwrap().unwrap();
}

#[test]
fn a_runtime_that_ends_hands_back() {
    let (server, queue) = (shared(), queue());
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let first = runtime();
    let id = first.block_on(async {
        serve(worker(&queue).grace(Duration::from_secs(60)).fallback(async |_: Task<Value>| {
            std::future::pending::<()>().await;
            Ok::<_, HandlerError>(())
        }));
        let id = submit(&server, &queue, "", 1.0).await;
        until("it runs", async || (server.task(id).await.status == Status::Running).then_some(()))
            .await;
        id
    });
    drop(first);
    runtime().block_on(async {
        until("it is back", async || (server.task(id).await.status == Status::Ready).then_some(()))
            .await;
        is_back(&server, id).await;
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_of_several_databases_run_as_one() {
    let (server, queue) = (shared(), queue());
    let mut second = server.clone_address();
    second.database = format!("second_{}", Uuid::new_v4().simple());
    server.execute(&format!("create database {}", second.database), &[]).await;
    second.execute("create extension scylla", &[]).await;
    let (ran, mut runs) = mpsc::unbounded_channel();
    let workers = || {
        [&server, &second].map(|server| {
            let ran = ran.clone();
            let handler = move |task: Task<String>| {
                ran.send(task.spec).unwrap();
                ready(Ok::<_, HandlerError>(()))
            };
            Worker::builder(server.connector())
                .queue(&queue)
                .handler("", handler)
                .name(format!("of {queue}"))
                .build()
                .unwrap()
        })
    };
    let running = tokio::spawn(run_all(workers()));
    for (server, spec) in [(&server, "first"), (&second, "second")] {
        server.client().submit(NewTask::new(&queue, spec)).await.unwrap();
    }
    let mut found = [runs.recv().await.unwrap(), runs.recv().await.unwrap()];
    found.sort();
    assert_eq!(found, ["first", "second"]);
    assert!(second.client().drain_worker(&format!("of {queue}")).await.unwrap());
    running.await.unwrap().unwrap();
    // where it can do nothing, the others stop
    second.execute("drop extension scylla", &[]).await;
    assert!(matches!(run_all(workers()).await, Err(Error::Incompatible(_))));
}
