//! What a handler gets, how it ends, and what becomes of the task then.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use scylla_pg::{
    Cause, Handler, HandlerError, NewTask, NewTasks, OnConflict, Spec, Status, Task, Worker,
    serde_json::{Value, json, value::RawValue},
    uuid::Uuid,
};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, Semaphore};

use crate::server::{millis, queue, serve, shared, until, worker};

const SOON: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_gets_what_was_submitted() {
    let (queue, client) = (queue(), shared().client());
    let seen = Arc::new(Mutex::new(None));
    let look = seen.clone();
    let serving = serve(worker(&queue).handler("look", move |task: Task<Value>| {
        *look.lock().unwrap() = Some(task);
        async { Ok::<_, HandlerError>(42) }
    }));
    let task = NewTask::new(&queue, json!({"n": 41}))
        .action("look")
        .key("k")
        .group_key("g")
        .priority(3)
        .max_tries(4)
        .meta("a", "b")
        .lease(Duration::from_secs(30))
        .post_result();
    let id = client.submit(task).await.unwrap();
    assert_eq!(client.result::<i32>(id, SOON).await.unwrap(), 42);
    let task = seen.lock().unwrap().take().unwrap();
    assert_eq!((task.id, task.queue.as_str(), task.action.as_str()), (id, queue.as_str(), "look"));
    assert_eq!(
        (task.key.as_deref(), task.group_key.as_deref(), task.priority),
        (Some("k"), Some("g"), 3)
    );
    assert_eq!(
        (task.tries, task.max_tries, task.num_failures, task.is_last_try()),
        (1, 4, 0, false)
    );
    assert_eq!((&task.spec, &task.meta["a"]), (&json!({"n": 41}), &json!("b")));
    let length = task.deadline().unwrap().duration_since(task.created).unwrap();
    assert!(length > Duration::from_secs(29) && length < Duration::from_secs(60), "{length:?}");
    assert_eq!((task.cause(), serving.stop().await.completed), (None, 1));
}

#[derive(Serialize, Deserialize)]
struct Order {
    number: i128,
    #[serde(default)]
    tags: Vec<String>,
}

impl Spec for Order {
    const QUEUE: &'static str = "typed-orders";
    const ACTION: &'static str = "ship";
}

struct Shop {
    shipped: Arc<AtomicUsize>,
}

impl Handler<Order> for Shop {
    type Output = String;
    type Error = std::num::TryFromIntError;

    async fn handle(&self, task: Task<Order>) -> Result<String, Self::Error> {
        self.shipped.fetch_add(1, Ordering::SeqCst);
        Ok(format!("{}{}", u8::try_from(task.spec.number)?, task.spec.tags.join("")))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_says_where_its_tasks_go_and_is_a_handler() {
    let client = shared().client();
    let shipped = Arc::<AtomicUsize>::default();
    let builder = Worker::builder(shared().connector()).grace(Duration::ZERO);
    let serving = serve(builder.register(Shop { shipped: shipped.clone() }));
    let order = NewTask::from(Order { number: 7, tags: vec!["a".into()] }).post_result();
    let id = client.submit(order).await.unwrap();
    assert_eq!(client.result::<String>(id, SOON).await.unwrap(), "7a");
    let big = Order { number: i128::from(u64::MAX) * 1_000_000, tags: vec![] };
    let id = client.submit(NewTask::from(big).max_tries(1).post_result()).await.unwrap();
    let error = client.result::<Value>(id, SOON).await.unwrap_err();
    assert!(error.to_string().contains("out of range"), "{error}");
    assert_eq!(shipped.load(Ordering::SeqCst), 2);
    serving.stop().await;
}

async fn nothing(_: Task<Value>) -> Result<(), HandlerError> {
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn results_of_any_kind() {
    let (queue, client) = (queue(), shared().client());
    let captured = String::from("captured");
    let serving = serve(
        worker(&queue)
            .handler("function", nothing)
            .handler("closure", async |task: Task<(i64, String)>| Ok::<_, HandlerError>(task.spec))
            .handler("capturing", move |_: Task<Value>| {
                let captured = captured.clone();
                async move { Ok::<_, HandlerError>(captured) }
            })
            .handler("raw", async |task: Task| Ok::<Box<RawValue>, HandlerError>(task.spec))
            .handler("other error", async |task: Task<String>| task.spec.parse::<f64>()),
    );
    let cases = [
        ("function", json!({}), json!(null)),
        (
            "closure",
            json!([i64::MAX, "\u{1F991}\\\"'{},NULL"]),
            json!([i64::MAX, "\u{1F991}\\\"'{},NULL"]),
        ),
        ("capturing", json!(null), json!("captured")),
        ("raw", json!([1.5, [], {}, "", false]), json!([1.5, [], {}, "", false])),
        ("other error", json!("1.5"), json!(1.5)),
    ];
    for (action, spec, result) in cases {
        let spec = if spec.is_null() { json!({}) } else { spec };
        let id =
            client.submit(NewTask::new(&queue, spec).action(action).post_result()).await.unwrap();
        assert_eq!(client.result::<Value>(id, SOON).await.unwrap(), result, "{action}");
        assert_eq!(client.task(id).await.unwrap().result, result, "{action}");
    }
    assert_eq!(serving.stop().await.completed, 5);
}

#[derive(Debug)]
struct NoSuchCustomer(std::num::ParseIntError);

impl fmt::Display for NoSuchCustomer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no such customer \0")
    }
}

impl std::error::Error for NoSuchCustomer {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_is_a_retry_with_its_sources_then_tries_are_exhausted() {
    let (queue, client) = (queue(), shared().client());
    let serving = serve(worker(&queue).fallback(async |_: Task<Value>| {
        "x".parse::<i32>().map_err(NoSuchCustomer)?;
        Ok::<_, HandlerError>(())
    }));
    let task = NewTask::new(&queue, 1).max_tries(2).retry_interval(millis(50)).post_result();
    let id = client.submit(task).await.unwrap();
    let error = client.result::<()>(id, SOON).await.unwrap_err();
    assert!(error.to_string().contains("aborted: no such customer"), "{error}");
    let entry = client.task(id).await.unwrap();
    let codes: Vec<_> = entry.errors.iter().map(|error| error.code.as_str()).collect();
    assert_eq!(codes[2], "tries_exhausted");
    assert!(codes[..2].iter().all(|code| code.ends_with("handlers::NoSuchCustomer")), "{codes:?}");
    assert_eq!(entry.errors[0].description, "no such customer \u{fffd}");
    assert!(entry.errors[0].args["traceback"].as_str().unwrap().contains("invalid digit"));
    let stats = serving.stop().await;
    assert_eq!((stats.retried, stats.aborted, stats.owned), (1, 1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_a_retry_and_the_worker_goes_on() {
    let (queue, client) = (queue(), shared().client());
    let serving = serve(worker(&queue).concurrency(1).fallback(async |task: Task<i32>| {
        match task.spec {
            0 => panic!("the roof is on fire"),
            1 => panic!("number {}", task.spec),
            _ => {}
        }
        Ok::<_, HandlerError>(())
    }));
    for (spec, text) in [(0, "the roof is on fire"), (1, "number 1")] {
        let id =
            client.submit(NewTask::new(&queue, spec).max_tries(1).post_result()).await.unwrap();
        client.result::<()>(id, SOON).await.unwrap_err();
        let errors = client.task(id).await.unwrap().errors;
        assert_eq!((errors[0].code.as_str(), errors[0].description.as_str()), ("panic", text));
    }
    let id = client.submit(NewTask::new(&queue, 2).post_result()).await.unwrap();
    client.result::<()>(id, SOON).await.unwrap();
    serving.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_waits_as_the_server_says() {
    let (queue, client) = (queue(), shared().client());
    let begun = Arc::new(Mutex::new(vec![]));
    let noting = begun.clone();
    let serving =
        serve(worker(&queue).fallback(move |task: Task<Value>| {
            noting.lock().unwrap().push(Instant::now());
            async move {
                if task.tries == 1 { Err(HandlerError::retry("not yet")) } else { Ok(task.tries) }
            }
        }));
    let task = NewTask::new(&queue, 1).retry_interval("300 milliseconds").post_result();
    let id = client.submit(task).await.unwrap();
    assert_eq!(client.result::<i32>(id, SOON).await.unwrap(), 2);
    let begun = begun.lock().unwrap().clone();
    assert!(begun[1] - begun[0] >= millis(280), "{:?}", begun[1] - begun[0]);
    serving.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn abort_is_final() {
    let (queue, client) = (queue(), shared().client());
    let serving = serve(worker(&queue).fallback(async |_: Task<Value>| {
        Err::<(), _>(
            HandlerError::abort("bad_address", "no such street").with("street", "High Street"),
        )
    }));
    let id = client.submit(NewTask::new(&queue, 1).post_result()).await.unwrap();
    client.result::<()>(id, SOON).await.unwrap_err();
    let entry = client.task(id).await.unwrap();
    assert_eq!((entry.status, entry.tries, entry.errors.len()), (Status::Aborted, 1, 1));
    assert_eq!(entry.errors[0].code, "bad_address");
    assert_eq!(entry.errors[0].args["street"], "High Street");
    assert_eq!(serving.stop().await.aborted, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn snooze_comes_back_later_and_counts_no_try() {
    let (queue, client) = (queue(), shared().client());
    let tries = Arc::new(Mutex::new(vec![]));
    let noting = tries.clone();
    let serving = serve(worker(&queue).fallback(move |task: Task<Value>| {
        let mut tries = noting.lock().unwrap();
        tries.push(task.tries);
        let end = match tries.len() {
            1 => Err(HandlerError::snooze(millis(150))),
            2 => Err(HandlerError::snooze(SystemTime::now() + millis(150))),
            _ => Ok(()),
        };
        async { end }
    }));
    let begun = Instant::now();
    let id = client.submit(NewTask::new(&queue, 1).max_tries(1).post_result()).await.unwrap();
    client.result::<()>(id, SOON).await.unwrap();
    assert!(begun.elapsed() >= millis(290), "{:?}", begun.elapsed());
    assert_eq!(*tries.lock().unwrap(), [1, 1, 1]);
    let stats = serving.stop().await;
    assert_eq!((stats.yielded, stats.completed), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_or_stored_fails_its_own_task_alone() {
    let (queue, client) = (queue(), shared().client());
    let go = Arc::new(Notify::new());
    let gate = go.clone();
    let serving = serve(
        worker(&queue)
            .handler("typed", async |task: Task<u8>| Ok::<_, HandlerError>(task.spec))
            .handler("nul", async |_: Task<Value>| Ok::<_, HandlerError>("a\0b"))
            .handler("huge", async |_: Task<Value>| Ok::<_, HandlerError>("x".repeat(2_000_000)))
            .handler("no json", async |_: Task<Value>| {
                Ok::<_, HandlerError>(BTreeMap::from([((1, 2), 3)]))
            })
            .handler("args", async |_: Task<Value>| {
                Err::<(), _>(
                    HandlerError::abort("a", "b")
                        .with("nul", "\0")
                        .with("none", BTreeMap::from([((1, 2), 3)])),
                )
            })
            .handler("for ever", async |_: Task<Value>| {
                Err::<(), _>(HandlerError::snooze(std::time::Duration::MAX))
            })
            .handler("good", move |_: Task<Value>| {
                let gate = gate.clone();
                async move {
                    gate.notified().await;
                    Ok::<_, HandlerError>("good")
                }
            }),
    );
    let submit = async |action: &str| {
        client
            .submit(NewTask::new(&queue, 256).action(action).max_tries(1).post_result())
            .await
            .unwrap()
    };
    let good = submit("good").await;
    let mut bad = vec![];
    for (action, code) in [
        ("typed", "invalid_spec"),
        ("nul", "invalid_result"),
        ("huge", "invalid_result"),
        ("no json", "invalid_result"),
        ("args", "a"),
        ("for ever", "invalid_snooze"),
    ] {
        bad.push((submit(action).await, code));
    }
    serving.until("the good one is left", |stats| stats.aborted >= 4).await;
    go.notify_one();
    assert_eq!(client.result::<String>(good, SOON).await.unwrap(), "good");
    for (id, code) in bad {
        client.result::<()>(id, SOON).await.unwrap_err();
        let entry = client.task(id).await.unwrap();
        assert_eq!((entry.status, entry.errors[0].code.as_str()), (Status::Aborted, code));
    }
    serving.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_without_a_handler_is_not_owned_unless_there_is_a_fallback() {
    let (queue, client) = (queue(), shared().client());
    let other = client.submit(NewTask::new(&queue, 1).action("other").post_result()).await.unwrap();
    let known = NewTask::new(&queue, 1).action("known").post_result();
    let serving = serve(worker(&queue).handler("known", nothing));
    let id = client.submit(known).await.unwrap();
    client.result::<()>(id, SOON).await.unwrap();
    let entry = client.task(other).await.unwrap();
    assert_eq!((entry.status, entry.tries), (Status::Ready, 0));
    assert_eq!(serving.stop().await.owned, 1);
    let any = async |task: Task<Value>| Ok::<_, HandlerError>(task.action.clone());
    let serving = serve(worker(&queue).handler("known", nothing).fallback(any));
    assert_eq!(client.result::<String>(other, SOON).await.unwrap(), "other");
    serving.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn by_priority_then_by_age() {
    let (queue, client) = (queue(), shared().client());
    for (n, priority) in [0, 5, 0, 9].into_iter().enumerate() {
        client.submit(NewTask::new(&queue, n).priority(priority)).await.unwrap();
    }
    let order = Arc::new(Mutex::new(vec![]));
    let noting = order.clone();
    let serving = serve(worker(&queue).concurrency(1).fallback(move |task: Task<usize>| {
        noting.lock().unwrap().push(task.spec);
        async { Ok::<_, HandlerError>(()) }
    }));
    serving.until("all have run", |stats| stats.completed == 4).await;
    assert_eq!(*order.lock().unwrap(), [3, 1, 0, 2]);
    serving.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_concurrency_is_reached_and_never_exceeded() {
    let (queue, client) = (queue(), shared().client());
    client.submit_many(NewTasks::new(&queue, 0..600)).await.unwrap();
    let (now, most) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let counts = (now.clone(), most.clone());
    let serving = serve(worker(&queue).concurrency(7).fallback(move |task: Task<u64>| {
        let (now, most) = counts.clone();
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(millis(task.spec % 5)).await;
            now.fetch_sub(1, Ordering::SeqCst);
            Ok::<_, HandlerError>(())
        }
    }));
    until("all have run", async || (serving.stats().completed == 600).then_some(())).await;
    assert_eq!(most.load(Ordering::SeqCst), 7);
    assert_eq!(shared().most_leases(&queue).await, 7);
    assert_eq!(serving.stop().await.owned, 600);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_prefetch_more_are_owned_and_not_more_run() {
    let (queue, client) = (queue(), shared().client());
    client.submit_many(NewTasks::new(&queue, 0..6)).await.unwrap();
    let (go, begun) = (Arc::new(Semaphore::new(0)), Arc::<AtomicUsize>::default());
    let shared_state = (go.clone(), begun.clone());
    let serving = serve(worker(&queue).grace(SOON).concurrency(2).prefetch(3).fallback(
        move |_: Task<u64>| {
            let (go, begun) = shared_state.clone();
            async move {
                begun.fetch_add(1, Ordering::SeqCst);
                let _permit = go.acquire().await;
                Ok::<_, HandlerError>(())
            }
        },
    ));
    serving.until("five are owned", |stats| stats.owned == 5).await;
    until("two run", async || (begun.load(Ordering::SeqCst) == 2).then_some(())).await;
    assert_eq!(shared().with_status(&queue, "ready").await, 1);
    // the worker stops: what has not begun goes back
    serving.handle.stop();
    until("four are back", async || {
        (shared().with_status(&queue, "ready").await == 4).then_some(())
    })
    .await;
    go.close();
    let stats = serving.stop().await;
    assert_eq!(begun.load(Ordering::SeqCst), 2);
    assert_eq!(stats.yielded + stats.completed, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_queues_are_served_the_first_ones_first() {
    let client = shared().client();
    let queues: Vec<_> = (0..16).map(|_| queue()).collect();
    for queue in queues.iter().rev() {
        client.submit(NewTask::new(queue, 1)).await.unwrap();
    }
    let order = Arc::new(Mutex::new(vec![]));
    let noting = order.clone();
    let builder = queues
        .iter()
        .fold(worker(&queues[0]).concurrency(1), |builder, queue| builder.queue(queue));
    let serving = serve(builder.fallback(move |task: Task<i32>| {
        noting.lock().unwrap().push(task.queue.clone());
        async { Ok::<_, HandlerError>(()) }
    }));
    serving.until("all have run", |stats| stats.completed == 16).await;
    assert_eq!(*order.lock().unwrap(), queues);
    client.submit(NewTask::new(&queues[9], 1)).await.unwrap();
    serving.until("one more has run", |stats| stats.completed == 17).await;
    assert_eq!(order.lock().unwrap()[16], queues[9]);
    serving.stop().await;
}

#[tokio::test]
async fn a_worker_that_could_do_nothing_is_refused() {
    let builder = || Worker::builder(shared().connector());
    let seventeen = (0..17).fold(builder(), |builder, n| builder.queue(format!("q{n}")));
    for (builder, why) in [
        (builder().fallback(nothing), "1 to 16 queues"),
        (seventeen.fallback(nothing), "1 to 16 queues"),
        (builder().queue("q"), "needs a handler"),
        (builder().queue("q").fallback(nothing).concurrency(0), "at least 1"),
    ] {
        assert!(builder.build().unwrap_err().to_string().contains(why));
    }
    let named = builder().queue("q").queue("q").fallback(nothing).build().unwrap();
    assert_eq!(named.handle().name().matches(':').count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_of_one_at_a_time_keeps_its_order() {
    let (queue, client) = (queue(), shared().client());
    shared()
        .execute("select scylla.configure_queue($1, max_running_per_group => 1)", &[&queue])
        .await;
    let groups = (0..40).map(|n| Some(format!("g{}", n % 4)));
    client.submit_many(NewTasks::new(&queue, 0..40_u64).group_keys(groups)).await.unwrap();
    let order = Arc::new(Mutex::new(vec![]));
    let noting = order.clone();
    let serving = serve(worker(&queue).concurrency(8).fallback(move |task: Task<u64>| {
        let noting = noting.clone();
        async move {
            tokio::time::sleep(millis(task.spec % 3)).await;
            noting.lock().unwrap().push(task.spec);
            Ok::<_, HandlerError>(())
        }
    }));
    serving.until("all have run", |stats| stats.completed == 40).await;
    let order = order.lock().unwrap().clone();
    for group in 0..4 {
        let of_group: Vec<_> = order.iter().copied().filter(|n| n % 4 == group).collect();
        assert!(of_group.is_sorted() && of_group.len() == 10, "{of_group:?}");
    }
    serving.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_limit_stops_a_handler_and_is_a_retry() {
    let (queue, client) = (queue(), shared().client());
    let heard = Arc::new(Mutex::new(vec![]));
    let hearing = heard.clone();
    let serving = serve(
        worker(&queue)
            .time_limit(millis(100))
            .time_limit_of("long", SOON)
            .handler("dropped", async |_: Task<Value>| {
                tokio::time::sleep(SOON).await;
                Ok::<_, HandlerError>("too late")
            })
            .handler("listens", move |task: Task<Value>| {
                let hearing = hearing.clone();
                async move {
                    let cause = task.stopped().await;
                    hearing.lock().unwrap().push(cause);
                    Err::<(), HandlerError>(cause.into())
                }
            })
            .handler("partly", async |task: Task<Value>| {
                task.stopped().await;
                Ok::<_, HandlerError>("partly")
            })
            .handler("deaf", async |task: Task<Value>| {
                let _heard = task.stopped();
                std::future::pending::<()>().await;
                Ok::<_, HandlerError>(())
            })
            .handler("long", async |_: Task<Value>| {
                tokio::time::sleep(millis(400)).await;
                Ok::<_, HandlerError>("long")
            }),
    );
    let submit = async |action: &str| -> Uuid {
        client
            .submit(NewTask::new(&queue, 1).action(action).max_tries(1).post_result())
            .await
            .unwrap()
    };
    let begun = Instant::now();
    let ids = [submit("dropped").await, submit("listens").await, submit("deaf").await];
    let partly = submit("partly").await;
    let long = submit("long").await;
    assert_eq!(client.result::<String>(partly, SOON).await.unwrap(), "partly");
    assert_eq!(client.result::<String>(long, SOON).await.unwrap(), "long");
    for (n, id) in ids.into_iter().enumerate() {
        client.result::<()>(id, SOON).await.unwrap_err();
        let took = begun.elapsed();
        // one that has asked and does not end is dropped three seconds later
        assert!(if n == 2 { took >= millis(3_000) } else { took < millis(2_500) }, "{n}: {took:?}");
        let errors = client.task(id).await.unwrap().errors;
        assert_eq!(
            (errors[0].code.as_str(), errors[0].description.as_str()),
            ("time_limit", "the time limit is over")
        );
    }
    assert_eq!(*heard.lock().unwrap(), [Cause::TimeLimit]);
    serving.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_goes_with_the_heartbeat() {
    let (queue, client) = (queue(), shared().client());
    let go = Arc::new(Notify::new());
    let gate = go.clone();
    let serving = serve(worker(&queue).lease(millis(600)).fallback(move |task: Task<Value>| {
        let gate = gate.clone();
        async move {
            task.progress(f64::NAN);
            task.progress(0.5);
            gate.notified().await;
            task.progress(7.0);
            gate.notified().await;
            Err::<(), _>(HandlerError::snooze(SOON))
        }
    }));
    let id = client.submit(NewTask::new(&queue, 1)).await.unwrap();
    for progress in [0.5, 1.0] {
        until("progress is seen", async || {
            (client.task(id).await.unwrap().progress == progress).then_some(())
        })
        .await;
        go.notify_one();
    }
    serving.until("it has ended", |stats| stats.yielded == 1).await;
    serving.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_free_when_its_task_has_settled() {
    let (queue, client) = (queue(), shared().client());
    let task = || NewTask::new(&queue, 1).key("k").on_conflict(OnConflict::Ignore).post_result();
    let id = client.submit(task()).await.unwrap();
    assert_eq!(client.submit(task()).await.unwrap(), id);
    let serving = serve(worker(&queue).fallback(nothing));
    client.result::<()>(id, SOON).await.unwrap();
    assert_ne!(client.submit(task()).await.unwrap(), id);
    serving.stop().await;
}
