//! What a caller meets.

use std::{error::Error as StdError, fmt};

use deadpool_postgres::PoolError;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

/// Why a call has failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The server refused the call, or could not be reached.
    Database(DatabaseError),
    /// A value has no form in JSON, or a result is not of the type that was asked for.
    Json(serde_json::Error),
    /// The server has no scylla, or one that this version of the client cannot work with.
    Incompatible(String),
    /// A worker or a connection cannot be set up like this.
    Config(String),
    /// The task whose result was asked for has failed for good.
    Aborted {
        /// The task.
        id: Uuid,
        /// What it failed with, oldest first.
        errors: Vec<TaskError>,
    },
    /// The task whose result was asked for has been cancelled.
    Cancelled {
        /// The task.
        id: Uuid,
    },
    /// The task whose result was asked for has not settled in time.
    NotSettled {
        /// The task.
        id: Uuid,
    },
}

/// An error of the server or of the connection, whichever driver reported it.
#[derive(Debug)]
pub struct DatabaseError(Box<Fields>);

#[derive(Debug)]
struct Fields {
    message: String,
    sqlstate: Option<String>,
    detail: Option<String>,
    hint: Option<String>,
    constraint: Option<String>,
    source: Box<dyn StdError + Send + Sync>,
}

/// An entry of a task's `errors`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskError {
    /// What kind of error it is.
    pub code: String,
    /// What has happened, for people.
    pub description: String,
    /// More about it.
    #[serde(default)]
    pub args: Map<String, Value>,
}

impl Error {
    /// The SQLSTATE, when the server has refused the call.
    pub fn sqlstate(&self) -> Option<&str> {
        self.database()?.sqlstate()
    }

    /// The constraint that a conflict (SQLSTATE 23505) names: `task_pkey` for an id that exists,
    /// `task_key` for a key that is taken.
    pub fn constraint(&self) -> Option<&str> {
        self.database()?.constraint()
    }

    fn database(&self) -> Option<&DatabaseError> {
        match self {
            Self::Database(error) => Some(error),
            _ => None,
        }
    }
}

impl DatabaseError {
    /// The SQLSTATE, when the server has refused the call; none: the connection was lost, or not
    /// made.
    pub fn sqlstate(&self) -> Option<&str> {
        self.0.sqlstate.as_deref()
    }

    /// The primary message.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The message's detail.
    pub fn detail(&self) -> Option<&str> {
        self.0.detail.as_deref()
    }

    /// What can be done.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// The constraint that a conflict names.
    pub fn constraint(&self) -> Option<&str> {
        self.0.constraint.as_deref()
    }

    fn unknown(source: impl StdError + Send + Sync + 'static) -> Self {
        Self(Box::new(Fields {
            message: with_sources(&source),
            sqlstate: None,
            detail: None,
            hint: None,
            constraint: None,
            source: Box::new(source),
        }))
    }
}

/// An error's text with those of its sources: a driver's own says only "db error".
pub(crate) fn with_sources(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let more = source.to_string();
        if !text.ends_with(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        next = source.source();
    }
    text
}

impl From<tokio_postgres::Error> for DatabaseError {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(refusal) = error.as_db_error() else { return Self::unknown(error) };
        Self(Box::new(Fields {
            message: refusal.message().into(),
            sqlstate: Some(refusal.code().code().into()),
            detail: refusal.detail().map(Into::into),
            hint: refusal.hint().map(Into::into),
            constraint: refusal.constraint().map(Into::into),
            source: Box::new(error),
        }))
    }
}

impl From<PoolError> for DatabaseError {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) => error.into(),
            other => Self::unknown(other),
        }
    }
}

#[cfg(feature = "sqlx")]
impl From<sqlx::Error> for DatabaseError {
    fn from(error: sqlx::Error) -> Self {
        let Some(refusal) = error
            .as_database_error()
            .and_then(|it| it.try_downcast_ref::<sqlx::postgres::PgDatabaseError>())
        else {
            return Self::unknown(error);
        };
        Self(Box::new(Fields {
            message: refusal.message().into(),
            sqlstate: Some(refusal.code().into()),
            detail: refusal.detail().map(Into::into),
            hint: refusal.hint().map(Into::into),
            constraint: refusal.constraint().map(Into::into),
            source: Box::new(error),
        }))
    }
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error.into())
    }
}

impl From<PoolError> for Error {
    fn from(error: PoolError) -> Self {
        Self::Database(error.into())
    }
}

#[cfg(feature = "sqlx")]
impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error.into())
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error)
    }
}

impl fmt::Display for DatabaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        if let Some(sqlstate) = &self.0.sqlstate {
            write!(f, " (SQLSTATE {sqlstate})")?;
        }
        if let Some(detail) = &self.0.detail {
            write!(f, ": {detail}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Database(error) => error.fmt(f),
            Self::Json(error) => write!(f, "JSON: {error}"),
            Self::Incompatible(why) | Self::Config(why) => f.write_str(why),
            Self::Aborted { id, errors } => {
                write!(f, "task {id} was aborted")?;
                match errors.iter().rfind(|error| error.code != "tries_exhausted") {
                    Some(error) if error.description.is_empty() => write!(f, ": {}", error.code),
                    Some(error) => write!(f, ": {}", error.description),
                    None => Ok(()),
                }
            }
            Self::Cancelled { id } => write!(f, "task {id} was cancelled"),
            Self::NotSettled { id } => write!(f, "task {id} has not settled in time"),
        }
    }
}

impl StdError for DatabaseError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.0.source)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Database(error) => error.source(),
            Self::Json(error) => Some(error),
            _ => None,
        }
    }
}
