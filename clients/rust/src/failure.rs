//! How a handler says that it has not done its work.

use std::{
    any::type_name,
    backtrace::{Backtrace, BacktraceStatus},
    error::Error as StdError,
    fmt,
};

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    error::{TaskError, with_sources},
    values::When,
};

/// Why a handler has not done its work, and what becomes of the task.
///
/// Any error converts into [`HandlerError::Retry`], so `?` in a handler means: try again. The
/// server decides when, and how often.
///
/// ```
/// use std::time::Duration;
/// use scylla_pg::HandlerError;
///
/// fn check(address: &str, at_night: bool) -> Result<u16, HandlerError> {
///     if at_night {
///         return Err(HandlerError::snooze(Duration::from_secs(3600)));
///     }
///     let Some((_, port)) = address.split_once(':') else {
///         return Err(HandlerError::abort("bad_address", "no port").with("address", address));
///     };
///     Ok(port.parse()?)
/// }
/// # assert!(matches!(check("a:1", true), Err(HandlerError::Snooze(_))));
/// # assert!(matches!(check("a", false), Err(HandlerError::Abort(_))));
/// # assert!(matches!(check("a:b", false), Err(HandlerError::Retry(_))));
/// ```
#[derive(Debug, Clone)]
pub enum HandlerError {
    /// The try has failed: the task is tried again, unless its tries are exhausted.
    Retry(TaskError),
    /// The task has failed for good, whatever tries are left.
    Abort(TaskError),
    /// The task is run later, and this try is not counted.
    Snooze(When),
}

impl HandlerError {
    /// Fails the task for good.
    pub fn abort(code: impl Into<String>, description: impl Into<String>) -> Self {
        Self::Abort(TaskError {
            code: code.into(),
            description: description.into(),
            args: Map::new(),
        })
    }

    /// Hands the task back for later, without counting the try.
    pub fn snooze(until: impl Into<When>) -> Self {
        Self::Snooze(until.into())
    }

    /// Fails the try with any error, also one that is no [`std::error::Error`], such as those of
    /// anyhow:
    /// `.map_err(HandlerError::retry)`.
    pub fn retry(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::of("error", &*error.into())
    }

    /// Notes more about the error, in its `args`. What has no form in JSON is noted as null.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Serialize) -> Self {
        if let Self::Retry(error) | Self::Abort(error) = &mut self {
            error.args.insert(name.into(), serde_json::to_value(value).unwrap_or_default());
        }
        self
    }

    /// Makes the code of a [`Retry`](Self::Retry) or an [`Abort`](Self::Abort) another one.
    #[must_use]
    pub fn code(mut self, code: impl Into<String>) -> Self {
        if let Self::Retry(error) | Self::Abort(error) = &mut self {
            error.code = code.into();
        }
        self
    }

    fn of(code: &str, error: &(dyn StdError + 'static)) -> Self {
        let mut traceback = with_sources(error);
        let backtrace = Backtrace::capture(); // when RUST_BACKTRACE asks for it
        if backtrace.status() == BacktraceStatus::Captured {
            traceback.push_str(&format!("\n{backtrace}"));
        }
        Self::Retry(TaskError {
            code: code.into(),
            description: error.to_string(),
            args: Map::from_iter([("traceback".into(), Value::String(traceback))]),
        })
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self::of(type_name::<E>(), &error)
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Retry(error) | Self::Abort(error) if error.description.is_empty() => {
                f.write_str(&error.code)
            }
            Self::Retry(error) | Self::Abort(error) => f.write_str(&error.description),
            Self::Snooze(_) => f.write_str("later"),
        }
    }
}
