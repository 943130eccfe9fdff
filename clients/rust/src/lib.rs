//! Submits and runs tasks of scylla, the task scheduler inside PostgreSQL.
//!
//! - [`Client`] submits tasks, in a transaction of yours too, waits for results, cancels, and asks
//!   why a task does not run.
//! - [`Worker`] owns tasks and runs their [`Handler`]s. It keeps their leases, reconnects, hears a
//!   cancel at once, and stops without losing a try.
//!
//! ```no_run
//! use scylla_pg::{Client, Connector, HandlerError, Spec, Task, Worker};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Welcome {
//!     to: String,
//! }
//!
//! impl Spec for Welcome {
//!     const QUEUE: &'static str = "mail";
//!     const ACTION: &'static str = "welcome";
//! }
//!
//! async fn welcome(task: Task<Welcome>) -> Result<String, HandlerError> {
//!     Ok(format!("sent to {}", task.spec.to))
//! }
//!
//! # async fn run() -> Result<(), scylla_pg::Error> {
//! let connector: Connector = "postgres://app@localhost/app".parse()?;
//! Client::connect(connector.clone()).submit(Welcome { to: "ann@example.com".into() }).await?;
//! Worker::builder(connector).register(welcome).build()?.run().await
//! # }
//! ```
//!
//! # Features
//!
//! | feature | |
//! |---|---|
//! | `sqlx` | [`Client::in_tx`] takes transactions of sqlx |
//! | `opentelemetry` | the module `telemetry`: spans and metrics |
//! | `testing` | the module `testing`: helpers for tests of code that submits, and of handlers |

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod calls;
mod client;
mod connector;
mod entry;
mod error;
mod events;
mod executor;
mod failure;
mod handle;
mod handler;
mod lease;
mod link;
mod machine;
mod outcome;
mod setup;
mod statements;
mod submission;
mod task;
#[cfg(feature = "opentelemetry")]
pub mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
mod values;
mod worker;

pub use client::{Client, InTx, SubmitService};
pub use connector::Connector;
pub use entry::{Entry, Settled, Status};
pub use error::{DatabaseError, Error, TaskError};
pub use executor::Executor;
pub use failure::HandlerError;
pub use handle::{WorkerHandle, WorkerStats};
pub use handler::{Handler, HandlerService};
pub use submission::{
    NewTask, NewTasks, OnConflict, OnFailure, Spec, Submission, SubmitOutcome, Submitted,
};
pub use task::{Cause, Task};
pub use values::{Interval, When};
pub use worker::{Worker, WorkerBuilder, run_all};

// types of these crates are part of the interface
pub use deadpool_postgres;
pub use serde_json;
pub use tokio_postgres;
pub use tower;
pub use uuid;

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
