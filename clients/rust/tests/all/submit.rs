//! Submitting, in transactions too; waiting, cancelling, asking.

use std::time::{Duration, Instant, SystemTime};

use scylla_pg::{
    Client, Error, HandlerError, NewTask, NewTasks, OnConflict, OnFailure, Status, SubmitOutcome,
    Task,
    deadpool_postgres::{Manager, Pool},
    serde_json::{Value, json},
    tokio_postgres::NoTls,
    uuid::Uuid,
};
use sqlx::{Connection, PgConnection};

use crate::server::{millis, queue, serve, shared, until, worker};

const SOON: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn in_a_transaction_of_tokio_postgres() {
    let (server, queue) = (shared(), queue());
    let client = server.client();
    let mut connection = server.connect().await;
    let tx = connection.transaction().await.unwrap();
    let id = client.in_tx(&tx).submit(NewTask::new(&queue, 1)).await.unwrap();
    assert_eq!(client.in_tx(&tx).task(id).await.unwrap().id, id);
    assert!(matches!(client.task(id).await, Err(error) if error.sqlstate() == Some("P0002")));
    tx.rollback().await.unwrap();
    let mut tx = connection.transaction().await.unwrap();
    let kept = client.in_tx(&tx).submit(NewTask::new(&queue, 2).key("k")).await.unwrap();
    let savepoint = tx.transaction().await.unwrap();
    client.in_tx(&savepoint).submit_many(NewTasks::new(&queue, [3, 4])).await.unwrap();
    savepoint.rollback().await.unwrap();
    assert_eq!(client.in_tx(&tx).task_id(&queue, "k").await.unwrap(), Some(kept));
    tx.commit().await.unwrap();
    let rows = server.execute("select id from scylla.tasks where queue = $1", &[&queue]).await;
    assert_eq!(rows.iter().map(|row| row.get::<_, Uuid>(0)).collect::<Vec<_>>(), [kept]);
    // without a transaction, on that connection
    let id = client.in_tx(&connection).submit(NewTask::new(&queue, 5)).await.unwrap();
    assert!(client.in_tx(&connection).cancel(id).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_transaction_of_deadpool() {
    let (server, queue) = (shared(), queue());
    let pool = Pool::builder(Manager::new(server.config(), NoTls)).max_size(2).build().unwrap();
    let client = Client::new(pool.clone());
    let mut connection = pool.get().await.unwrap();
    let tx = connection.transaction().await.unwrap();
    let first = client.in_tx(&tx).submit(NewTask::new(&queue, 1)).await.unwrap();
    let tasks = [NewTask::new(&queue, 2).after([first]), NewTask::new(&queue, 3)];
    let submitted = client.in_tx(&tx).submit_tasks(tasks, true).await.unwrap();
    assert_eq!(submitted.len(), 2);
    tx.commit().await.unwrap();
    assert_eq!(client.task(submitted[0].id.unwrap()).await.unwrap().status, Status::Waiting);
    let id = client.in_tx(&connection).submit(NewTask::new(&queue, 4)).await.unwrap();
    let cancelled = client.in_tx(&connection).cancel_many(&[id, Uuid::nil()]).await.unwrap();
    assert_eq!(cancelled, [Some(true), None]);
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_transaction_of_sqlx() {
    let (server, queue) = (shared(), queue());
    let client = server.client();
    let mut connection = PgConnection::connect(&server.url()).await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    sqlx::query("create temporary table orders (id uuid)").execute(&mut *tx).await.unwrap();
    let id =
        client.in_tx(&mut tx).submit(NewTask::new(&queue, json!({"n": 1})).key("k")).await.unwrap();
    sqlx::query("insert into orders values ($1::uuid)")
        .bind(id.to_string())
        .execute(&mut *tx)
        .await
        .unwrap();
    let ids = client.in_tx(&mut *tx).submit_many(NewTasks::new(&queue, [2, 3])).await.unwrap();
    assert!(matches!(client.task(id).await, Err(error) if error.sqlstate() == Some("P0002")));
    tx.commit().await.unwrap();
    assert_eq!(client.task(ids[1]).await.unwrap().spec, 3);
    let again =
        client.in_tx(&mut connection).submit(NewTask::new(&queue, 1).key("k")).await.unwrap_err();
    assert_eq!((again.sqlstate(), again.constraint()), (Some("23505"), Some("task_key")));
    assert!(again.to_string().contains("(SQLSTATE 23505)"), "{again}");
    assert!(client.in_tx(&mut connection).cancel(id).await.unwrap());
    let mut tx = connection.begin().await.unwrap();
    let id = client.in_tx(&mut tx).submit(NewTask::new(&queue, 4)).await.unwrap();
    assert_eq!(client.in_tx(&mut tx).delete(&[id]).await.unwrap(), 1);
    let id = client.in_tx(&mut tx).submit(NewTask::new(&queue, 5)).await.unwrap();
    assert!(client.in_tx(&mut tx).delay(id, SystemTime::now() + SOON).await.unwrap());
    tx.rollback().await.unwrap();
    assert!(client.task(id).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn each_argument_arrives() {
    let (server, queue, client) = (shared(), queue(), shared().client());
    let first = client.submit(NewTask::new(&queue, 0)).await.unwrap();
    let id = Uuid::now_v7();
    let at = SystemTime::now() + Duration::from_secs(3_600);
    let task = NewTask::new(&queue, "spec")
        .id(id)
        .action("overwritten")
        .action("a")
        .priority(u32::MAX)
        .key("k\"'\\")
        .on_conflict(OnConflict::Replace)
        .run_at(at)
        .after([first])
        .on_failure(OnFailure::Run)
        .max_tries(7)
        .retry_interval("2 days")
        .retry_jitter(millis(1_500))
        .lease(Duration::from_secs(90))
        .post_result()
        .group_key("g")
        .meta("tag", json!({"a": [1]}))
        .unique_for("1 month");
    let tasks =
        [task.clone(), task.id(Uuid::now_v7()).key("other").run_at(Duration::from_secs(3_600))];
    assert_eq!(client.submit(tasks[0].clone()).await.unwrap(), id);
    // the same through submit_tasks
    let submitted = client.submit_tasks([tasks[1].clone()], true).await.unwrap();
    for id in [id, submitted[0].id.unwrap()] {
        let entry = client.task(id).await.unwrap();
        assert_eq!(
            (entry.action.as_str(), entry.priority, &entry.spec),
            ("a", i64::from(u32::MAX), &json!("spec"))
        );
        assert_eq!(
            (entry.group_key.as_deref(), entry.max_tries, entry.after.as_slice()),
            (Some("g"), Some(7), &[first][..])
        );
        assert_eq!((entry.status, entry.meta), (Status::Waiting, json!({"tag": {"a": [1]}})));
        let row = &server
            .execute(
                "select extract(epoch from run_at)::float8, extract(epoch from retry_interval)::float8,
                    extract(epoch from retry_jitter)::float8, extract(epoch from timeout)::float8,
                    run_on_failure and post_result from scylla.task where id = $1",
                &[&id],
            )
            .await[0];
        let run_at: f64 = row.get(0);
        let wanted = at.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
        assert!((run_at - wanted).abs() < 30.0, "{run_at} {wanted}");
        assert_eq!(
            (row.get::<_, f64>(1), row.get::<_, f64>(2), row.get::<_, f64>(3)),
            (172_800.0, 1.5, 90.0)
        );
        assert!(row.get::<_, bool>(4));
    }
    assert_eq!(client.task(id).await.unwrap().key.as_deref(), Some("k\"'\\"));
    // a task that it comes after is cancelled: it runs nevertheless
    client.cancel(first).await.unwrap();
    assert_eq!(client.task(id).await.unwrap().num_failures, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_and_ids_that_are_taken() {
    let (queue, client) = (queue(), shared().client());
    let id = client.submit(NewTask::new(&queue, 1).key("k")).await.unwrap();
    let task = |what| NewTask::new(&queue, 2).key("k").on_conflict(what);
    let error = client.submit(task(OnConflict::Error)).await.unwrap_err();
    assert_eq!((error.sqlstate(), error.constraint()), (Some("23505"), Some("task_key")));
    assert_eq!(client.submit(task(OnConflict::Ignore)).await.unwrap(), id);
    let other = client.submit(task(OnConflict::Replace)).await.unwrap();
    assert_eq!(client.task(id).await.unwrap().status, Status::Cancelled);
    assert_eq!(client.task_id(&queue, "k").await.unwrap(), Some(other));
    assert_eq!(client.task_id(&queue, "none").await.unwrap(), None);
    let error = client.submit(NewTask::new(&queue, 3).id(other)).await.unwrap_err();
    assert_eq!((error.sqlstate(), error.constraint()), (Some("23505"), Some("task_pkey")));
    // submitted again after a lost answer: refused, not doubled
    let task = NewTask::new(&queue, 4).id(Uuid::now_v7());
    client.submit(task.clone()).await.unwrap();
    assert_eq!(client.submit(task).await.unwrap_err().constraint(), Some("task_pkey"));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_are_submitted_in_batches_all_or_nothing() {
    let (server, queue, client) = (shared(), queue(), shared().client());
    let ids: Vec<_> = (0..25_000).map(|_| Uuid::now_v7()).collect();
    let submitted = client
        .submit_many(NewTasks::new(&queue, 0..25_000).ids(ids.clone()).action("a"))
        .await
        .unwrap();
    assert_eq!(submitted, ids);
    assert_eq!(client.task(ids[24_999]).await.unwrap().spec, 24_999);
    let keys = (0..25_000).map(|n| Some(format!("{}", n.min(24_998))));
    let error = client.submit_many(NewTasks::new(&queue, 0..25_000).keys(keys)).await.unwrap_err();
    assert_eq!(error.sqlstate(), Some("23505"));
    assert_eq!(server.with_status(&queue, "ready").await, 25_000);
    assert!(client.submit_many(NewTasks::new(&queue, Vec::<i32>::new())).await.unwrap().is_empty());
    let error =
        client.submit_many(NewTasks::new(&queue, [1, 2]).keys([Some("one")])).await.unwrap_err();
    assert!(matches!(error, Error::Config(_)), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_that_come_after_one_another_and_their_outcomes() {
    let (queue, client) = (queue(), shared().client());
    let (first, second) = (Uuid::now_v7(), Uuid::now_v7());
    let tasks =
        [NewTask::new(&queue, 2).id(second).after([first]), NewTask::new(&queue, 1).id(first)];
    client.submit_tasks(tasks, true).await.unwrap();
    assert_eq!(client.task(second).await.unwrap().status, Status::Waiting);
    let tasks = || {
        [
            NewTask::new(&queue, 1).id(first),
            NewTask::new(&queue, Value::Null),
            NewTask::new(&queue, 3),
        ]
    };
    let outcomes: Vec<_> =
        client.submit_tasks(tasks(), false).await.unwrap().iter().map(|it| it.outcome).collect();
    assert_eq!(
        outcomes,
        [SubmitOutcome::Duplicate, SubmitOutcome::Invalid, SubmitOutcome::Inserted]
    );
    assert!(client.submit_tasks(tasks(), true).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn specs_of_any_kind() {
    let (queue, client) = (queue(), shared().client());
    let mut deep = json!(1);
    for _ in 0..100 {
        deep = json!([deep]);
    }
    for spec in [
        json!(i64::MIN),
        json!(u64::MAX),
        json!("\u{1F991}\\\"{},'"),
        deep,
        json!({"": [null, 1.5e300]}),
    ] {
        let id = client.submit(NewTask::new(&queue, &spec)).await.unwrap();
        assert_eq!(client.task(id).await.unwrap().spec, spec);
        let ids = client.submit_many(NewTasks::new(&queue, [&spec])).await.unwrap();
        assert_eq!(client.task(ids[0]).await.unwrap().spec, spec);
    }
    let refused = async |spec: Value| client.submit(NewTask::new(&queue, spec)).await.unwrap_err();
    assert_eq!(refused(json!("\0")).await.sqlstate(), Some("22P05"));
    assert_eq!(refused(json!(null)).await.sqlstate(), Some("22023"));
    assert_eq!(refused(json!("x".repeat(2_000_000))).await.sqlstate(), Some("54000"));
    let no_json = NewTask::new(&queue, std::collections::BTreeMap::from([((1, 2), 3)]));
    assert!(matches!(client.submit(no_json).await, Err(Error::Json(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_is_an_error_with_its_sqlstate() {
    let (server, queue, client) = (shared(), queue(), shared().client());
    server.execute("select scylla.configure_queue($1, max_ready => 2)", &[&queue]).await;
    client.submit_many(NewTasks::new(&queue, [1, 2])).await.unwrap();
    let error = client.submit(NewTask::new(&queue, 3)).await.unwrap_err();
    assert_eq!(error.sqlstate(), Some("53400"));
    let Error::Database(error) = error else { panic!("{error}") };
    assert!(!error.message().is_empty() && (error.detail().is_some() || error.hint().is_some()));
}

#[tokio::test(flavor = "multi_thread")]
async fn results_are_waited_for() {
    let (queue, client) = (queue(), shared().client());
    let task = || NewTask::new(&queue, 7).post_result();
    let id = client.submit(task()).await.unwrap();
    assert_eq!(client.wait(id, millis(50)).await.unwrap(), None);
    assert!(
        matches!(client.result::<i32>(id, millis(50)).await, Err(Error::NotSettled { id: it }) if it == id)
    );
    let cancelled = client.submit(task()).await.unwrap();
    client.cancel(cancelled).await.unwrap();
    assert!(matches!(client.result::<i32>(cancelled, SOON).await, Err(Error::Cancelled { .. })));
    let waiting = {
        let client = client.clone();
        tokio::spawn(async move { client.result::<i32>(id, SOON).await })
    };
    let double = async |task: Task<i32>| match task.spec {
        7 => Ok(14),
        _ => Err(HandlerError::abort("odd", "no number")),
    };
    let serving = serve(worker(&queue).fallback(double));
    assert_eq!(waiting.await.unwrap().unwrap(), 14);
    assert!(matches!(client.result::<String>(id, SOON).await, Err(Error::Json(_))));
    let aborted = client.submit(NewTask::new(&queue, 8).post_result()).await.unwrap();
    let error = client.result::<i32>(aborted, SOON).await.unwrap_err();
    assert!(matches!(&error, Error::Aborted { errors, .. } if errors[0].code == "odd"));
    assert!(error.to_string().ends_with("was aborted: no number"), "{error}");
    let unasked = client.submit(NewTask::new(&queue, 7)).await.unwrap();
    assert_eq!(client.wait(unasked, SOON).await.unwrap_err().sqlstate(), Some("55000"));
    serving.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_is_given_up_keeps_no_connection() {
    let (server, queue) = (shared(), queue());
    let pool = Pool::builder(Manager::new(server.config(), NoTls)).max_size(1).build().unwrap();
    let client = Client::new(pool);
    let id = client.submit(NewTask::new(&queue, 1).post_result()).await.unwrap();
    let waited = tokio::time::timeout(millis(100), client.wait(id, SOON)).await;
    assert!(waited.is_err());
    let begun = Instant::now();
    client.task(id).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_are_changed_and_asked_about() {
    let (queue, client) = (queue(), shared().client());
    let task = || NewTask::new(&queue, 1);
    let ids = [client.submit(task()).await.unwrap(), client.submit(task()).await.unwrap()];
    assert!(client.cancel(ids[0]).await.unwrap());
    assert!(!client.cancel(ids[0]).await.unwrap());
    assert_eq!(client.cancel(Uuid::nil()).await.unwrap_err().sqlstate(), Some("P0002"));
    assert_eq!(
        client.cancel_many(&[ids[1], ids[0], Uuid::nil()]).await.unwrap(),
        [Some(true), Some(false), None]
    );
    let resubmitted = client.resubmit(&[ids[0], Uuid::nil()]).await.unwrap();
    assert!(resubmitted[0].is_some() && resubmitted[1].is_none());
    let id = resubmitted[0].unwrap();
    assert!(client.delay(id, SystemTime::now() + Duration::from_secs(60)).await.unwrap());
    assert_eq!(client.task(id).await.unwrap().status, Status::Waiting);
    assert!(!client.why(id).await.unwrap().is_empty());
    assert_eq!(client.delete(&[id, ids[0], Uuid::nil()]).await.unwrap(), 2);
    client
        .submit_many(NewTasks::new(&queue, [1, 2, 3]).group_keys([Some("a"), Some("b"), Some("a")]))
        .await
        .unwrap();
    assert_eq!(client.cancel_group(&queue, "a").await.unwrap(), 2);
    assert!(!client.drain_worker("no worker has this name").await.unwrap());
    assert_eq!(client.about().await.unwrap()["protocol"], 1);
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_an_error_that_says_so() {
    let client = Client::connect(
        "host=127.0.0.1 port=1 user=x connect_timeout=2".parse::<scylla_pg::Connector>().unwrap(),
    );
    let error = client.about().await.unwrap_err();
    assert_eq!(error.sqlstate(), None);
    assert!(error.to_string().contains("refused"), "{error}");
    let error = "host=a port=nothing".parse::<scylla_pg::Connector>().unwrap_err();
    assert!(error.to_string().contains("port"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delay_is_by_the_servers_clock() {
    let (queue, client) = (queue(), shared().client());
    let id =
        client.submit(NewTask::new(&queue, 1).run_at(millis(300)).post_result()).await.unwrap();
    let begun = Instant::now();
    assert_eq!(client.task(id).await.unwrap().status, Status::Waiting);
    let serving = serve(worker(&queue).fallback(async |_: Task<i32>| Ok::<_, HandlerError>(())));
    client.result::<()>(id, SOON).await.unwrap();
    assert!(begun.elapsed() > millis(200), "{:?}", begun.elapsed());
    until("it is counted", async || (serving.stats().completed == 1).then_some(())).await;
    serving.stop().await;
}
