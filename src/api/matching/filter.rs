//! Reading a filter: the members of a JSON object.

use crate::api::json;
use crate::api::validate;
use crate::error::{self, Result};
use crate::ops::matching::filter::{Filter, Status};
use crate::pg::datum;
use crate::pg::jsonb::{self, Json};
use board::Wall;
use pgrx::pg_sys::Datum;

/// All members, for the error of an unknown one.
const MEMBERS: &str = "queue, status, action, group_key, key, worker, created_before, created_after, \
                       spec or meta";

/// The filter of a jsonb.
pub fn filter(given: Datum) -> Result<Filter> {
    // SAFETY: the callers pass jsonb.
    let value = unsafe {
        validate::size("filter", jsonb::size(given))?;
        jsonb::read(given)
    };
    let Json::Object(object) = value else {
        return Err(error::wrong_type("filter", "an object"));
    };
    let mut filter = Filter::default();
    for (name, value) in jsonb::inside(object) {
        set(&mut filter, &name, value)?;
    }
    Ok(filter)
}

fn set(filter: &mut Filter, name: &[u8], value: Json) -> Result<()> {
    match name {
        b"queue" => filter.queue = Some(validate::queue(text("queue", value)?)?),
        b"status" => filter.status = Some(status(&text("status", value)?)?),
        b"action" => filter.action = Some(validate::action(text("action", value)?)?),
        b"group_key" => filter.group_key = Some(validate::group_key(text("group_key", value)?)?),
        b"key" => filter.key = Some(validate::key(text("key", value)?)?),
        b"worker" => filter.worker = Some(validate::worker(text("worker", value)?)?),
        b"created_before" => filter.created_before = Some(time("created_before", value)?),
        b"created_after" => filter.created_after = Some(time("created_after", value)?),
        b"spec" => filter.spec = Some(contained("spec", value)?.datum()),
        b"meta" => match contained("meta", value)? {
            Json::Object(object) => filter.meta = Some(object.datum()),
            _ => return Err(error::wrong_type("meta", "an object")),
        },
        _ => return Err(error::unknown_filter_member(&datum::printable(name), MEMBERS)),
    }
    Ok(())
}

/// A JSON value other than null: a client that has no value leaves the member out, so that no
/// filter takes more than was meant.
fn contained(name: &str, value: Json) -> Result<Json> {
    match value {
        Json::Null => Err(error::json_null(name)),
        value => Ok(value),
    }
}

fn text(name: &str, value: Json) -> Result<Vec<u8>> {
    match contained(name, value)? {
        Json::String(text) => Ok(text),
        _ => Err(error::wrong_type(name, "a string")),
    }
}

fn time(name: &str, value: Json) -> Result<Wall> {
    match contained(name, value)? {
        Json::String(text) => validate::time(name, json::time(name, &text)?),
        _ => Err(error::wrong_type(name, "a timestamptz")),
    }
}

fn status(word: &[u8]) -> Result<Status> {
    Status::parse(word).ok_or_else(|| {
        let known = r#""waiting", "ready", "running", "completed", "aborted" or "cancelled""#;
        validate::unknown("status", word, known)
    })
}
