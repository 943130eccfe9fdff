//! What a handler gets.

use std::{
    error::Error as StdError,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::SystemTime,
};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, value::RawValue};
use tokio::sync::Notify;
use uuid::Uuid;

use crate::failure::HandlerError;

/// A task that this worker owns, for as long as its handler runs.
///
/// `S` is the type of the spec; middleware gets a task whose spec is JSON still.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Task<S = Box<RawValue>> {
    /// The task's id, the same in each try.
    pub id: Uuid,
    /// The queue that it came from.
    pub queue: String,
    /// What is to be done.
    pub action: String,
    /// With what.
    pub spec: S,
    /// Its name among the queue's unfinished tasks.
    pub key: Option<String>,
    /// The group that it belongs to.
    pub group_key: Option<String>,
    /// Higher ones run first.
    pub priority: i64,
    /// The number of this try, 1 for the first.
    pub tries: i32,
    /// How many tries there can be; 0: no limit.
    pub max_tries: i32,
    /// How many of the tasks that this one came after were aborted or cancelled.
    pub num_failures: i32,
    /// When it was submitted.
    pub created: SystemTime,
    /// What was noted at its submission: trace context, tags.
    pub meta: Map<String, Value>,
    pub(crate) control: Arc<Control>,
}

/// Why the worker stops a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// The task was cancelled or deleted. What the handler returns is dropped.
    Cancelled,
    /// Another worker may have the task. What the handler returns is dropped.
    LeaseLost,
    /// The handler's time limit is over. The try has failed, unless the handler still returns a
    /// value.
    TimeLimit,
    /// The worker stops and its grace is over. The task is handed back, unless the handler still
    /// returns a value; the try is not counted.
    Shutdown,
}

impl Cause {
    /// Whether the lease is over, so that nothing is returned.
    pub(crate) fn ends_lease(self) -> bool {
        matches!(self, Self::Cancelled | Self::LeaseLost)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cancelled => "the task was cancelled",
            Self::LeaseLost => "the lease was lost",
            Self::TimeLimit => "the time limit is over",
            Self::Shutdown => "the worker stops",
        })
    }
}

impl StdError for Cause {}

impl<S> Task<S> {
    /// Completes with the cause once the worker stops this handler.
    ///
    /// A handler that never called this is dropped when it is stopped, at its next `await`, as a
    /// future in [`tokio::time::timeout`] is. One that has called it has time to end: 3 seconds, or
    /// until the lease ends when the cause is [`Cause::LeaseLost`]. Then it is dropped, too.
    ///
    /// ```
    /// # use scylla_pg::{HandlerError, Task};
    /// # struct Export { rows: u64 }
    /// # async fn write_next_row() -> std::io::Result<()> { Ok(()) }
    /// # async fn remove_file() -> std::io::Result<()> { Ok(()) }
    /// async fn export(task: Task<Export>) -> Result<u64, HandlerError> {
    ///     for row in 0..task.spec.rows {
    ///         tokio::select! {
    ///             written = write_next_row() => written?,
    ///             cause = task.stopped() => {
    ///                 remove_file().await?;
    ///                 return Err(cause.into());
    ///             }
    ///         }
    ///         task.progress(row as f64 / task.spec.rows as f64);
    ///     }
    ///     Ok(task.spec.rows)
    /// }
    /// ```
    pub fn stopped(&self) -> impl Future<Output = Cause> + Send + Sync + use<S> {
        self.control.listens.store(true, Ordering::SeqCst);
        let control = self.control.clone();
        async move { control.signal(Signal::cause).await }
    }

    /// Why the worker stops this handler, for code that does not wait; none: it does not.
    pub fn cause(&self) -> Option<Cause> {
        self.control.cause()
    }

    /// Notes how much is done, from 0 to 1. It is sent with the next heartbeat.
    pub fn progress(&self, share: f64) {
        if !share.is_nan() {
            self.control.state().progress = Some(share.clamp(0.0, 1.0));
        }
    }

    /// When the lease ends, by the server's clock, unless it is extended, as the worker does; none:
    /// never.
    pub fn deadline(&self) -> Option<SystemTime> {
        self.control.state().deadline
    }

    /// Whether an error aborts the task, since no tries are left.
    pub fn is_last_try(&self) -> bool {
        self.max_tries > 0 && self.tries >= self.max_tries
    }

    fn map<T>(self, spec: impl FnOnce(S) -> T) -> Task<T> {
        Task {
            id: self.id,
            queue: self.queue,
            action: self.action,
            spec: spec(self.spec),
            key: self.key,
            group_key: self.group_key,
            priority: self.priority,
            tries: self.tries,
            max_tries: self.max_tries,
            num_failures: self.num_failures,
            created: self.created,
            meta: self.meta,
            control: self.control,
        }
    }
}

impl Task {
    /// The task with its spec read as a type. A spec that does not fit fails the try with the code
    /// `invalid_spec`.
    pub fn decode<S: DeserializeOwned>(self) -> Result<Task<S>, HandlerError> {
        let spec = serde_json::from_str(self.spec.get())
            .map_err(|error| HandlerError::from(error).code("invalid_spec"))?;
        Ok(self.map(|_| spec))
    }
}

/// What a handler is told. Each signal overrules the ones before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    Run,
    Stop(Cause),
    /// The future of the handler is dropped.
    Drop(Cause),
}

impl Signal {
    fn cause(self) -> Option<Cause> {
        match self {
            Self::Run => None,
            Self::Stop(cause) | Self::Drop(cause) => Some(cause),
        }
    }

    fn drop(self) -> Option<()> {
        matches!(self, Self::Drop(_)).then_some(())
    }
}

#[derive(Debug)]
pub(crate) struct State {
    signal: Signal,
    pub progress: Option<f64>,
    pub deadline: Option<SystemTime>,
}

/// What a worker and a handler share.
#[derive(Debug)]
pub(crate) struct Control {
    state: Mutex<State>,
    /// The signal has changed.
    changed: Notify,
    /// The handler has asked to be told.
    listens: AtomicBool,
}

impl Control {
    pub fn new(deadline: Option<SystemTime>) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State { signal: Signal::Run, progress: None, deadline }),
            changed: Notify::new(),
            listens: AtomicBool::new(false),
        })
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn cause(&self) -> Option<Cause> {
        self.state().signal.cause()
    }

    fn tell(&self, signal: Signal) {
        self.state().signal = signal;
        self.changed.notify_waiters();
    }

    /// Tells the handler. Whether it listens; if not, it is dropped.
    pub fn stop(&self, cause: Cause) -> bool {
        self.tell(Signal::Stop(cause));
        let listens = self.listens.load(Ordering::SeqCst);
        if !listens {
            self.drop_handler(cause);
        }
        listens
    }

    pub fn drop_handler(&self, cause: Cause) {
        self.tell(Signal::Drop(cause));
    }

    /// Completes when the handler is to be dropped.
    pub async fn dropped(&self) {
        self.signal(Signal::drop).await;
    }

    /// Completes with what `of` makes of the signal.
    async fn signal<T>(&self, of: impl Fn(Signal) -> Option<T>) -> T {
        loop {
            // before the signal is read, so that it misses no change
            let changed = self.changed.notified();
            let signal = self.state().signal;
            if let Some(told) = of(signal) {
                return told;
            }
            changed.await;
        }
    }
}
