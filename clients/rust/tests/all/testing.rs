//! `scylla_pg::testing` itself.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use scylla_pg::{
    Client, Connector, Error, HandlerError, NewTask, NewTasks, Status, Task,
    serde_json::{Value, json},
    testing::{Expected, Recorder, assert_submitted, run_ready, submitted},
    uuid::Uuid,
};
use sqlx::{Connection, PgConnection};

use crate::server::{queue, shared, worker};

#[tokio::test]
async fn a_recorder_sends_nothing() {
    let recorder = Recorder::default();
    let nowhere: Connector = "host=127.0.0.1 port=1 user=x".parse().unwrap();
    let client = Client::connect(nowhere).layer(recorder.clone());
    let given = Uuid::now_v7();
    let task = NewTask::new("mail", json!({"to": "ann", "n": 1}))
        .action("welcome")
        .id(given)
        .key("k")
        .group_key("g");
    assert_eq!(client.submit(task).await.unwrap(), given);
    let ids = [Uuid::now_v7(), Uuid::now_v7()];
    assert_eq!(client.submit_many(NewTasks::new("mail", ["a", "b"]).ids(ids)).await.unwrap(), ids);
    assert_eq!(client.submit_many(NewTasks::new("mail", ["c", "d", "e"])).await.unwrap().len(), 3);
    let expected = Expected::in_queue("mail")
        .action("welcome")
        .key("k")
        .group_key("g")
        .spec(json!({"to": "ann"}));
    recorder.assert_submitted(&expected);
    recorder.assert_submitted(&Expected::default().spec("b"));
    for wrong in [
        Expected::in_queue("post"),
        expected.clone().action("goodbye"),
        expected.clone().key("other"),
        expected.clone().group_key("other"),
        expected.spec(json!({"to": "bob"})),
    ] {
        let failed =
            std::panic::catch_unwind(AssertUnwindSafe(|| recorder.assert_submitted(&wrong)));
        assert!(failed.is_err(), "{wrong:?}");
    }
    let no_json = NewTask::new("mail", std::collections::BTreeMap::from([((1, 2), 3)]));
    assert!(matches!(client.submit(no_json).await, Err(Error::Json(_))));
    assert_eq!(recorder.submissions().len(), 3);
    // the next layers are not called, and other calls are sent
    assert!(client.cancel(given).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_open_transaction_has_submitted_is_seen_in_it() {
    let (server, queue) = (shared(), queue());
    let client = server.client();
    let mut connection = PgConnection::connect(&server.url()).await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    let id = client
        .in_tx(&mut tx)
        .submit(NewTask::new(&queue, json!({"to": "ann", "n": 1})))
        .await
        .unwrap();
    let expected = Expected::in_queue(&queue).spec(json!({"to": "ann"}));
    let entry = assert_submitted(&mut tx, &expected).await.unwrap();
    assert_eq!((entry.id, entry.status, &entry.spec["n"]), (id, Status::Ready, &json!(1)));
    let wrong = Expected::in_queue(&queue).spec(json!({"to": "bob"}));
    let failed =
        AssertUnwindSafe(assert_submitted(&mut tx, &wrong)).catch_unwind().await.unwrap_err();
    let text = failed.downcast_ref::<String>().unwrap();
    assert!(text.contains("but these") && text.contains("ann"), "{text}");
    tx.rollback().await.unwrap();
    let outside = server.connect().await;
    assert!(submitted(&outside, &Expected::in_queue(&queue)).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_ready_runs_here_in_order() {
    let (queue, client) = (queue(), shared().client());
    let (follow_up, to) = (client.clone(), queue.clone());
    let builder = worker(&queue)
        .handler("welcome", move |task: Task<String>| {
            let (client, queue) = (follow_up.clone(), to.clone());
            async move {
                client.submit(NewTask::new(&queue, &task.spec).action("check")).await?;
                Ok::<_, HandlerError>(task.spec.to_uppercase())
            }
        })
        .handler("check", async |task: Task<String>| {
            if task.spec == "bob" {
                Err(HandlerError::abort("unknown", "who is that?"))
            } else {
                Ok(())
            }
        });
    let worker = builder.build().unwrap();
    assert!(run_ready(&worker).await.unwrap().is_empty());
    for name in ["ann", "bob"] {
        client.submit(NewTask::new(&queue, name).action("welcome")).await.unwrap();
    }
    let ran = run_ready(&worker).await.unwrap();
    let actions: Vec<_> = ran.iter().map(|it| it.task.action.as_str()).collect();
    assert_eq!(actions, ["welcome", "welcome", "check", "check"]);
    assert_eq!(ran[0].result.as_ref().unwrap().get(), "\"ANN\"");
    assert!(matches!(&ran[3].result, Err(HandlerError::Abort(error)) if error.code == "unknown"));
    assert_eq!(client.task(ran[0].task.id).await.unwrap().result, Value::from("ANN"));
    assert_eq!(client.task(ran[3].task.id).await.unwrap().status, Status::Aborted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_of_a_handler_fails_the_test() {
    let (queue, client) = (queue(), shared().client());
    let worker = worker(&queue).fallback(async |task: Task<i32>| {
        assert_eq!(task.spec, 2, "the spec");
        Ok::<_, HandlerError>(())
    });
    client.submit(NewTask::new(&queue, 1).max_tries(1)).await.unwrap();
    let failed =
        AssertUnwindSafe(run_ready(&worker.build().unwrap())).catch_unwind().await.unwrap_err();
    assert!(failed.downcast_ref::<String>().unwrap().contains("the spec"));
}
