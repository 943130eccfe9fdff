//! Leases: kept, lost, cancelled.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use scylla_pg::{
    Cause, HandlerError, NewTask, NewTasks, Status, Task, Worker, WorkerBuilder, serde_json::Value,
};
use tokio::sync::Notify;

use crate::{
    processes::Program,
    server::{Server, millis, queue, serve, shared, until, worker},
};

const SOON: Duration = Duration::from_secs(20);

type Heard = Arc<Mutex<Vec<(Option<Cause>, Instant)>>>;

/// Handlers that note for which cause they are stopped, and when. One that is dropped knows none.
fn noting(builder: WorkerBuilder, heard: &Heard) -> WorkerBuilder {
    let (to_listen, to_sleep) = (heard.clone(), heard.clone());
    builder
        .handler("listen", move |task: Task<u64>| {
            let heard = to_listen.clone();
            async move {
                tokio::select! {
                    () = tokio::time::sleep(millis(task.spec)) => Ok::<_, HandlerError>("slept"),
                    cause = task.stopped() => {
                        heard.lock().unwrap().push((Some(cause), Instant::now()));
                        Err(cause.into())
                    }
                }
            }
        })
        .handler("sleep", move |task: Task<u64>| {
            let dropped = Dropped(Some(to_sleep.clone()));
            async move {
                let mut dropped = dropped;
                tokio::time::sleep(millis(task.spec)).await;
                dropped.0 = None;
                Ok::<_, HandlerError>("slept")
            }
        })
}

struct Dropped(Option<Heard>);

impl Drop for Dropped {
    fn drop(&mut self) {
        if let Some(heard) = self.0.take() {
            heard.lock().unwrap().push((None, Instant::now()));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_of_three_leases_is_kept() {
    let (queue, client, heard) = (queue(), shared().client(), Heard::default());
    // the other worker would take it at once
    let serving =
        [0, 1].map(|_| serve(noting(worker(&queue).lease(Duration::from_secs(1)), &heard)));
    let task = NewTask::new(&queue, 3_200).action("listen").post_result();
    let id = client.submit(task).await.unwrap();
    assert_eq!(client.result::<String>(id, SOON).await.unwrap(), "slept");
    let entry = client.task(id).await.unwrap();
    assert_eq!((entry.tries, entry.history.len()), (1, 1));
    assert!(heard.lock().unwrap().is_empty());
    for serving in serving {
        serving.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_lease_has_its_own_length() {
    let (queue, client, heard) = (queue(), shared().client(), Heard::default());
    let serving = [0, 1].map(|_| serve(noting(worker(&queue), &heard)));
    let mut ids = vec![];
    for lease in ["0.6 s", "1 minute", "200 years"] {
        let task = NewTask::new(&queue, 2_000).action("listen").lease(lease).post_result();
        ids.push(client.submit(task).await.unwrap());
    }
    for id in ids {
        assert_eq!(client.result::<String>(id, SOON).await.unwrap(), "slept");
        assert_eq!(client.task(id).await.unwrap().tries, 1);
    }
    assert!(heard.lock().unwrap().is_empty());
    for serving in serving {
        serving.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_is_heard_within_200_ms() {
    for (full, delete) in [(false, false), (false, true), (true, false), (true, true)] {
        let (queue, client, heard) = (queue(), shared().client(), Heard::default());
        let serving = serve(noting(worker(&queue).concurrency(if full { 2 } else { 5 }), &heard));
        let mut ids = vec![];
        for action in ["listen", "sleep"] {
            ids.push(client.submit(NewTask::new(&queue, 60_000).action(action)).await.unwrap());
        }
        serving.until("both run", |stats| stats.owned == 2).await;
        if full {
            // known to be there, so that the worker waits for signals only
            client.submit_many(NewTasks::new(&queue, [0, 0]).action("sleep")).await.unwrap();
            tokio::time::sleep(millis(300)).await;
        }
        for (n, id) in ids.iter().enumerate() {
            let before = Instant::now();
            if delete {
                assert_eq!(client.delete(&[*id]).await.unwrap(), 1);
            } else {
                assert!(client.cancel(*id).await.unwrap());
            }
            let (cause, at) =
                until("it is heard", async || heard.lock().unwrap().get(n).copied()).await;
            let took = at.duration_since(before);
            assert!(took < millis(200), "{took:?}, full {full}, delete {delete}");
            assert_eq!(cause, [Some(Cause::Cancelled), None][n]);
        }
        let more = if full { 2 } else { 0 };
        serving.until("all are counted", |it| it.cancelled == 2 && it.completed == more).await;
        serving.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_after_a_cancel_is_dropped() {
    let (queue, client) = (queue(), shared().client());
    let begun = Arc::new(Notify::new());
    let beginning = begun.clone();
    let serving = serve(worker(&queue).fallback(move |task: Task<Value>| {
        let stopped = task.stopped();
        beginning.notify_one();
        async move {
            stopped.await;
            Ok::<_, HandlerError>("too late")
        }
    }));
    let id = client.submit(NewTask::new(&queue, 1)).await.unwrap();
    begun.notified().await;
    client.cancel(id).await.unwrap();
    serving.until("it is counted", |stats| stats.cancelled == 1).await;
    let entry = client.task(id).await.unwrap();
    assert_eq!((entry.status, entry.result), (Status::Cancelled, Value::Null));
    assert_eq!(serving.stop().await.completed, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_process_loses_its_leases() {
    let (server, queue, client) = (shared(), queue(), shared().client());
    let options = ["lease=1", "concurrency=3"];
    let mut first = Program::start(&server, &queue, &options).await;
    let mut ids = vec![];
    // the last one ends when its process goes on, before it is told of anything
    for (action, seconds) in [("sleep", 5.0), ("listen", 5.0), ("block", 1.0)] {
        ids.push(client.submit(NewTask::new(&queue, seconds).action(action)).await.unwrap());
    }
    first.says_times("begin", 3).await;
    first.signal("STOP");
    let second = Program::start(&server, &queue, &options).await;
    second.says_times("begin", 3).await;
    first.signal("CONT");
    first.says("LeaseLost").await;
    first.says("dropped").await;
    until("all have completed", async || {
        (server.with_status(&queue, "completed").await == 3).then_some(())
    })
    .await;
    let name = second.name().await;
    for id in ids {
        let history = client.task(id).await.unwrap().history;
        let owners: Vec<_> = history
            .iter()
            .filter(|it| it["_typ"] == "TaskAssignment")
            .map(|it| &it["worker"])
            .collect();
        assert_eq!((owners.len(), owners[1].as_str()), (2, Some(name.as_str())));
    }
    first.signal("TERM");
    assert_eq!(
        first.ended().await,
        (Some(0), "exit completed=0 yielded=0 cancelled=0 lost=3".into())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_server_a_handler_is_stopped_before_its_lease_ends() {
    let (server, queue, heard) = (Server::own(&[]).await, queue(), Heard::default());
    let client = server.client();
    let lease = millis(1_500);
    let builder =
        Worker::builder(server.connector()).queue(&queue).grace(Duration::ZERO).lease(lease);
    let deaf = async |task: Task<u64>| {
        let _heard = task.stopped();
        std::future::pending::<()>().await;
        Ok::<_, HandlerError>(())
    };
    let dropped = heard.clone();
    let builder = builder.handler("deaf", move |task: Task<u64>| {
        let dropped = Dropped(Some(dropped.clone()));
        async move {
            let _dropped = dropped;
            deaf(task).await
        }
    });
    let serving = serve(noting(builder, &heard).call_timeout(Duration::from_secs(1)));
    for action in ["listen", "deaf"] {
        client.submit(NewTask::new(&queue, 60_000).action(action)).await.unwrap();
    }
    serving.until("both run", |stats| stats.owned == 2).await;
    tokio::time::sleep(millis(700)).await; // a heartbeat has come
    let frozen = server.freeze();
    let since = Instant::now();
    let heard = until("both are stopped", async || {
        let heard = heard.lock().unwrap().clone();
        (heard.len() == 2).then_some(heard)
    })
    .await;
    drop(frozen);
    // the last heartbeat was up to 0.37 leases ago; the fence is at 0.9, and at the lease's end the
    // deaf one is dropped
    let [(cause, fence), (none, end)] = heard[..] else { panic!("{heard:?}") };
    assert_eq!((cause, none), (Some(Cause::LeaseLost), None));
    let (fence, end) = (
        fence.duration_since(since).div_duration_f64(lease),
        end.duration_since(since).div_duration_f64(lease),
    );
    assert!((0.45..0.93).contains(&fence), "{fence}");
    assert!((0.05..0.2).contains(&(end - fence)), "{fence} {end}");
    serving.until("both are lost", |stats| stats.lost == 2).await;
    serving.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_workers_in_one_process_do_not_know_of_each_other() {
    let (queue, client) = (queue(), shared().client());
    client.submit_many(NewTasks::new(&queue, 0..300)).await.unwrap();
    let nap = async |_: Task<i32>| {
        tokio::time::sleep(millis(5)).await;
        Ok::<_, HandlerError>(())
    };
    let serving = [0, 1].map(|_| serve(worker(&queue).concurrency(4).fallback(nap)));
    until("all have completed", async || {
        (shared().with_status(&queue, "completed").await == 300).then_some(())
    })
    .await;
    let [first, second] = serving;
    assert_ne!(first.handle.name(), second.handle.name());
    let (first, second) = (first.stop().await.completed, second.stop().await.completed);
    assert!(first > 0 && second > 0 && first + second == 300, "{first} {second}");
}

#[tokio::test]
async fn a_handler_that_blocks_its_thread_keeps_its_lease() {
    // this test's runtime has one thread, which the handler takes
    let (queue, client) = (queue(), shared().client());
    let id = client.submit(NewTask::new(&queue, 1).post_result()).await.unwrap();
    let serving = serve(worker(&queue).lease(millis(600)).fallback(async |_: Task<Value>| {
        std::thread::sleep(millis(2_000));
        Ok::<_, HandlerError>("slept")
    }));
    assert_eq!(client.result::<String>(id, SOON).await.unwrap(), "slept");
    assert_eq!((client.task(id).await.unwrap().tries, serving.stop().await.lost), (1, 0));
}
