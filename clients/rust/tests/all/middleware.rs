//! Layers around submitting and handling, and OpenTelemetry as one.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use opentelemetry::{
    Context, KeyValue, global,
    metrics::MeterProvider as _,
    trace::{FutureExt, SpanId, Status, TraceContextExt, Tracer, TracerProvider},
};
use opentelemetry_sdk::{
    metrics::{
        InMemoryMetricExporter, SdkMeterProvider,
        data::{AggregatedMetrics, MetricData},
    },
    propagation::TraceContextPropagator,
    trace::{InMemorySpanExporter, SdkTracerProvider, SpanData},
};
use scylla_pg::{
    Client, HandlerError, HandlerService, NewTask, NewTasks, Submission, SubmitService, Task,
    serde_json::{Value, json},
    telemetry::Telemetry,
    tower::{ServiceExt, layer::layer_fn, service_fn},
};

use crate::server::{millis, queue, serve, shared, worker};

type Notes = Arc<Mutex<Vec<String>>>;

/// Notes around each submission, and adds to its `meta`.
fn noting(client: Client, name: &'static str, notes: &Notes) -> Client {
    let notes = notes.clone();
    client.layer(layer_fn(move |inner: SubmitService| {
        let notes = notes.clone();
        service_fn(move |mut submission: Submission| {
            let (inner, notes) = (inner.clone(), notes.clone());
            async move {
                notes.lock().unwrap().push(format!(
                    "{name} {} {}",
                    submission.action(),
                    submission.len()
                ));
                submission.meta_mut().insert(name.into(), json!(true));
                let ids = inner.oneshot(submission).await;
                notes
                    .lock()
                    .unwrap()
                    .push(format!("{name} {}", if ids.is_ok() { "ok" } else { "error" }));
                ids
            }
        })
    }))
}

#[tokio::test(flavor = "multi_thread")]
async fn layers_go_around_each_kind_of_submission() {
    let (server, queue, notes) = (shared(), queue(), Notes::default());
    let client = noting(noting(server.client(), "outer", &notes), "inner", &notes);
    let mut ids =
        vec![client.submit(NewTask::new(&queue, 1).action("one").key("k")).await.unwrap()];
    assert_eq!(*notes.lock().unwrap(), ["outer one 1", "inner one 1", "inner ok", "outer ok"]);
    ids.extend(client.submit_many(NewTasks::new(&queue, [1, 2]).action("many")).await.unwrap());
    let mut connection = server.connect().await;
    let tx = connection.transaction().await.unwrap();
    ids.push(client.in_tx(&tx).submit(NewTask::new(&queue, 1)).await.unwrap());
    tx.commit().await.unwrap();
    let tx = connection.transaction().await.unwrap();
    client.in_tx(&tx).submit(NewTask::new(&queue, 1)).await.unwrap();
    tx.rollback().await.unwrap();
    for id in ids {
        assert_eq!(client.task(id).await.unwrap().meta, json!({"inner": true, "outer": true}));
    }
    assert_eq!(server.with_status(&queue, "ready").await, 4);
    client.submit(NewTask::new(&queue, 1).key("k")).await.unwrap_err();
    let notes = notes.lock().unwrap();
    assert_eq!(notes[notes.len() - 2..], ["inner error", "outer error"]);
    assert!(notes.contains(&"inner many 2".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_layer_may_submit_again() {
    let (queue, client) = (queue(), shared().client());
    client.submit(NewTask::new(&queue, 1).key("k")).await.unwrap();
    let client = client.layer(layer_fn(|inner: SubmitService| {
        service_fn(move |submission: Submission| {
            let inner = inner.clone();
            async move {
                let first = inner.clone().oneshot(submission.clone()).await;
                assert_eq!(first.unwrap_err().constraint(), Some("task_key"));
                inner.oneshot(submission).await
            }
        })
    }));
    let error = client.submit(NewTask::new(&queue, 2).key("k")).await.unwrap_err();
    assert_eq!(error.constraint(), Some("task_key"));
}

#[tokio::test(flavor = "multi_thread")]
async fn layers_go_around_handlers_and_hear_their_errors() {
    let (queue, client, notes) = (queue(), shared().client(), Notes::default());
    let layer = |name: &'static str| {
        let notes = notes.clone();
        layer_fn(move |inner: HandlerService| {
            let notes = notes.clone();
            service_fn(move |task: Task| {
                let (inner, notes) = (inner.clone(), notes.clone());
                async move {
                    notes.lock().unwrap().push(format!("{name} {}", task.action));
                    let result = inner.oneshot(task).await;
                    let end = match &result {
                        Ok(value) => value.to_string(),
                        Err(error) => error.to_string(),
                    };
                    notes.lock().unwrap().push(format!("{name} {end}"));
                    result
                }
            })
        })
    };
    let serving = serve(
        worker(&queue)
            .concurrency(1)
            .layer(layer("outer"))
            .handler("ok", async |task: Task<Value>| Ok::<_, HandlerError>(task.spec))
            .layer(layer("inner"))
            .fallback(async |_: Task<Value>| Err::<(), _>(HandlerError::abort("no", ""))),
    );
    client.submit(NewTask::new(&queue, 7).action("ok")).await.unwrap();
    serving.until("it has run", |stats| stats.completed == 1).await;
    client.submit(NewTask::new(&queue, 7).action("bad")).await.unwrap();
    serving.until("it has run", |stats| stats.aborted == 1).await;
    assert_eq!(
        *notes.lock().unwrap(),
        [
            "outer ok",
            "inner ok",
            "inner 7",
            "outer 7",
            "outer bad",
            "inner bad",
            "inner no",
            "outer no"
        ]
    );
    serving.stop().await;
}

struct Observed {
    spans: InMemorySpanExporter,
    metrics: InMemoryMetricExporter,
    tracers: SdkTracerProvider,
    meters: SdkMeterProvider,
    telemetry: Telemetry,
}

impl Observed {
    fn new() -> Self {
        global::set_text_map_propagator(TraceContextPropagator::new());
        let (spans, metrics) = (InMemorySpanExporter::default(), InMemoryMetricExporter::default());
        let tracers = SdkTracerProvider::builder().with_simple_exporter(spans.clone()).build();
        let meters = SdkMeterProvider::builder().with_periodic_exporter(metrics.clone()).build();
        let telemetry = Telemetry::new(tracers.tracer("test"), &meters.meter("test"));
        Self { spans, metrics, tracers, meters, telemetry }
    }

    fn named(&self, name: &str) -> Vec<SpanData> {
        let spans = self.spans.get_finished_spans().unwrap();
        spans.into_iter().filter(|span| span.name == name).collect()
    }

    /// The attribute `error.type` and the number of measurements, of each point of a metric.
    fn points(&self, name: &str) -> Vec<(Option<String>, u64)> {
        self.meters.force_flush().unwrap();
        let finished = self.metrics.get_finished_metrics().unwrap();
        let scopes = finished.last().unwrap().scope_metrics().flat_map(|scope| scope.metrics());
        let metric = scopes.into_iter().find(|metric| metric.name() == name).unwrap();
        let kind = |mut attributes: Box<dyn Iterator<Item = &KeyValue> + '_>| {
            attributes
                .by_ref()
                .find(|it| it.key.as_str() == "error.type")
                .map(|it| it.value.to_string())
        };
        let mut points: Vec<_> = match metric.data() {
            AggregatedMetrics::U64(MetricData::Sum(sum)) => {
                sum.data_points().map(|it| (kind(Box::new(it.attributes())), it.value())).collect()
            }
            AggregatedMetrics::F64(MetricData::Histogram(histogram)) => histogram
                .data_points()
                .map(|it| (kind(Box::new(it.attributes())), it.count()))
                .collect(),
            _ => panic!("{name} is of another kind"),
        };
        points.sort();
        points
    }
}

fn attribute(span: &SpanData, name: &str) -> Option<String> {
    span.attributes.iter().find(|it| it.key.as_str() == name).map(|it| it.value.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_try_continues_the_trace_and_a_retry_links_to_it() {
    let (queue, observed) = (queue(), Observed::new());
    let client = shared().client().layer(observed.telemetry.clone());
    let tracer = Arc::new(observed.tracers.tracer("test"));
    let inner = tracer.clone();
    let serving =
        serve(worker(&queue).layer(observed.telemetry.clone()).fallback(move |task: Task<i32>| {
            let tracer = inner.clone();
            async move {
                drop(tracer.start("inner"));
                if task.tries < 2 {
                    Err(HandlerError::retry("first").code("not_yet"))
                } else {
                    Ok(())
                }
            }
        }));
    let request = Context::current_with_span(tracer.start("request"));
    let task = NewTask::new(&queue, 1).retry_interval(millis(10)).meta("mine", 1);
    let id = client.submit(task).with_context(request.clone()).await.unwrap();
    assert_eq!(client.task(id).await.unwrap().meta["mine"], 1);
    serving.until("it has run twice", |stats| stats.completed == 1).await;
    let trace = request.span().span_context().trace_id();
    let (send, process, inner) = (
        observed.named(&format!("send {queue}")),
        observed.named(&format!("process {queue}")),
        observed.named("inner"),
    );
    let [send] = &send[..] else { panic!("{send:?}") };
    let [first, second] = &process[..] else { panic!("{process:?}") };
    assert_eq!(
        (send.span_context.trace_id(), send.parent_span_id),
        (trace, request.span().span_context().span_id())
    );
    assert_eq!(
        (first.span_context.trace_id(), first.parent_span_id),
        (trace, send.span_context.span_id())
    );
    assert_ne!(second.span_context.trace_id(), trace);
    assert_eq!(second.parent_span_id, SpanId::INVALID);
    assert_eq!(second.links.links[0].span_context.span_id(), send.span_context.span_id());
    assert!(first.links.links.is_empty());
    let parents: Vec<_> = inner.iter().map(|span| span.parent_span_id).collect();
    assert_eq!(parents, [first.span_context.span_id(), second.span_context.span_id()]);
    assert_eq!(
        (attribute(first, "error.type"), first.status.clone()),
        (Some("not_yet".into()), Status::error("first"))
    );
    assert_eq!(attribute(second, "error.type"), None);
    for (span, operation) in [(send, "send"), (first, "process"), (second, "process")] {
        assert_eq!(attribute(span, "messaging.system").as_deref(), Some("scylla"));
        assert_eq!(attribute(span, "messaging.destination.name"), Some(queue.clone()));
        assert_eq!(attribute(span, "messaging.message.id"), Some(id.to_string()));
        assert_eq!(attribute(span, "messaging.operation.type").as_deref(), Some(operation));
    }
    serving.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_and_consumed_is_counted() {
    let (queue, observed) = (queue(), Observed::new());
    let client = shared().client().layer(observed.telemetry.clone());
    let serving =
        serve(worker(&queue).time_limit(millis(200)).layer(observed.telemetry.clone()).fallback(
            async |task: Task<i32>| match task.spec {
                1 => Err(HandlerError::abort("no_such_thing", "")),
                2 if task.meta.contains_key("late") => unreachable!(),
                2 => Err(HandlerError::snooze(Duration::from_secs(3_600))),
                3 => std::future::pending().await,
                _ => Ok(()),
            },
        ));
    client.submit_many(NewTasks::new(&queue, 0..6).max_tries(1)).await.unwrap();
    client.submit(NewTask::new(&queue, 0).key("k").lease("no interval")).await.unwrap_err();
    serving
        .until("all have run", |it| it.completed == 3 && it.aborted == 2 && it.yielded == 1)
        .await;
    let error = |kind: &str| Some(kind.to_string());
    assert_eq!(observed.points("messaging.client.sent.messages"), [(None, 6), (error("22007"), 1)]);
    assert_eq!(
        observed.points("messaging.client.operation.duration"),
        [(None, 1), (error("22007"), 1)]
    );
    let consumed = [(None, 4), (error("TimeLimit"), 1), (error("no_such_thing"), 1)];
    assert_eq!(observed.points("messaging.client.consumed.messages"), consumed);
    assert_eq!(observed.points("messaging.process.duration"), consumed);
    serving.stop().await;
}
