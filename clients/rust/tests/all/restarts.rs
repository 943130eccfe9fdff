//! The server goes, comes back, closes, or ends connections: no task is lost, none counts twice.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use scylla_pg::{
    Connector, Error, HandlerError, NewTask, NewTasks, Status, Task, Worker, WorkerBuilder,
    serde_json::Value, tokio_postgres::NoTls, uuid::Uuid,
};

use crate::{
    proxy::Proxy,
    server::{Server, millis, queue, serve, shared, until, worker},
};

const SOON: Duration = Duration::from_secs(20);

type Ran = Arc<Mutex<HashMap<Uuid, usize>>>;

fn napping(builder: WorkerBuilder, ran: &Ran) -> WorkerBuilder {
    let ran = ran.clone();
    builder.fallback(move |task: Task<Value>| {
        *ran.lock().unwrap().entry(task.id).or_default() += 1;
        async move {
            tokio::time::sleep(millis(20)).await;
            Ok::<_, HandlerError>(())
        }
    })
}

/// Each task has completed, and ran once for each ownership at most.
///
/// A crash of the server forgets the leases of less than a second, and their history.
async fn accounted(server: &Server, queue: &str, ran: &Ran, crashes: usize) -> u64 {
    let sql = "select id, status, (select count(*) from jsonb_array_elements(history) as h
        where h ->> '_typ' = 'TaskAssignment') from scylla.tasks where queue = $1";
    let rows = server.execute(sql, &[&queue]).await;
    let ran = ran.lock().unwrap();
    for row in &rows {
        let (id, status, owned): (Uuid, String, i64) = (row.get(0), row.get(1), row.get(2));
        assert_eq!(status, "completed");
        let times = ran.get(&id).copied().unwrap_or_default();
        assert!(times >= 1 && times <= owned as usize + crashes, "task {id} ran {times} times");
    }
    rows.len() as u64
}

async fn nothing(_: Task<Value>) -> Result<(), HandlerError> {
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_has_one_connection_that_waits_and_four_at_most_for_short_calls() {
    let (server, queue) = (shared(), queue());
    server.client().submit_many(NewTasks::new(&queue, 0..4_000)).await.unwrap();
    for (concurrency, most) in [(1, 2), (2, 3), (400, 5)] {
        let proxy = Proxy::before(&server).await;
        proxy.seen.delay.store(5, Ordering::SeqCst); // a server far away: many calls are under way
        let builder = Worker::builder(proxy.connector())
            .queue(&queue)
            .concurrency(concurrency)
            .grace(Duration::ZERO);
        let serving = serve(builder.fallback(async |_: Task<Value>| {
            tokio::time::sleep(millis(2)).await;
            Ok::<_, HandlerError>(())
        }));
        let enough = if concurrency == 400 { 2_000 } else { 30 };
        serving.until("some have run", |stats| stats.completed > enough).await;
        let name = serving.handle.name().to_owned();
        let connections = server.connections(&name).await.len();
        assert!(connections >= 1 && connections <= most, "{connections} at {concurrency}");
        serving.stop().await;
        let opened = proxy.seen.most_open.load(Ordering::SeqCst);
        // the wait may have been cancelled by a connection of its own
        assert!(opened <= most + 1, "{opened} at {concurrency}");
        if concurrency == 400 {
            assert!(opened >= 3, "{opened}");
        }
        until("its connections are gone", async || {
            server.connections(&name).await.is_empty().then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_connection_is_terminated_again_and_again() {
    let (server, queue, ran) = (shared(), queue(), Ran::default());
    server.client().submit_many(NewTasks::new(&queue, 0..1_500)).await.unwrap();
    let serving = serve(napping(worker(&queue).lease(Duration::from_secs(1)), &ran));
    for share in [50, 200, 400, 600] {
        serving.until("some more have run", |stats| stats.completed > share).await;
        for pid in server.connections(serving.handle.name()).await {
            server.execute("select pg_terminate_backend($1)", &[&pid]).await;
        }
    }
    until("all have completed", async || {
        (server.with_status(&queue, "completed").await == 1_500).then_some(())
    })
    .await;
    accounted(&server, &queue, &ran, 0).await;
    let stats = serving.stop().await;
    assert_eq!(stats.completed, 1_500, "{stats:?}");
    assert!(stats.reconnects >= 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_immediate_restarts() {
    let (server, queue, ran) =
        (Server::own(&["scylla.board_size = 4096"]).await, queue(), Ran::default());
    let client = server.client();
    client.submit_many(NewTasks::new(&queue, 0..2_000)).await.unwrap();
    let serving = [0, 1].map(|_| {
        let builder =
            Worker::builder(server.connector()).queue(&queue).lease(Duration::from_secs(2));
        serve(napping(builder.grace(Duration::ZERO), &ran))
    });
    let completed = || serving.iter().map(|serving| serving.stats().completed).sum::<u64>();
    for share in [200, 800] {
        until("some have run", async || (completed() > share).then_some(())).await;
        server.stop().await;
        server.start().await;
        // the pool of a client is of use again, too
        client.submit(NewTask::new(&queue, 1)).await.unwrap();
    }
    until("all have completed", async || {
        (server.with_status(&queue, "completed").await == 2_002).then_some(())
    })
    .await;
    let tasks = accounted(&server, &queue, &ran, 2).await;
    until("all are counted", async || (completed() == tasks).then_some(())).await;
    for serving in serving {
        serving.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_return_whose_answer_is_lost_counts_once() {
    let (queue, client) = (queue(), shared().client());
    let proxy = Proxy::before(&shared()).await;
    let builder =
        Worker::builder(proxy.connector()).queue(&queue).grace(Duration::ZERO).concurrency(4);
    let serving = serve(
        builder
            .lease(Duration::from_secs(1))
            .handler("completes", nothing)
            .handler("retries", async |_: Task<Value>| Err::<(), _>(HandlerError::retry("again")))
            .handler("snoozes", async |_: Task<Value>| {
                Err::<(), _>(HandlerError::snooze(Duration::from_secs(3_600)))
            })
            .handler("aborts", async |_: Task<Value>| Err::<(), _>(HandlerError::abort("no", ""))),
    );
    let total = |stats: scylla_pg::WorkerStats| {
        stats.completed + stats.retried + stats.yielded + stats.aborted + stats.lost
    };
    for (n, action) in ["completes", "retries", "snoozes", "aborts"].into_iter().enumerate() {
        proxy.lose(1);
        client
            .submit(NewTask::new(&queue, 1).action(action).retry_interval("1 hour"))
            .await
            .unwrap();
        serving.until(action, |stats| total(stats) > n as u64).await;
    }
    let stats = serving.stop().await;
    assert_eq!(
        (stats.completed, stats.retried, stats.yielded, stats.aborted, stats.lost, stats.owned),
        (1, 1, 1, 1, 0, 4)
    );
    assert!(stats.reconnects >= 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_result_is_returned_alone_when_a_batch_is_refused_and_answers_are_lost() {
    let (queue, client) = (queue(), shared().client());
    let proxy = Proxy::before(&shared()).await;
    let go = Arc::new(tokio::sync::Barrier::new(6));
    let losing = proxy.seen.clone();
    let builder =
        Worker::builder(proxy.connector()).queue(&queue).grace(Duration::ZERO).concurrency(6);
    let serving = serve(builder.fallback(move |task: Task<i32>| {
        let (go, losing) = (go.clone(), losing.clone());
        async move {
            if go.wait().await.is_leader() {
                losing.lose.store(4, Ordering::SeqCst);
            }
            Ok::<_, HandlerError>(if task.spec == 5 { "\0" } else { "good" })
        }
    }));
    client.submit_many(NewTasks::new(&queue, 0..6).max_tries(1)).await.unwrap();
    serving.until("all are counted", |stats| stats.completed == 5 && stats.aborted == 1).await;
    assert_eq!(serving.stop().await.lost, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_database_gives_no_task_until_it_is_open() {
    let database = shared().database(true).await;
    let (queue, client) = (queue(), database.client());
    let builder =
        Worker::builder(database.connector()).queue(&queue).wait(millis(200)).grace(Duration::ZERO);
    let serving = serve(builder.fallback(nothing));
    client.submit(NewTask::new(&queue, 1)).await.unwrap();
    serving.until("one has run", |stats| stats.completed == 1).await;
    database.execute("select scylla.open(false)", &[]).await;
    let id = client.submit(NewTask::new(&queue, 1)).await.unwrap();
    tokio::time::sleep(millis(600)).await;
    assert_eq!(client.task(id).await.unwrap().status, Status::Ready);
    database.execute("select scylla.open()", &[]).await;
    serving.until("the other one has run", |stats| stats.completed == 2).await;
    serving.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_away_at_the_start_is_waited_for() {
    let (server, queue) = (Server::own(&[]).await, queue());
    server.client().submit(NewTask::new(&queue, 1)).await.unwrap();
    server.stop().await;
    let serving = serve(
        Worker::builder(server.connector()).queue(&queue).grace(Duration::ZERO).fallback(nothing),
    );
    tokio::time::sleep(millis(300)).await;
    server.start().await;
    serving.until("it has run", |stats| stats.completed == 1).await;
    let stats = serving.stop().await;
    assert_eq!(stats.reconnects, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_worker_sends_one_statement_for_each_wait_and_nothing_else() {
    let (queue, proxy) = (queue(), Proxy::before(&shared()).await);
    let builder =
        Worker::builder(proxy.connector()).queue(&queue).wait(millis(150)).grace(Duration::ZERO);
    let serving = serve(builder.fallback(nothing));
    let calls =
        until("many waits", async || Some(proxy.calls()).filter(|calls| calls.len() > 12)).await;
    assert_eq!(calls[..3], ["about", "heartbeat", "own_tasks"]);
    assert!(calls[3..].iter().all(|call| call == "wait_for_event"), "{calls:?}");
    serving.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_scylla_is_an_error_at_once() {
    let database = shared().database(false).await;
    let worker =
        Worker::builder(database.connector()).queue("q").fallback(nothing).build().unwrap();
    let error = worker.run().await.unwrap_err();
    assert!(
        matches!(&error, Error::Incompatible(why) if why.contains("create extension scylla")),
        "{error}"
    );
    // a server of another protocol, or without a feature
    for about in [
        "{\"version\": \"9.0\", \"protocol\": 2}",
        "{\"version\": \"0.1.9\", \"protocol\": 1, \"features\": []}",
    ] {
        let database = shared().database(false).await;
        let sql = format!(
            "create schema scylla create function scylla.about() returns jsonb return '{about}'::jsonb"
        );
        let sql = sql.replace("create schema scylla create", "create");
        database.execute("create schema scylla", &[]).await;
        database.execute(&sql, &[]).await;
        let worker =
            Worker::builder(database.connector()).queue("q").fallback(nothing).build().unwrap();
        let error = worker.run().await.unwrap_err();
        assert!(
            matches!(&error, Error::Incompatible(why) if why.contains("does not work with")),
            "{error}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_connect_is_not_remembered() {
    let (server, queue, client) = (shared(), queue(), shared().client());
    let asked = Arc::<AtomicUsize>::default();
    let (asking, config) = (asked.clone(), server.config());
    let connector = Connector::from_fn(
        move || {
            let mut config = config.clone();
            if asking.fetch_add(1, Ordering::SeqCst) < 3 {
                config.user("no_such_role");
            }
            config
        },
        NoTls,
    );
    let id = client.submit(NewTask::new(&queue, 1).post_result()).await.unwrap();
    let serving =
        serve(Worker::builder(connector).queue(&queue).grace(Duration::ZERO).fallback(nothing));
    client.result::<()>(id, SOON).await.unwrap();
    assert!(asked.load(Ordering::SeqCst) > 3);
    serving.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_may_only_work_has_a_worker() {
    let (server, queue, client) = (shared(), queue(), shared().client());
    let role = format!("worker_{}", Uuid::new_v4().simple());
    server.execute(&format!("create role {role} login"), &[]).await;
    server.execute(&format!("select scylla.grant('{queue}', '{role}', '{{work}}')"), &[]).await;
    let mut config = server.config();
    config.user(&role);
    let serving =
        serve(Worker::builder(config).queue(&queue).grace(Duration::ZERO).fallback(nothing));
    let id = client.submit(NewTask::new(&queue, 1).post_result()).await.unwrap();
    client.result::<()>(id, SOON).await.unwrap();
    // without the right, the worker goes on asking, and has it back later
    server.execute(&format!("select scylla.revoke('{queue}', '{role}', '{{work}}')"), &[]).await;
    let id = client.submit(NewTask::new(&queue, 1).post_result()).await.unwrap();
    tokio::time::sleep(millis(300)).await;
    assert_eq!(client.task(id).await.unwrap().status, Status::Ready);
    server.execute(&format!("select scylla.grant('{queue}', '{role}', '{{work}}')"), &[]).await;
    client.result::<()>(id, SOON).await.unwrap();
    serving.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_server_is_waited_for() {
    let (server, queue) = (Server::own(&[]).await, queue());
    let client = server.client();
    let builder = Worker::builder(server.connector()).queue(&queue).grace(Duration::ZERO);
    let serving = serve(builder.call_timeout(millis(500)).wait(millis(500)).fallback(nothing));
    let id = client.submit(NewTask::new(&queue, 1).post_result()).await.unwrap();
    client.result::<()>(id, SOON).await.unwrap();
    let frozen = server.freeze();
    tokio::time::sleep(Duration::from_secs(2)).await;
    drop(frozen);
    let id = client.submit(NewTask::new(&queue, 1).post_result()).await.unwrap();
    client.result::<()>(id, SOON).await.unwrap();
    serving.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_are_prepared_when_asked_for_until_a_pooler_loses_them() {
    let (queue, client) = (queue(), shared().client());
    for prepared in [false, true] {
        let proxy = Proxy::before(&shared()).await;
        let builder =
            Worker::builder(proxy.connector()).queue(&queue).concurrency(1).grace(Duration::ZERO);
        let serving = serve(builder.prepared_statements(prepared).fallback(nothing));
        client.submit_many(NewTasks::new(&queue, 0..20)).await.unwrap();
        serving.until("all have run", |stats| stats.completed == 20).await;
        let sent = || proxy.calls().iter().filter(|call| *call == "return_many").count();
        if !prepared {
            assert!(sent() >= 20, "{}", sent());
            serving.stop().await;
            continue;
        }
        assert!((1..5).contains(&sent()), "{}", sent());
        // another client of the pooler has it all
        proxy.seen.forget.store(true, Ordering::SeqCst);
        client.submit_many(NewTasks::new(&queue, 0..20)).await.unwrap();
        serving.until("all have run", |stats| stats.completed == 40).await;
        let stats = serving.stop().await;
        assert_eq!((stats.completed, stats.lost, stats.retried), (40, 0, 0));
    }
}
