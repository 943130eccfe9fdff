//! For tests of code that submits, and of handlers.
//!
//! A [`Recorder`] keeps what is submitted, and needs no server. [`assert_submitted`] looks for a
//! task on a server, in an open transaction too. [`run_ready`] runs what is ready there in this
//! process.

use std::{
    future::{Ready, ready},
    panic::{AssertUnwindSafe, resume_unwind},
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use futures_util::FutureExt;
use serde::Serialize;
use serde_json::{Value, value::RawValue};
use tower::{Layer, Service};
use uuid::Uuid;

use crate::{
    calls,
    entry::Entry,
    error::Error,
    executor::Executor,
    failure::HandlerError,
    link::{Failure, Link},
    outcome::{End, Ended},
    statements::Exchange,
    submission::{Spec, Submission},
    task::Task,
    values::Interval,
    worker::Worker,
};

/// What a test looks for: what is not set is of no interest.
///
/// ```
/// use scylla_pg::testing::Expected;
/// use serde_json::json;
///
/// let expected = Expected::in_queue("mail").action("welcome").spec(json!({"to": "ann"}));
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Expected {
    queue: Option<String>,
    action: Option<String>,
    key: Option<String>,
    group_key: Option<String>,
    spec: Option<Value>,
}

impl Expected {
    /// A task of a queue.
    pub fn in_queue(queue: impl Into<String>) -> Self {
        Self { queue: Some(queue.into()), ..Self::default() }
    }

    /// A task of a kind.
    pub fn of<S: Spec>() -> Self {
        Self::in_queue(S::QUEUE).action(S::ACTION)
    }

    /// With this action.
    pub fn action(mut self, action: impl Into<String>) -> Self {
        self.action = Some(action.into());
        self
    }

    /// With this key.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Of this group.
    pub fn group_key(mut self, group_key: impl Into<String>) -> Self {
        self.group_key = Some(group_key.into());
        self
    }

    /// With a spec that has these members. Panics when the value has no form in JSON.
    pub fn spec(mut self, spec: impl Serialize) -> Self {
        self.spec = Some(serde_json::to_value(spec).expect("the expected spec has a form in JSON"));
        self
    }

    fn fits(
        &self,
        queue: &str,
        action: &str,
        key: Option<&str>,
        group_key: Option<&str>,
        spec: &Value,
    ) -> bool {
        self.queue.as_deref().is_none_or(|it| it == queue)
            && self.action.as_deref().is_none_or(|it| it == action)
            && (self.key.is_none() || self.key.as_deref() == key)
            && (self.group_key.is_none() || self.group_key.as_deref() == group_key)
            && self.spec.as_ref().is_none_or(|it| contains(spec, it))
    }

    fn fits_entry(&self, it: &Entry) -> bool {
        self.fits(&it.queue, &it.action, it.key.as_deref(), it.group_key.as_deref(), &it.spec)
    }
}

fn contains(actual: &Value, expected: &Value) -> bool {
    match (actual, expected) {
        (Value::Object(actual), Value::Object(expected)) => expected
            .iter()
            .all(|(name, value)| actual.get(name).is_some_and(|it| contains(it, value))),
        _ => actual == expected,
    }
}

/// The tasks that fit, oldest first, as the transaction of `tx` sees them.
pub async fn submitted(mut tx: impl Executor, expected: &Expected) -> Result<Vec<Entry>, Error> {
    let text = tx.text(&calls::tasks(expected.queue.as_deref())).await?;
    let entries: Vec<Entry> = serde_json::from_str(text.as_deref().unwrap_or("[]"))?;
    Ok(entries.into_iter().filter(|entry| expected.fits_entry(entry)).collect())
}

/// The first task that fits, as the transaction of `tx` sees it. Panics when no task fits.
pub async fn assert_submitted(tx: impl Executor, expected: &Expected) -> Result<Entry, Error> {
    let in_queue = Expected { queue: expected.queue.clone(), ..Expected::default() };
    let entries = submitted(tx, &in_queue).await?;
    let near: Vec<_> = entries
        .iter()
        .take(5)
        .map(|it| format!("{}/{} {}", it.queue, it.action, it.spec))
        .collect();
    match entries.into_iter().find(|entry| expected.fits_entry(entry)) {
        Some(entry) => Ok(entry),
        None => panic!("no task was submitted as {expected:?}, but these: {near:?}"),
    }
}

/// A layer of a client that keeps what is submitted, and sends nothing.
///
/// ```
/// # async fn run() -> Result<(), scylla_pg::Error> {
/// use scylla_pg::{Client, Connector, NewTask, testing::{Expected, Recorder}};
///
/// async fn sign_up(client: &Client, address: &str) -> Result<(), scylla_pg::Error> {
///     client.submit(NewTask::new("mail", address).action("welcome")).await?;
///     Ok(())
/// }
///
/// let recorder = Recorder::default();
/// let client = Client::connect("host=nowhere".parse::<Connector>()?).layer(recorder.clone());
/// sign_up(&client, "ann@example.com").await?;
/// recorder.assert_submitted(&Expected::in_queue("mail").spec("ann@example.com"));
/// # Ok(())
/// # }
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
/// # runtime.unwrap().block_on(run()).unwrap();
/// ```
#[derive(Debug, Clone, Default)]
pub struct Recorder(Arc<Mutex<Vec<Submission>>>);

impl Recorder {
    /// What was submitted, oldest first.
    pub fn submissions(&self) -> Vec<Submission> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Panics unless a task that fits was submitted.
    pub fn assert_submitted(&self, expected: &Expected) {
        let submissions = self.submissions();
        let fits = |it: &Submission| {
            it.specs().is_ok_and(|specs| {
                specs.iter().any(|spec| {
                    let spec = serde_json::from_str(spec.get()).unwrap_or_default();
                    expected.fits(
                        it.queue(),
                        it.action(),
                        it.text("key"),
                        it.text("group_key"),
                        &spec,
                    )
                })
            })
        };
        assert!(
            submissions.iter().any(fits),
            "no task was submitted as {expected:?}, but these: {submissions:?}"
        );
    }
}

impl<S> Layer<S> for Recorder {
    type Service = Self;

    fn layer(&self, _: S) -> Self {
        self.clone()
    }
}

impl Service<Submission> for Recorder {
    type Response = Vec<Uuid>;
    type Error = Error;
    type Future = Ready<Result<Vec<Uuid>, Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut submission: Submission) -> Self::Future {
        if let Err(error) = submission.specs() {
            return ready(Err(error));
        }
        submission.handoff = None;
        let ids = match submission.id() {
            Some(id) => vec![id],
            None => submission
                .given_ids()
                .unwrap_or_else(|| (0..submission.len()).map(|_| Uuid::now_v7()).collect()),
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(submission);
        ready(Ok(ids))
    }
}

/// A task that was run, and what its handler gave.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Ran {
    /// The task, with its spec as JSON.
    pub task: Task,
    /// The handler's result as JSON, or its error.
    pub result: Result<Box<RawValue>, HandlerError>,
}

/// Runs what is ready for a worker, one task after the other in this process, until nothing is. The
/// tasks have to be committed, and a task that fails is tried again as the server says: give it a
/// `retry_interval`.
pub async fn run_ready(worker: &Worker) -> Result<Vec<Ran>, Error> {
    let setup = worker.setup();
    let link = Link::new(
        setup.connector.named("scylla-pg rust testing"),
        1,
        Duration::from_secs(15),
        false,
    );
    let lease = Interval::from("1 hour");
    let exchange = Exchange::new(
        "scylla-pg testing".into(),
        setup.queues.clone(),
        setup.actions.clone(),
        Some(lease),
    );
    let mut ran = vec![];
    while let Some(owned) = exchange.run(&link, &[], 1).await.map_err(of_failure)?.1.pop() {
        let (token, owned_at, task) = (owned.token, owned.now, owned.task);
        let end = match setup.handler_of(&task.action) {
            Some(handler) => {
                AssertUnwindSafe(async { handler.call(task.clone()).await }).catch_unwind().await
            }
            None => Ok(Err(HandlerError::retry("no handler of this action"))),
        };
        let (end, result) = match end {
            Ok(result) => (End::Returned(result.clone()), result),
            Err(panic) => resume_unwind(panic),
        };
        if let Some(outcome) = end.outcome(None, 0.0) {
            let ended =
                Ended { id: task.id, token, outcome, owned_at, doubtful: false, alone: true };
            exchange.run(&link, &[ended], 0).await.map_err(of_failure)?;
        }
        ran.push(Ran { task: *task, result });
    }
    Ok(ran)
}

fn of_failure(failure: Failure) -> Error {
    match failure {
        Failure::Refused(error) => Error::Database(error),
        Failure::Gone(why) => Error::Config(why),
    }
}
