//! SQL functions of messages: `delay`, `delay_messages` and `cancel_message`.

use crate::api::call::Call;
use crate::api::call::declared::*;
use crate::api::{json, validate};
use crate::error::{self, Result};
use crate::ops::submit::messages::{self, Delayed, Message};
use crate::pg::datum;
use crate::pg::jsonb::{self, Container, Json};
use crate::storage::privileges::Privileges;
use crate::xact::on_board::current_database;
use pgrx::pg_sys::{Datum, Oid};

sql_functions!(
    DelayMessage => delay_message,
    DelayMessages => delay_messages,
    CancelMessage => cancel_message,
);

/// Headers about the delay itself, which are left out of the task's spec.
const DELAY_HEADERS: [&str; 2] = ["chronosMessageId", "chronosDeadline"];

/// Takes a message: id, deadline, queue, value, key, headers. Returns false if another message
/// waits under the id, or if this one is dropped because its id or its deadline is not valid.
fn delay_message(call: &mut Call, args: DelayMessage) -> Result<Option<Datum>> {
    let queue = validate::open_queue(args.queue.required()?)?;
    call.authorize(&queue)?;
    let (id, value, key) = (args.id.optional(), args.value.optional(), args.key.optional());
    let checked = args
        .id
        .required()
        .and_then(validate::message_id)
        .and_then(|_| validate::time("deadline", args.deadline.required()?));
    let deadline = match checked {
        Ok(deadline) => deadline,
        Err(why) => {
            error::warn_message_dropped(&queue, id.as_deref(), &why);
            return Ok(Some(Datum::from(false)));
        }
    };
    // SAFETY: declared as jsonb.
    let headers = headers(unsafe { jsonb::read(args.headers.required()?) })?;
    let id = id.unwrap_or_default();
    let spec = spec(&id, key.as_deref(), value.as_deref(), headers)?;
    let message = Message { id, deadline, spec, group_key: None };
    let answer = messages::delay_messages(&current_database(), &queue, &[message]);
    Ok(Some(Datum::from(answer[0] != Delayed::Ignored)))
}

/// Takes a queue and a JSON array of messages. Returns a row per message: its id, and whether it
/// was delayed, fired, ignored or invalid.
fn delay_messages(call: &mut Call, args: DelayMessages) -> Result<Option<Datum>> {
    let queue = validate::open_queue(args.queue.required()?)?;
    call.authorize(&queue)?;
    let messages = args.messages.required()?;
    let elements = validate::elements("messages", "an array of objects", messages)?;
    let mut rows = call.rows()?;
    let mut messages = Vec::with_capacity(elements.len());
    // For each element: its id, if it has one, and whether it is valid.
    let mut checked = Vec::with_capacity(elements.len());
    for element in elements {
        let mut id = None;
        let answer = message(element, &mut id);
        if let Err(why) = &answer {
            error::warn_message_dropped(&queue, id.as_deref(), why);
        }
        checked.push((id, answer.is_ok()));
        messages.extend(answer);
        pgrx::check_for_interrupts!();
    }
    let mut delayed = messages::delay_messages(&current_database(), &queue, &messages).into_iter();
    for (id, is_valid) in checked {
        let delayed = if is_valid { delayed.next() } else { None };
        let outcome = match delayed {
            Some(Delayed::Waits) => "delayed",
            Some(Delayed::Fired) => "fired",
            Some(Delayed::Ignored) => "ignored",
            None => "invalid",
        };
        rows.add([id.map(|id| datum::varlena(&id)), Some(datum::varlena(outcome.as_bytes()))]);
    }
    Ok(None)
}

/// Takes a queue and a message's id, and cancels the message. Returns false if none waits.
fn cancel_message(call: &mut Call, args: CancelMessage) -> Result<Option<Datum>> {
    let queue = validate::queue(args.queue.required()?)?;
    call.authorize(&queue)?;
    let id = args.id.required()?;
    // Without the privilege to cancel, a role cancels what it has sent itself.
    let may_cancel = call.may(Privileges::CANCEL, &queue);
    let authorize = |sender: Oid| match may_cancel || call.has_those_of(sender) {
        true => Ok(()),
        false => Err(error::denied_on_message(call.role(), &queue, &id)),
    };
    Ok(Some(Datum::from(messages::cancel_message(&current_database(), &queue, &id, authorize)?)))
}

/// The message of an element of a batch. Sets `id` to the element's id, even if the message is not
/// valid.
fn message(element: Json, id: &mut Option<Vec<u8>>) -> Result<Message> {
    let Json::Object(object) = element else {
        return Err(error::wrong_type("an element of messages", "an object"));
    };
    let mut members = jsonb::inside(object);
    let mut take = |name: &str| {
        let at = members.iter().position(|(it, _)| it == name.as_bytes());
        at.map(|at| members.swap_remove(at).1)
    };
    let given = take("id");
    if let Some(Json::String(text)) = &given {
        *id = Some(text.clone());
    }
    let checked = string("id", given)?.ok_or_else(|| error::missing("id"))?;
    let checked = validate::message_id(checked)?;
    let deadline = string("deadline", take("deadline"))?;
    let deadline = deadline.ok_or_else(|| error::missing("deadline"))?;
    let deadline = validate::time("deadline", json::time("deadline", &deadline)?)?;
    let (key, value) = (string("key", take("key"))?, string("value", take("value"))?);
    let group_key = string("group_key", take("group_key"))?.map(validate::group_key).transpose()?;
    let headers = match take("headers") {
        None => jsonb::empty_object(),
        Some(given) => headers(given)?,
    };
    if let Some((name, _)) = members.first() {
        return Err(error::unknown_member("message", &datum::printable(&**name), "scylla.delay"));
    }
    let spec = spec(&checked, key.as_deref(), value.as_deref(), headers)?;
    Ok(Message { id: checked, deadline, spec, group_key })
}

/// A member that may be null or missing.
fn string(name: &str, given: Option<Json>) -> Result<Option<Vec<u8>>> {
    match given {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) => Ok(Some(text)),
        _ => Err(error::wrong_type(name, "a string")),
    }
}

/// The headers without `DELAY_HEADERS`.
fn headers(given: Json) -> Result<Container> {
    match given {
        Json::Object(headers) => Ok(jsonb::without(headers, &DELAY_HEADERS)),
        _ => Err(error::wrong_type("headers", "an object")),
    }
}

/// The spec of the task that a message becomes.
fn spec(id: &[u8], key: Option<&[u8]>, value: Option<&[u8]>, headers: Container) -> Result<Datum> {
    // Checked before it is made: a jsonb has room for 256 MB.
    let texts = id.len() + key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len);
    // SAFETY: a container is a jsonb.
    validate::size("spec", texts + unsafe { jsonb::size(headers.datum()) })?;
    validate::spec(jsonb::object(
        &[("id", Some(id)), ("key", key), ("value", value)],
        ("headers", headers),
    ))
}
