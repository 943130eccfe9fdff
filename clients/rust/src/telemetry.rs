//! Spans and metrics of OpenTelemetry, by its conventions for messaging.
//!
//! ```no_run
//! # use scylla_pg::{Client, Connector, HandlerError, Task, Worker, telemetry::Telemetry};
//! # fn run(connector: Connector) -> Result<(), scylla_pg::Error> {
//! let telemetry = Telemetry::global();
//! let client = Client::connect(connector.clone()).layer(telemetry.clone());
//! let worker = Worker::builder(connector)
//!     .queue("mail")
//!     .handler("welcome", async |_: Task<()>| Ok::<_, HandlerError>(()))
//!     .layer(telemetry)
//!     .build()?;
//! # Ok(())
//! # }
//! ```
//!
//! The spans are `send <queue>` and `process <queue>`. The first try of a task continues the trace
//! of its submission. A retry begins a trace of its own, with a link to that one. The context
//! travels in `meta`.
//!
//! The metrics are `messaging.client.sent.messages`, `messaging.client.consumed.messages`,
//! `messaging.client.operation.duration` and `messaging.process.duration`.

use std::{
    collections::HashMap,
    fmt,
    mem::replace,
    sync::Arc,
    task::{Context as Polling, Poll},
    time::Instant,
};

use futures_util::future::BoxFuture;
use opentelemetry::{
    Context, KeyValue,
    context::FutureExt,
    global::{self, BoxedTracer},
    metrics::{Counter, Histogram, Meter},
    trace::{Link, Span, SpanKind, Status, TraceContextExt, Tracer},
};
use serde_json::value::RawValue;
use tower::{Layer, Service};
use uuid::Uuid;

use crate::{
    error::Error,
    failure::HandlerError,
    submission::Submission,
    task::{Control, Task},
};

const NAME: &str = "scylla-pg";

/// A layer for clients and workers.
#[derive(Clone)]
pub struct Telemetry(Arc<Instruments>);

struct Instruments {
    tracer: BoxedTracer,
    sent: Counter<u64>,
    consumed: Counter<u64>,
    operation: Histogram<f64>,
    process: Histogram<f64>,
}

impl Telemetry {
    /// With the global providers of traces and metrics.
    ///
    /// For the trace to go on in the worker, set a propagator:
    /// `opentelemetry::global::set_text_map_propagator(TraceContextPropagator::new())`.
    pub fn global() -> Self {
        Self::new(global::tracer(NAME), &global::meter(NAME))
    }

    /// With a tracer and a meter of yours. The propagator is the global one.
    pub fn new<T>(tracer: T, meter: &Meter) -> Self
    where
        T: Tracer + Send + Sync + 'static,
        T::Span: Span + Send + Sync + 'static,
    {
        let counter = |name| meter.u64_counter(name).with_unit("{message}").build();
        let histogram = |name| meter.f64_histogram(name).with_unit("s").build();
        Self(Arc::new(Instruments {
            tracer: BoxedTracer::new(Box::new(tracer)),
            sent: counter("messaging.client.sent.messages"),
            consumed: counter("messaging.client.consumed.messages"),
            operation: histogram("messaging.client.operation.duration"),
            process: histogram("messaging.process.duration"),
        }))
    }
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Telemetry")
    }
}

impl<S> Layer<S> for Telemetry {
    type Service = Traced<S>;

    fn layer(&self, inner: S) -> Traced<S> {
        Traced { inner, instruments: self.0.clone() }
    }
}

/// A service with spans and metrics around it.
#[derive(Clone)]
pub struct Traced<S> {
    inner: S,
    instruments: Arc<Instruments>,
}

impl<S> fmt::Debug for Traced<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Traced")
    }
}

fn attributes(operation: &'static str, queue: &str) -> Vec<KeyValue> {
    vec![
        KeyValue::new("messaging.system", "scylla"),
        KeyValue::new("messaging.destination.name", queue.to_owned()),
        KeyValue::new("messaging.operation.name", operation),
        KeyValue::new("messaging.operation.type", operation),
    ]
}

impl<S> Service<Submission> for Traced<S>
where
    S: Service<Submission, Response = Vec<Uuid>, Error = Error> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Vec<Uuid>;
    type Error = Error;
    type Future = BoxFuture<'static, Result<Vec<Uuid>, Error>>;

    fn poll_ready(&mut self, polling: &mut Polling<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(polling)
    }

    fn call(&mut self, mut submission: Submission) -> Self::Future {
        let known = attributes("send", submission.queue());
        let mut told = known.clone();
        told.push(KeyValue::new("scylla.action", submission.action().to_owned()));
        if submission.is_many() {
            told.push(KeyValue::new("messaging.batch.message_count", submission.len() as i64));
        } else if let Some(id) = submission.id() {
            told.push(KeyValue::new("messaging.message.id", id.to_string()));
        }
        let span = self.instruments.tracer.span_builder(format!("send {}", submission.queue()));
        let span = span.with_kind(SpanKind::Producer).with_attributes(told);
        let context = Context::current_with_span(span.start(&self.instruments.tracer));
        let mut carrier = HashMap::new();
        global::get_text_map_propagator(|it| it.inject_context(&context, &mut carrier));
        submission.meta_mut().extend(carrier.into_iter().map(|(name, value)| (name, value.into())));

        let count = submission.len() as u64;
        let instruments = self.instruments.clone();
        let inner = self.inner.clone();
        let mut inner = replace(&mut self.inner, inner);
        let begun = Instant::now();
        Box::pin(async move {
            let answer = inner.call(submission).with_context(context.clone()).await;
            let mut known = known;
            if let Err(error) = &answer {
                let kind = error.sqlstate().unwrap_or("_OTHER").to_owned();
                context.span().set_attribute(KeyValue::new("error.type", kind.clone()));
                context.span().set_status(Status::error(error.to_string()));
                context.span().record_error(error);
                known.push(KeyValue::new("error.type", kind));
            }
            instruments.sent.add(count, &known);
            instruments.operation.record(begun.elapsed().as_secs_f64(), &known);
            context.span().end();
            answer
        })
    }
}

impl<S> Service<Task> for Traced<S>
where
    S: Service<Task, Response = Box<RawValue>, Error = HandlerError> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Box<RawValue>;
    type Error = HandlerError;
    type Future = BoxFuture<'static, Result<Box<RawValue>, HandlerError>>;

    fn poll_ready(&mut self, polling: &mut Polling<'_>) -> Poll<Result<(), HandlerError>> {
        self.inner.poll_ready(polling)
    }

    fn call(&mut self, task: Task) -> Self::Future {
        let known = attributes("process", &task.queue);
        let carrier: HashMap<String, String> = task
            .meta
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
            .collect();
        let sender = global::get_text_map_propagator(|it| {
            it.extract_with_context(&Context::new(), &carrier)
        });
        let origin = sender.span().span_context().clone();
        let mut span = self
            .instruments
            .tracer
            .span_builder(format!("process {}", task.queue))
            .with_kind(SpanKind::Consumer)
            .with_attributes(known.iter().cloned().chain([
                KeyValue::new("messaging.message.id", task.id.to_string()),
                KeyValue::new("scylla.action", task.action.clone()),
                KeyValue::new("scylla.try", i64::from(task.tries)),
            ]));
        let mut parent = sender;
        if task.tries > 1 {
            parent = Context::new();
            if origin.is_valid() {
                span = span.with_links(vec![Link::with_context(origin)]);
            }
        }
        let context = parent.with_span(span.start_with_context(&self.instruments.tracer, &parent));
        let inner = self.inner.clone();
        let mut inner = replace(&mut self.inner, inner);
        let mut process = Process {
            instruments: self.instruments.clone(),
            control: task.control.clone(),
            context,
            known,
            begun: Instant::now(),
            ended: false,
        };
        Box::pin(async move {
            let answer = inner.call(task).with_context(process.context.clone()).await;
            process.ended = true;
            match &answer {
                Ok(_) | Err(HandlerError::Snooze(_)) => {}
                Err(error @ (HandlerError::Retry(told) | HandlerError::Abort(told))) => {
                    process.failed(told.code.clone(), error.to_string());
                }
            }
            answer
        })
    }
}

/// The handling of a task, until it ends or its future is dropped.
struct Process {
    instruments: Arc<Instruments>,
    control: Arc<Control>,
    context: Context,
    known: Vec<KeyValue>,
    begun: Instant,
    ended: bool,
}

impl Process {
    fn failed(&mut self, kind: String, description: String) {
        let kind = KeyValue::new("error.type", kind);
        self.context.span().set_attribute(kind.clone());
        self.context.span().set_status(Status::error(description));
        self.known.push(kind);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.ended {
            match self.control.cause() {
                Some(cause) => self.failed(format!("{cause:?}"), cause.to_string()),
                None => self.failed("panic".into(), "the handler has ended without a value".into()),
            }
        }
        self.instruments.consumed.add(1, &self.known);
        self.instruments.process.record(self.begun.elapsed().as_secs_f64(), &self.known);
        self.context.span().end();
    }
}
