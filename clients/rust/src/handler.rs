//! Handlers, and the service that middleware goes around.

use std::{marker::PhantomData, panic::AssertUnwindSafe, sync::Arc, task::Poll};

use futures_util::{FutureExt, future::BoxFuture};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::{RawValue, to_raw_value};
use tower::{Service, ServiceExt, util::BoxCloneSyncService};

use crate::{failure::HandlerError, outcome::End, task::Task};

/// Does the work of tasks whose spec is an `S`.
///
/// Functions and closures of [`Task<S>`](Task) are handlers:
///
/// ```
/// # use scylla_pg::{HandlerError, Task};
/// async fn double(task: Task<i64>) -> Result<i64, HandlerError> {
///     Ok(2 * task.spec)
/// }
/// # fn is_handler(_: impl scylla_pg::Handler<i64>) {}
/// # is_handler(double);
/// # is_handler(async |task: Task<i64>| Ok::<_, HandlerError>(2 * task.spec));
/// ```
///
/// A type of yours that holds what its work needs, such as a pool, is one when it implements this
/// trait:
///
/// ```
/// use scylla_pg::{Handler, HandlerError, Task};
///
/// struct Mailer {
///     from: String,
/// }
///
/// impl Handler<String> for Mailer {
///     type Output = ();
///     type Error = HandlerError;
///
///     async fn handle(&self, task: Task<String>) -> Result<(), HandlerError> {
///         println!("{} writes to {}", self.from, task.spec);
///         Ok(())
///     }
/// }
/// # fn is_handler(_: impl Handler<String>) {}
/// # is_handler(Mailer { from: String::new() });
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no handler of tasks with the spec `{S}`",
    note = "a handler is an `async fn(Task<{S}>) -> Result<impl Serialize, HandlerError>`, and its \
            future is `Send`",
    note = "a closure must not lend what it has captured to its future: clone it, or implement \
            `Handler` for a type of yours"
)]
pub trait Handler<S>: Send + Sync + 'static {
    /// The task's result.
    type Output: Serialize;
    /// Why the work was not done: a [`HandlerError`], or any error, which means: try again.
    type Error: Into<HandlerError>;

    /// Does the work of one task.
    fn handle(
        &self,
        task: Task<S>,
    ) -> impl Future<Output = Result<Self::Output, Self::Error>> + Send;
}

impl<F, Fut, S, R, E> Handler<S> for F
where
    F: Fn(Task<S>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, E>> + Send,
    R: Serialize,
    E: Into<HandlerError>,
{
    type Output = R;
    type Error = E;

    fn handle(&self, task: Task<S>) -> impl Future<Output = Result<R, E>> + Send {
        self(task)
    }
}

/// What a [`tower::Layer`] of a worker goes around: the handler of a task, or the next layer. Gives
/// the result as JSON.
pub type HandlerService = BoxCloneSyncService<Task, Box<RawValue>, HandlerError>;

/// A handler of any type.
pub(crate) trait AnyHandler: Send + Sync {
    fn call(&self, task: Box<Task>) -> BoxFuture<'static, Result<Box<RawValue>, HandlerError>>;
}

/// A handler whose types are forgotten.
pub(crate) fn erase<S, H>(handler: H) -> Arc<dyn AnyHandler>
where
    S: DeserializeOwned + Send + 'static,
    H: Handler<S>,
{
    Arc::new(Erased { handler: Arc::new(handler), spec: PhantomData })
}

struct Erased<S, H> {
    handler: Arc<H>,
    spec: PhantomData<fn(S)>,
}

impl<S, H> AnyHandler for Erased<S, H>
where
    S: DeserializeOwned + Send + 'static,
    H: Handler<S>,
{
    fn call(&self, task: Box<Task>) -> BoxFuture<'static, Result<Box<RawValue>, HandlerError>> {
        let handler = self.handler.clone();
        Box::pin(async move {
            let value = handler.handle(task.decode()?).await.map_err(Into::into)?;
            to_raw_value(&value).map_err(|error| HandlerError::from(error).code("invalid_result"))
        })
    }
}

impl AnyHandler for HandlerService {
    fn call(&self, task: Box<Task>) -> BoxFuture<'static, Result<Box<RawValue>, HandlerError>> {
        Box::pin(self.clone().oneshot(*task))
    }
}

/// The innermost service.
#[derive(Clone)]
pub(crate) struct Innermost(pub Arc<dyn AnyHandler>);

impl Service<Task> for Innermost {
    type Response = Box<RawValue>;
    type Error = HandlerError;
    type Future = BoxFuture<'static, Result<Box<RawValue>, HandlerError>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> Poll<Result<(), HandlerError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, task: Task) -> Self::Future {
        self.0.call(task.into())
    }
}

/// Runs a handler until it ends, or is to be dropped.
pub(crate) async fn run_handler(handler: Option<Arc<dyn AnyHandler>>, task: Box<Task>) -> End {
    let control = task.control.clone();
    let Some(handler) = handler else {
        return End::Returned(Err(HandlerError::retry("no handler of this action")));
    };
    tokio::select! {
        biased;
        // first: when it is stopped and dropped at the same time, as in a process that was frozen
        // longer than the lease, it hears why
        end = AssertUnwindSafe(async { handler.call(task).await }).catch_unwind() => match end {
            Ok(value) => End::Returned(value),
            Err(panic) => End::panicked(&*panic),
        },
        () = control.dropped() => End::Dropped,
    }
}
