//! The time that a server has for an answer.

use crate::failure::Failure;
use std::future::Future;
use std::time::Duration;
use tokio::time::timeout;

/// How long a server may take for an answer.
const ANSWER: Duration = Duration::from_secs(60);

/// What a server does not answer in time has failed.
pub async fn within<T>(call: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let late = |_| Failure::new("the server does not answer");
    timeout(ANSWER, call).await.map_err(late)?
}
