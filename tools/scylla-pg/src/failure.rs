//! Why the program ends without success.

use std::error::Error as _;
use std::fmt::{self, Display};
use std::io;
use tokio_postgres::error::SqlState;

/// What is written to stderr, and the exit status.
#[derive(Debug)]
pub struct Failure {
    /// Empty: there is nothing to write.
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
    pub code: Option<SqlState>,
    pub status: u8,
    /// Trying again would not help.
    pub is_fatal: bool,
}

impl Failure {
    pub fn new(message: impl Into<String>) -> Failure {
        Failure {
            message: message.into(),
            detail: None,
            hint: None,
            code: None,
            status: 1,
            is_fatal: false,
        }
    }

    /// The output says what is wrong.
    pub fn silent() -> Failure {
        Failure::new("")
    }

    /// A call of the program that makes no sense.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure { status: 2, ..Failure::new(message) }
    }

    pub fn detail(self, detail: impl Into<String>) -> Failure {
        Failure { detail: Some(detail.into()), ..self }
    }

    pub fn fatal(self) -> Failure {
        Failure { is_fatal: true, ..self }
    }

    /// Whether trying again would not help: what was called is missing, or not allowed.
    pub fn is_fatal(&self) -> bool {
        let class = self.code.as_ref().and_then(|code| code.code().get(..2));
        self.is_fatal || self.status == 2 || matches!(class, Some("28" | "3D" | "3F" | "42"))
    }

    pub fn hint(self, hint: impl Into<String>) -> Failure {
        Failure { hint: Some(hint.into()), ..self }
    }
}

impl Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "scylla-pg: {}", self.message)?;
        if let Some(detail) = &self.detail {
            write!(out, "\nDETAIL: {detail}")?;
        }
        if let Some(hint) = &self.hint {
            write!(out, "\nHINT: {hint}")?;
        }
        Ok(())
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Failure {
        let Some(server) = error.as_db_error() else {
            let mut message = error.to_string();
            // A cause that the message has already is not said twice.
            if let Some(cause) = error.source().map(|cause| cause.to_string())
                && !message.contains(&cause)
            {
                message = format!("{message}: {cause}");
            }
            return Failure::new(message);
        };
        Failure {
            detail: server.detail().map(str::to_owned),
            hint: server.hint().map(str::to_owned),
            code: Some(server.code().clone()),
            ..Failure::new(server.message())
        }
    }
}

impl From<io::Error> for Failure {
    /// A reader that has seen enough, such as `head`, is no failure.
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure { status: 0, ..Failure::silent() },
            _ => Failure::new(error.to_string()),
        }
    }
}
