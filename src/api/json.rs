//! Values of JSON members as values of SQL types.

use crate::api::validate;
use crate::error::{self, Result};
use crate::memory;
use crate::pg::datum;
use crate::pg::jsonb::{Container, Json};
use crate::pg::uuid::Uuid;
use board::{Micros, Wall};
use pgrx::pg_sys::panic::CaughtError;
use pgrx::pg_sys::{self, Datum};
use pgrx::{PgSqlErrorCode, PgTryBuilder};

/// What an array of ids must be.
pub const UUIDS: &str = "an array of uuids";

/// Parses the strings of a JSON array as uuids.
pub fn uuids(name: &str, array: Container) -> Result<Vec<Uuid>> {
    let uuid = |element: Json| match element {
        Json::String(text) => Uuid::parse(&text),
        _ => None,
    };
    let elements = validate::elements(name, UUIDS, array.datum())?;
    let uuids: Option<Vec<Uuid>> = elements.into_iter().map(uuid).collect();
    uuids.ok_or_else(|| error::wrong_type(name, UUIDS))
}

/// Parses a text as a uuid.
pub fn uuid(name: &str, text: &[u8]) -> Result<Uuid> {
    Uuid::parse(text).ok_or_else(|| error::wrong_type(name, "a uuid"))
}

/// Parses a JSON number as an integer; 1.0 is one. Any other number becomes `i64::MIN`, which
/// every range check refuses.
pub fn integer(text: &str) -> i64 {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_whole = fraction.bytes().all(|digit| digit == b'0');
    whole.parse().ok().filter(|_| is_whole).unwrap_or(i64::MIN)
}

/// Parses a text as an interval; returns it with its length.
pub fn interval(name: &str, text: &[u8]) -> Result<(Datum, Micros)> {
    let interval = parse(pg_sys::interval_in, text);
    let interval = interval.ok_or_else(|| error::wrong_type(name, "an interval"))?;
    Ok((interval, datum::interval_length(Some(interval))))
}

/// Parses a text as a timestamptz.
pub fn time(name: &str, text: &[u8]) -> Result<Wall> {
    let time = parse(pg_sys::timestamptz_in, text);
    time.map(datum::wall).ok_or_else(|| error::wrong_type(name, "a timestamptz"))
}

/// An input function.
type Input = unsafe fn(pg_sys::FunctionCallInfo) -> Datum;

/// The value of a text, by a type's input function; `None` if the text is not one of the type's.
fn parse(input: Input, text: &[u8]) -> Option<Datum> {
    let text = std::ffi::CString::new(text).ok()?;
    // Catching the error needs no subtransaction: an input function changes nothing that would
    // have to be undone.
    PgTryBuilder::new(std::panic::AssertUnwindSafe(|| {
        // SAFETY: an input function takes a text that ends with a zero, a type's oid and a
        // modifier.
        unsafe {
            pgrx::direct_function_call_as_datum(
                input,
                &[Some(Datum::from(text.as_ptr())), Some(Datum::from(0)), Some(Datum::from(-1))],
            )
        }
    }))
    .catch_others(|error| {
        if !is_data_exception(&error) {
            error.rethrow();
        }
        memory::replenish();
        None
    })
    .execute()
}

/// Whether an error is about a value (class 22), and not about what the server lacks.
fn is_data_exception(error: &CaughtError) -> bool {
    const CLASS: i32 = 0xfff;
    let (CaughtError::PostgresError(report)
    | CaughtError::ErrorReport(report)
    | CaughtError::RustPanic { ereport: report, .. }) = error;
    let class = |code: PgSqlErrorCode| code as i32 & CLASS;
    class(report.sql_error_code()) == class(PgSqlErrorCode::ERRCODE_DATA_EXCEPTION)
}
