//! Submits tasks, waits for results, cancels, asks why.

use std::{
    fmt,
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant, SystemTime},
};

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, Runtime, Timeouts};
use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use serde_json::{Value, value::RawValue};
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::types::{Json, Type};
use tower::{Layer, Service, ServiceExt, util::BoxCloneSyncService};
use uuid::Uuid;

use crate::{
    calls::{self, Call},
    connector::Connector,
    entry::{Entry, Settled, Status},
    error::Error,
    executor::{Executor, Run},
    submission::{NewTask, NewTasks, Submission, Submitted},
    values::Interval,
};

/// How many specs one statement submits.
const BATCH: usize = 10_000;
/// The longest wait of one statement.
const PIECE: Duration = Duration::from_secs(5);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// What a [`tower::Layer`] of a client goes around: a submission, or the next layer. Gives the ids.
pub type SubmitService = BoxCloneSyncService<Submission, Vec<Uuid>, Error>;

type AnyLayer = Arc<dyn Fn(SubmitService) -> SubmitService + Send + Sync>;

/// Submits tasks, waits for results, cancels, and asks why.
///
/// To clone it is cheap; the clones share their connections. Each call is committed at once, except
/// those of [`in_tx`](Self::in_tx).
#[derive(Clone)]
pub struct Client {
    pool: Pool,
    layers: Vec<AnyLayer>,
    stack: Option<SubmitService>,
}

impl Client {
    /// A client with a pool of its own, which connects when it is first used.
    pub fn connect(connector: impl Into<Connector>) -> Self {
        let named = connector.into().named("scylla-pg rust");
        let manager = Manager::from_connect(Default::default(), named, ManagerConfig::default());
        let timeouts = Timeouts {
            wait: Some(CONNECT_TIMEOUT),
            create: Some(CONNECT_TIMEOUT),
            recycle: Some(CONNECT_TIMEOUT),
        };
        let pool = Pool::builder(manager).runtime(Runtime::Tokio1).timeouts(timeouts).build();
        Self::new(pool.expect("a pool with a runtime has time-outs"))
    }

    /// A client that takes its connections from a pool of yours.
    pub fn new(pool: Pool) -> Self {
        Self { pool, layers: vec![], stack: None }
    }

    /// Goes around each submission: `submit` and `submit_many`, in a transaction of yours too. The
    /// first layer is the outermost one.
    #[must_use]
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<SubmitService> + Send + Sync + 'static,
        L::Service: Service<Submission, Response = Vec<Uuid>, Error = Error>
            + Clone
            + Send
            + Sync
            + 'static,
        <L::Service as Service<Submission>>::Future: Send,
    {
        self.layers.push(Arc::new(move |inner| SubmitService::new(layer.layer(inner))));
        let innermost = SubmitService::new(HandOver);
        self.stack = Some(self.layers.iter().rfold(innermost, |inner, layer| layer(inner)));
        self
    }

    /// The same calls in a transaction of yours: `&tokio_postgres::Transaction`,
    /// `&deadpool_postgres::Transaction`, or with the feature `sqlx` `&mut sqlx::Transaction` and
    /// `&mut sqlx::PgConnection`.
    ///
    /// ```no_run
    /// # use scylla_pg::{Client, NewTask};
    /// # async fn run(
    /// #     client: Client,
    /// #     mut connection: tokio_postgres::Client,
    /// # ) -> Result<(), scylla_pg::Error> {
    /// let tx = connection.transaction().await?;
    /// tx.execute("insert into orders values (1)", &[]).await?;
    /// client.in_tx(&tx).submit(NewTask::new("shop", 1).action("ship")).await?;
    /// tx.commit().await?; // before it, no worker sees the task
    /// # Ok(())
    /// # }
    /// ```
    pub fn in_tx<E: Executor>(&self, tx: E) -> InTx<'_, E> {
        InTx { client: self, executor: tx }
    }

    fn here(&self) -> InTx<'_, OfPool<'_>> {
        self.in_tx(OfPool(&self.pool))
    }

    // ---- submitting ----

    /// Submits a task, and gives its id.
    ///
    /// A task without an id gets one before it is sent. The id is nil where
    /// [`OnConflict::Ignore`](crate::OnConflict) met a task that this role may not look at.
    pub async fn submit(&self, task: impl Into<NewTask>) -> Result<Uuid, Error> {
        self.here().submit(task).await
    }

    /// Submits a task for each spec, all in one transaction, and gives the ids in order.
    pub async fn submit_many(&self, tasks: NewTasks) -> Result<Vec<Uuid>, Error> {
        let pieces = tasks.0.len().div_ceil(BATCH);
        if pieces <= 1 {
            return self.here().submit_many(tasks).await;
        }
        let mut connection = Guard(Some(self.pool.get().await?));
        let tx = connection.get().transaction().await?;
        let ids = self.in_tx(&tx).submit_many(tasks).await?;
        tx.commit().await?;
        connection.done();
        Ok(ids)
    }

    /// Submits tasks of any queues, which may come after one another, in any order.
    ///
    /// With `atomic`, a duplicate or invalid one is an error and nothing is submitted; else each
    /// tells its outcome. Layers are not called.
    pub async fn submit_tasks(
        &self,
        tasks: impl IntoIterator<Item = NewTask>,
        atomic: bool,
    ) -> Result<Vec<Submitted>, Error> {
        let elements = elements(tasks)?;
        self.here().json(&calls::submit_tasks(elements, atomic)).await
    }

    // ---- results ----

    /// Waits until a task with `post_result` has settled; none: not within `timeout`.
    ///
    /// A connection of the pool is taken for 5 seconds at a time.
    pub async fn wait(&self, id: Uuid, timeout: Duration) -> Result<Option<Settled>, Error> {
        let end = Instant::now() + timeout;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let length = Interval::from(left.min(PIECE)).0;
            let mut connection = Guard(Some(self.pool.get().await?));
            let row = connection
                .get()
                .query_typed_one(
                    "call scylla.wait_for_task($1, $2::interval, null, null)",
                    &[(&id, Type::UUID), (&length, Type::TEXT)],
                )
                .await;
            connection.done();
            let row = row?;
            if let Some(status) = row.try_get::<_, Option<String>>(0)? {
                let status = serde_json::from_value(Value::String(status))?;
                let result = row.try_get::<_, Option<Json<Box<RawValue>>>>(1)?;
                let result = result
                    .map_or(Ok(Value::Null), |Json(text)| serde_json::from_str(text.get()))?;
                return Ok(Some(Settled { status, result }));
            }
            if left.is_zero() {
                return Ok(None);
            }
        }
    }

    /// Waits as [`wait`](Self::wait) does, and gives the result.
    ///
    /// [`Error::Aborted`] or [`Error::Cancelled`] when it has no result, [`Error::NotSettled`] when
    /// the time is over.
    pub async fn result<R: DeserializeOwned>(
        &self,
        id: Uuid,
        timeout: Duration,
    ) -> Result<R, Error> {
        match self.wait(id, timeout).await? {
            None => Err(Error::NotSettled { id }),
            Some(Settled { status: Status::Cancelled, .. }) => Err(Error::Cancelled { id }),
            Some(Settled { status: Status::Completed, result }) => {
                Ok(serde_json::from_value(result)?)
            }
            Some(_) => Err(Error::Aborted { id, errors: self.task(id).await?.errors }),
        }
    }

    /// All that is known of a task.
    pub async fn task(&self, id: Uuid) -> Result<Entry, Error> {
        self.here().task(id).await
    }

    /// Says in one sentence why a task does not run.
    pub async fn why(&self, id: Uuid) -> Result<String, Error> {
        self.here().json(&calls::why(id)).await
    }

    /// The unfinished task that has this key.
    pub async fn task_id(&self, queue: &str, key: &str) -> Result<Option<Uuid>, Error> {
        self.here().task_id(queue, key).await
    }

    /// Version, protocol and features of the server.
    pub async fn about(&self) -> Result<Value, Error> {
        self.here().json(&calls::about()).await
    }

    // ---- changing ----

    /// Cancels a task, also a running one; false: it had settled.
    pub async fn cancel(&self, id: Uuid) -> Result<bool, Error> {
        self.here().cancel(id).await
    }

    /// Cancels tasks; none: no such task.
    pub async fn cancel_many(&self, ids: &[Uuid]) -> Result<Vec<Option<bool>>, Error> {
        self.here().cancel_many(ids).await
    }

    /// Cancels the unfinished tasks of a group, and gives their number.
    pub async fn cancel_group(&self, queue: &str, group_key: &str) -> Result<u64, Error> {
        self.here().json(&calls::cancel_group(queue, group_key)).await
    }

    /// Postpones a task; false: it runs, or has settled.
    pub async fn delay(&self, id: Uuid, until: SystemTime) -> Result<bool, Error> {
        self.here().delay(id, until).await
    }

    /// Deletes tasks, and the dependents that are left with nothing to come after. Gives their
    /// number.
    pub async fn delete(&self, ids: &[Uuid]) -> Result<u64, Error> {
        self.here().delete(ids).await
    }

    /// Submits aborted and cancelled tasks again, and gives the new ids; none: no such task, or not
    /// one of these.
    pub async fn resubmit(&self, ids: &[Uuid]) -> Result<Vec<Option<Uuid>>, Error> {
        self.here().json(&calls::resubmit(ids)).await
    }

    /// Asks a worker to stop; false: no such worker.
    pub async fn drain_worker(&self, worker: &str) -> Result<bool, Error> {
        self.here().json(&calls::drain_worker(worker)).await
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("pool", &self.pool.status()).finish_non_exhaustive()
    }
}

/// The calls of a [`Client`] in a transaction of yours: [`Client::in_tx`].
#[must_use = "it calls nothing yet"]
pub struct InTx<'c, E> {
    client: &'c Client,
    executor: E,
}

impl<E: Executor> InTx<'_, E> {
    /// Submits a task, and gives its id. See [`Client::submit`].
    pub async fn submit(&mut self, task: impl Into<NewTask>) -> Result<Uuid, Error> {
        let ids = self.send(task.into().with_id().0).await?;
        Ok(ids.first().copied().unwrap_or_default())
    }

    /// Submits a task for each spec, and gives the ids in order.
    pub async fn submit_many(&mut self, tasks: NewTasks) -> Result<Vec<Uuid>, Error> {
        self.send(tasks.0).await
    }

    /// Submits tasks of any queues. See [`Client::submit_tasks`].
    pub async fn submit_tasks(
        &mut self,
        tasks: impl IntoIterator<Item = NewTask>,
        atomic: bool,
    ) -> Result<Vec<Submitted>, Error> {
        let elements = elements(tasks)?;
        self.json(&calls::submit_tasks(elements, atomic)).await
    }

    /// All that is known of a task.
    pub async fn task(&mut self, id: Uuid) -> Result<Entry, Error> {
        self.json(&calls::task(id)).await
    }

    /// The unfinished task that has this key.
    pub async fn task_id(&mut self, queue: &str, key: &str) -> Result<Option<Uuid>, Error> {
        self.json(&calls::task_id(queue, key)).await
    }

    /// Cancels a task, also a running one; false: it had settled.
    pub async fn cancel(&mut self, id: Uuid) -> Result<bool, Error> {
        self.json(&calls::cancel(id)).await
    }

    /// Cancels tasks; none: no such task.
    pub async fn cancel_many(&mut self, ids: &[Uuid]) -> Result<Vec<Option<bool>>, Error> {
        self.json(&calls::cancel_many(ids)).await
    }

    /// Postpones a task; false: it runs, or has settled.
    pub async fn delay(&mut self, id: Uuid, until: SystemTime) -> Result<bool, Error> {
        self.json(&calls::delay(id, until)).await
    }

    /// Deletes tasks. See [`Client::delete`].
    pub async fn delete(&mut self, ids: &[Uuid]) -> Result<u64, Error> {
        self.json(&calls::delete(ids)).await
    }

    async fn json<T: DeserializeOwned>(&mut self, call: &Call) -> Result<T, Error> {
        let text = self.executor.text(call).await?;
        Ok(serde_json::from_str(text.as_deref().unwrap_or("null"))?)
    }

    /// Sends a submission through the layers, and runs it here: a layer holds no connection.
    async fn send(&mut self, mut submission: Submission) -> Result<Vec<Uuid>, Error> {
        let Some(stack) = &self.client.stack else {
            return insert(&mut self.executor, submission).await;
        };
        let (handoff, mut handed) = mpsc::channel(1);
        submission.handoff = Some(handoff);
        let mut answer = pin!(stack.clone().oneshot(submission));
        loop {
            tokio::select! {
                biased;
                Some((submission, reply)) = handed.recv() => {
                    // an error: the layers no longer wait for it
                    let _ = reply.send(insert(&mut self.executor, submission).await);
                }
                ids = &mut answer => return ids,
            }
        }
    }
}

fn elements(tasks: impl IntoIterator<Item = NewTask>) -> Result<Vec<Value>, Error> {
    tasks.into_iter().map(|task| task.0.element()).collect()
}

async fn insert(executor: &mut impl Run, submission: Submission) -> Result<Vec<Uuid>, Error> {
    if !submission.is_many() {
        let id = executor.text(&calls::submit(&submission)?).await?;
        return Ok(id.and_then(|id| id.parse().ok()).into_iter().collect());
    }
    let mut ids = Vec::with_capacity(submission.len());
    for piece in submission.pieces(BATCH)? {
        let text = executor.text(&calls::submit_many(&piece)?).await?;
        ids.extend(serde_json::from_str::<Vec<Uuid>>(text.as_deref().unwrap_or("[]"))?);
    }
    Ok(ids)
}

/// The innermost service: gives a submission to the call that it belongs to.
#[derive(Clone)]
struct HandOver;

impl Service<Submission> for HandOver {
    type Response = Vec<Uuid>;
    type Error = Error;
    type Future = BoxFuture<'static, Result<Vec<Uuid>, Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut submission: Submission) -> Self::Future {
        let handoff = submission.handoff.clone();
        submission.handoff = None;
        Box::pin(async move {
            let ended = || Error::Config("a layer has kept a submission beyond its call".into());
            let (reply, answer) = oneshot::channel();
            handoff.ok_or_else(ended)?.send((submission, reply)).await.map_err(|_| ended())?;
            answer.await.map_err(|_| ended())?
        })
    }
}

/// Runs calls on connections of a pool.
struct OfPool<'c>(&'c Pool);

impl Run for OfPool<'_> {
    async fn text(&mut self, call: &Call) -> Result<Option<String>, Error> {
        let mut connection = Guard(Some(self.0.get().await?));
        let text = (&*connection.get()).text(call).await;
        connection.done();
        text
    }
}

/// A connection that is closed unless its call has ended: a later one would wait behind it.
struct Guard(Option<Object>);

impl Guard {
    fn get(&mut self) -> &mut Object {
        self.0.as_mut().expect("it is taken at the end")
    }

    fn done(mut self) {
        self.0 = None;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            drop(Object::take(connection));
        }
    }
}
