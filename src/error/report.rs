//! The type of errors, and how PostgreSQL gets them.

use crate::pg::command::simple_query::{self, Failure};
use pgrx::pg_sys;
use pgrx::pg_sys::AsPgCStr;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use std::ffi::{CStr, c_char, c_int};

/// An error that is not raised yet.
#[derive(Debug, Clone)]
pub struct Error {
    code: PgSqlErrorCode,
    message: String,
    detail: Option<String>,
    hint: Option<String>,
    constraint: Option<&'static CStr>,
}

/// The result of a call that can fail with such an error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error with an SQLSTATE and a primary message.
    pub(super) fn new(code: PgSqlErrorCode, message: impl Into<String>) -> Error {
        Error { code, message: message.into(), detail: None, hint: None, constraint: None }
    }

    /// Adds a fact to DETAIL, a full sentence.
    pub(super) fn detail(self, fact: impl Into<String>) -> Error {
        let fact = fact.into();
        let detail = match self.detail {
            Some(detail) => format!("{detail} {fact}"),
            None => fact,
        };
        Error { detail: Some(detail), ..self }
    }

    /// Sets the HINT, which begins with a verb.
    pub(super) fn hint(self, hint: impl Into<String>) -> Error {
        Error { hint: Some(hint.into()), ..self }
    }

    /// Sets the constraint of `scylla.task` that the call conflicts with.
    pub(super) fn constraint(self, name: &'static CStr) -> Error {
        Error { constraint: Some(name), ..self }
    }

    /// The primary message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The error as the failure of a command.
    pub fn as_failure(&self) -> Failure {
        let text = |it: &Option<String>| it.as_deref().unwrap_or_default().as_bytes().to_vec();
        Failure {
            sqlstate: simple_query::sqlstate(self.code as i32),
            message: self.message.clone().into_bytes(),
            detail: text(&self.detail),
            hint: text(&self.hint),
        }
    }

    /// The message as a sentence, with its detail.
    pub fn sentence(&self) -> String {
        let detail = self.detail.as_deref().map_or(String::new(), |detail| format!(" {detail}"));
        let (first, rest) = self.message.split_at_checked(1).unwrap_or(("", &self.message));
        format!("{}{rest}.{detail}", first.to_uppercase())
    }

    /// Whether the id or the key of a submission is taken.
    pub fn is_duplicate(&self) -> bool {
        let codes =
            [PgSqlErrorCode::ERRCODE_UNIQUE_VIOLATION, PgSqlErrorCode::ERRCODE_OBJECT_IN_USE];
        codes.contains(&self.code)
    }

    /// Adds the element of the array, counted from 1, that caused the error.
    pub fn of_element(self, number: usize) -> Error {
        self.detail(format!("The error is in element {number} of the array."))
    }

    /// Raises the error as a panic, so that guards are dropped. A constraint does not pass this
    /// way: a conflict is returned instead.
    pub fn raise(self) -> ! {
        self.report(PgLogLevel::ERROR);
        unreachable!("an error does not return")
    }

    /// Reports the error as a warning or a line of the log.
    pub fn report(self, level: PgLogLevel) {
        let mut report = ErrorReport::new(self.code, self.message, "");
        if let Some(detail) = self.detail {
            report = report.set_detail(detail);
        }
        if let Some(hint) = self.hint {
            report = report.set_hint(hint);
        }
        report.report(level);
    }

    /// Copies the error into the current memory context.
    pub fn into_report(self) -> Report {
        Report {
            code: self.code as c_int,
            message: self.message.as_pg_cstr(),
            detail: self.detail.as_pg_cstr(),
            hint: self.hint.as_pg_cstr(),
            constraint: self.constraint,
        }
    }
}

/// The value of a result, or its error raised.
pub fn unwrap_or_raise<T>(result: Result<T>) -> T {
    result.unwrap_or_else(|error| error.raise())
}

// pgrx leaves these out, and its own reports have no constraint.
unsafe extern "C-unwind" {
    fn errstart(level: c_int, domain: *const c_char) -> bool;
    fn errcode(code: c_int) -> c_int;
    fn errmsg(format: *const c_char, ...) -> c_int;
    fn errdetail(format: *const c_char, ...) -> c_int;
    fn errhint(format: *const c_char, ...) -> c_int;
    fn err_generic_string(field: c_int, text: *const c_char) -> c_int;
    fn errfinish(file: *const c_char, line: c_int, function: *const c_char);
}

/// An error in memory of PostgreSQL, which a long jump does not leak.
#[derive(Clone, Copy)]
pub struct Report {
    code: c_int,
    message: *const c_char,
    /// Null: none. So is the hint.
    detail: *const c_char,
    hint: *const c_char,
    constraint: Option<&'static CStr>,
}

impl Report {
    /// Raises the error as C does.
    ///
    /// # Safety
    /// Leaves by a long jump to PostgreSQL: no frame of Rust in between may have anything to drop.
    pub unsafe fn throw(self) -> ! {
        const TEXT: *const c_char = c"%s".as_ptr();
        // SAFETY: the texts end with a zero, and PostgreSQL copies them.
        unsafe {
            errstart(PgLogLevel::ERROR as c_int, std::ptr::null());
            errcode(self.code);
            errmsg(TEXT, self.message);
            if !self.detail.is_null() {
                errdetail(TEXT, self.detail);
            }
            if !self.hint.is_null() {
                errhint(TEXT, self.hint);
            }
            if let Some(constraint) = self.constraint {
                err_generic_string(pg_sys::PG_DIAG_SCHEMA_NAME.into(), c"scylla".as_ptr());
                err_generic_string(pg_sys::PG_DIAG_TABLE_NAME.into(), c"task".as_ptr());
                err_generic_string(pg_sys::PG_DIAG_CONSTRAINT_NAME.into(), constraint.as_ptr());
            }
            let file = concat!(file!(), "\0").as_ptr();
            errfinish(file.cast(), line!() as c_int, std::ptr::null());
        }
        unreachable!("an error does not return")
    }
}
