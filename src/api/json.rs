//! Values of JSON members as values of SQL types.

use crate::api::validate;
use crate::error::{self, Result};
use crate::pg::datum;
use crate::pg::jsonb::{Container, Json};
use crate::pg::uuid::Uuid;
use board::{Micros, Wall};
use pgrx::pg_sys::{self, Datum};

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
    let interval = datum::parse(pg_sys::interval_in, text);
    let interval = interval.ok_or_else(|| error::wrong_type(name, "an interval"))?;
    Ok((interval, datum::interval_length(Some(interval))))
}

/// Parses a text as a timestamptz.
pub fn time(name: &str, text: &[u8]) -> Result<Wall> {
    let time = datum::parse(pg_sys::timestamptz_in, text);
    time.map(datum::wall).ok_or_else(|| error::wrong_type(name, "a timestamptz"))
}
