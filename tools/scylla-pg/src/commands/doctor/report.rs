//! What the checks have found.

use crate::failure::Failure;
use tokio_postgres::error::SqlState;

#[derive(Clone, Copy, PartialEq)]
pub enum Severity {
    Error,
    Warning,
    Note,
    Ok,
}

pub struct Finding {
    pub check: &'static str,
    pub severity: Severity,
    pub message: String,
    pub hint: String,
}

/// What was found; of each check one finding at least.
#[derive(Default)]
pub struct Report(pub Vec<Finding>);

impl Report {
    fn add(&mut self, check: &'static str, severity: Severity, message: String, hint: &str) {
        self.0.push(Finding { check, severity, message, hint: hint.to_owned() });
    }

    pub fn error(&mut self, check: &'static str, message: impl Into<String>, hint: &str) {
        self.add(check, Severity::Error, message.into(), hint);
    }

    pub fn warning(&mut self, check: &'static str, message: impl Into<String>, hint: &str) {
        self.add(check, Severity::Warning, message.into(), hint);
    }

    pub fn note(&mut self, check: &'static str, message: impl Into<String>, hint: &str) {
        self.add(check, Severity::Note, message.into(), hint);
    }

    /// A check that the role may not do is a note, and no failure.
    pub fn permitted(
        &mut self,
        check: &'static str,
        result: Result<(), Failure>,
    ) -> Result<(), Failure> {
        match result {
            Err(failure) if failure.code == Some(SqlState::INSUFFICIENT_PRIVILEGE) => {
                let hint = "Grant pg_monitor to the role, or connect as another one.";
                self.note(check, "not checked: no queue is shown to this role", hint);
                Ok(())
            }
            result => result,
        }
    }

    /// Unless the check has found something else.
    pub fn ok(&mut self, check: &'static str, message: impl Into<String>) {
        if !self.0.iter().any(|finding| finding.check == check) {
            self.add(check, Severity::Ok, message.into(), "");
        }
    }
}
