//! Sets up a worker, and runs it.

use std::{collections::HashMap, fmt, panic::resume_unwind, sync::Arc, time::Duration};

use futures_util::stream::{FuturesUnordered, StreamExt};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::{
    runtime::{self, Handle},
    sync::oneshot,
};
use tower::{Layer, Service};

use crate::{
    connector::Connector,
    error::Error,
    failure::HandlerError,
    handle::WorkerHandle,
    handler::{AnyHandler, Handler, HandlerService, Innermost, erase},
    machine::Machine,
    setup::Setup,
    statements::Exchange,
    submission::Spec,
    task::Task,
    values::{Interval, random},
};

/// Sets up a [`Worker`]. What is not set has a default that is right for most.
#[must_use = "a worker is made by `build`"]
pub struct WorkerBuilder {
    connector: Connector,
    queues: Vec<String>,
    handlers: HashMap<String, Arc<dyn AnyHandler>>,
    any: Option<Arc<dyn AnyHandler>>,
    layers: Vec<Box<dyn Fn(HandlerService) -> HandlerService>>,
    limits: HashMap<String, Duration>,
    limit: Option<Duration>,
    lease: Option<Interval>,
    name: Option<String>,
    concurrency: usize,
    prefetch: usize,
    grace: Duration,
    coalesce: Duration,
    wait: Duration,
    call_timeout: Duration,
    prepares: bool,
}

impl WorkerBuilder {
    /// Serves a queue. The worker serves 1 to 16 queues, an earlier one first.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        let queue = queue.into();
        if !self.queues.contains(&queue) {
            self.queues.push(queue);
        }
        self
    }

    /// Handles tasks of this action, in each queue of the worker. The action of a task that was
    /// submitted without one is `""`. An action without a handler is not owned.
    pub fn handler<S, H>(mut self, action: impl Into<String>, handler: H) -> Self
    where
        S: DeserializeOwned + Send + 'static,
        H: Handler<S>,
    {
        self.handlers.insert(action.into(), erase(handler));
        self
    }

    /// Handles tasks of a kind, and serves their queue.
    pub fn register<S, H>(self, handler: H) -> Self
    where
        S: Spec + Send + 'static,
        H: Handler<S>,
    {
        self.queue(S::QUEUE).handler(S::ACTION, handler)
    }

    /// Handles tasks of each action that has no handler of its own.
    pub fn fallback<S, H>(mut self, handler: H) -> Self
    where
        S: DeserializeOwned + Send + 'static,
        H: Handler<S>,
    {
        self.any = Some(erase(handler));
        self
    }

    /// Goes around each handler. The first layer is the outermost one.
    ///
    /// ```
    /// # use scylla_pg::{HandlerService, Task, Worker, tower};
    /// use tower::{ServiceExt, layer::layer_fn, service_fn};
    ///
    /// let noting = layer_fn(|inner: HandlerService| {
    ///     service_fn(move |task: Task| {
    ///         let inner = inner.clone();
    ///         async move {
    ///             println!("{} begins", task.id);
    ///             inner.oneshot(task).await
    ///         }
    ///     })
    /// });
    /// # let connector: scylla_pg::Connector = "host=localhost".parse().unwrap();
    /// let builder = Worker::builder(connector).queue("mail").layer(noting);
    /// ```
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<HandlerService> + 'static,
        L::Service: Service<Task, Response = Box<RawValue>, Error = HandlerError>
            + Clone
            + Send
            + Sync
            + 'static,
        <L::Service as Service<Task>>::Future: Send,
    {
        self.layers.push(Box::new(move |inner| HandlerService::new(layer.layer(inner))));
        self
    }

    /// How many handlers run at once: 10, unless set.
    pub fn concurrency(mut self, handlers: usize) -> Self {
        self.concurrency = handlers;
        self
    }

    /// How many tasks the worker owns beyond those that run: 0, unless set. For very short tasks.
    pub fn prefetch(mut self, tasks: usize) -> Self {
        self.prefetch = tasks;
        self
    }

    /// How long a lease lasts without a heartbeat: as the task or its queue says, unless set.
    pub fn lease(mut self, length: impl Into<Interval>) -> Self {
        self.lease = Some(length.into());
        self
    }

    /// Stops each handler after that time, with [`Cause::TimeLimit`](crate::Cause::TimeLimit): no
    /// limit, unless set.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// The limit of the handlers of one action.
    pub fn time_limit_of(mut self, action: impl Into<String>, limit: Duration) -> Self {
        self.limits.insert(action.into(), limit);
        self
    }

    /// How long handlers have to end on their own when the worker stops: 25 seconds, unless set.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// What the server's views show: `host:pid:4 hex digits`, unless set.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// How long a result waits for others while handlers run: 5 ms, unless set.
    pub fn coalesce(mut self, time: Duration) -> Self {
        self.coalesce = time;
        self
    }

    /// How long one statement waits for work: 30 seconds, unless set.
    pub fn wait(mut self, time: Duration) -> Self {
        self.wait = time;
        self
    }

    /// After that time a call that got no answer counts as lost: 15 seconds, unless set.
    pub fn call_timeout(mut self, time: Duration) -> Self {
        self.call_timeout = time;
        self
    }

    /// Whether statements are prepared, which saves half of the server's time for a small one: no,
    /// unless set. For servers that are reached directly, or through a pooler that follows prepared
    /// statements, as PgBouncer does from 1.21 on.
    pub fn prepared_statements(mut self, prepared: bool) -> Self {
        self.prepares = prepared;
        self
    }

    /// The worker. [`Error::Config`] when it could do nothing.
    pub fn build(self) -> Result<Worker, Error> {
        let refuse = |why: &str| Err(Error::Config(why.into()));
        if self.queues.is_empty() || self.queues.len() > 16 {
            return refuse("a worker serves 1 to 16 queues");
        }
        if self.handlers.is_empty() && self.any.is_none() {
            return refuse("a worker needs a handler");
        }
        if self.concurrency == 0 {
            return refuse("the concurrency is at least 1");
        }
        let around = |handler: Arc<dyn AnyHandler>| -> Arc<dyn AnyHandler> {
            if self.layers.is_empty() {
                return handler;
            }
            let innermost = HandlerService::new(Innermost(handler));
            Arc::new(self.layers.iter().rfold(innermost, |inner, layer| layer(inner)))
        };
        let actions = self.any.is_none().then(|| self.handlers.keys().cloned().collect());
        let name = self.name.unwrap_or_else(default_name);
        Ok(Worker(Setup {
            exchange: Exchange::new(name.clone(), self.queues.clone(), actions.clone(), self.lease),
            handlers: self
                .handlers
                .into_iter()
                .map(|(action, handler)| (action, around(handler)))
                .collect(),
            any: self.any.map(around),
            connector: self.connector,
            queues: self.queues,
            actions,
            limits: self.limits,
            limit: self.limit,
            concurrency: self.concurrency,
            capacity: self.concurrency + self.prefetch,
            grace: self.grace,
            coalesce: self.coalesce,
            wait: self.wait,
            call_timeout: self.call_timeout,
            prepares: self.prepares,
            handle: WorkerHandle::new(name),
        }))
    }
}

impl fmt::Debug for WorkerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerBuilder").field("queues", &self.queues).finish_non_exhaustive()
    }
}

fn default_name() -> String {
    let mut host = whoami::hostname().unwrap_or_else(|_| "localhost".into());
    host.truncate(host.floor_char_boundary(80));
    format!("{host}:{}:{:04x}", std::process::id(), (random() * 65_536.0) as u32)
}

/// Owns tasks of some queues and runs their handlers, until it is told to stop.
///
/// It survives restarts of the server and lost connections. The README describes its states.
pub struct Worker(Setup);

impl Worker {
    /// Begins to set up a worker.
    pub fn builder(connector: impl Into<Connector>) -> WorkerBuilder {
        WorkerBuilder {
            connector: connector.into(),
            queues: vec![],
            handlers: HashMap::new(),
            any: None,
            layers: vec![],
            limits: HashMap::new(),
            limit: None,
            lease: None,
            name: None,
            concurrency: 10,
            prefetch: 0,
            grace: Duration::from_secs(25),
            coalesce: Duration::from_millis(5),
            wait: Duration::from_secs(30),
            call_timeout: Duration::from_secs(15),
            prepares: false,
        }
    }

    /// To stop the worker and to look at it while it runs.
    pub fn handle(&self) -> WorkerHandle {
        self.0.handle.clone()
    }

    /// Runs until SIGTERM, SIGINT, [`WorkerHandle::stop`] or `drain_worker`; then its handlers end
    /// first. A second signal hands the tasks back at once.
    ///
    /// A server that is away is waited for. [`Error::Incompatible`] when the server has no scylla,
    /// or one that this client cannot work with.
    pub async fn run(self) -> Result<(), Error> {
        let handle = self.handle();
        let mut signals = Signals::listen()
            .map_err(|error| Error::Config(format!("cannot listen to signals: {error}")))?;
        let mut running = std::pin::pin!(self.run_until(std::future::pending()));
        let mut stop: fn(&WorkerHandle) = WorkerHandle::stop;
        loop {
            tokio::select! {
                ended = &mut running => return ended,
                () = signals.next() => {
                    stop(&handle);
                    stop = WorkerHandle::stop_now;
                }
            }
        }
    }

    /// Runs until `shutdown` is ready, [`WorkerHandle::stop`] or `drain_worker`; then its handlers
    /// end first. Listens to no signal.
    ///
    /// Handlers run in the caller's runtime; the worker itself has a thread of its own. To drop
    /// this future hands the tasks back at once, in the background.
    pub async fn run_until(self, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
        let handle = self.handle();
        let (sender, mut ended) = oneshot::channel();
        let handlers = Handle::current();
        let thread = std::thread::Builder::new().name("scylla-pg".into()).spawn(move || {
            let runtime = runtime::Builder::new_current_thread().enable_all().build();
            let ended = match runtime {
                Ok(runtime) => runtime.block_on(Machine::new(self.0, handlers).run()),
                Err(error) => Err(no_thread(error)),
            };
            // an error: nothing waits for it
            let _ = sender.send(ended);
        });
        let thread = thread.map_err(no_thread)?;
        let dropped = StopNow(handle.clone());
        let ended = tokio::select! {
            ended = &mut ended => ended,
            () = shutdown => {
                handle.stop();
                ended.await
            }
        };
        drop(dropped);
        ended.unwrap_or_else(|_| match thread.join() {
            Err(panic) => resume_unwind(panic),
            Ok(()) => Ok(()),
        })
    }

    #[cfg(feature = "testing")]
    pub(crate) fn setup(&self) -> &Setup {
        &self.0
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("name", &self.0.handle.name())
            .field("queues", &self.0.queues)
            .finish_non_exhaustive()
    }
}

/// Runs workers as one, such as one for each database of a sharded application.
///
/// Each runs as [`Worker::run`] says, or until one of them ends, which stops the others. Gives the
/// first error.
pub async fn run_all(workers: impl IntoIterator<Item = Worker>) -> Result<(), Error> {
    let mut handles = vec![];
    let mut running: FuturesUnordered<_> = workers
        .into_iter()
        .map(|worker| {
            handles.push(worker.handle());
            worker.run()
        })
        .collect();
    let mut first = Ok(());
    while let Some(ended) = running.next().await {
        first = first.and(ended);
        handles.iter().for_each(WorkerHandle::stop);
    }
    first
}

/// SIGTERM and SIGINT. They are listened to until it is dropped.
#[cfg(unix)]
struct Signals(tokio::signal::unix::Signal, tokio::signal::unix::Signal);

#[cfg(unix)]
impl Signals {
    fn listen() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self(signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?))
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.0.recv() => {}
            _ = self.1.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

fn no_thread(error: std::io::Error) -> Error {
    Error::Config(format!("cannot start the worker's thread: {error}"))
}

struct StopNow(WorkerHandle);

impl Drop for StopNow {
    fn drop(&mut self) {
        self.0.stop_now();
    }
}
