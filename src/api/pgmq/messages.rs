//! Sending, reading, hiding and ending messages, for the functions of the schema `pgmq`.

use crate::api::call::Call;
use crate::api::call::argument::{Argument, Array, Integer, Jsonb, Text, Timestamptz};
use crate::api::call::declared::*;
use crate::api::validate::{self, ELEMENTS_MAX};
use crate::error::{self, Result};
use crate::extension::database::Database;
use crate::ops::pgmq::queues::{MessageQueue, find};
use crate::ops::pgmq::read::Wish;
use crate::ops::pgmq::{finish, look, read, send, set_vt};
use crate::pg::jsonb;
use crate::pg::time;
use crate::pg::uuid::{MESSAGE_MAX, Uuid};
use crate::xact::on_board::current_database;
use board::{Micros, Wall};
use pgrx::pg_sys::Datum;
use std::rc::Rc;

sql_functions!(
    PgmqSend => send_one,
    PgmqSendBatch => send_batch,
    PgmqRead => read_messages,
    PgmqPop => pop,
    PgmqSetVt => set_visible,
    PgmqEnd => end_one,
    PgmqEndBatch => end_batch,
);

/// The queue of a name, if the caller may call the function for it.
fn queue(call: &Call, db: &Database, name: &Argument<Text>) -> Result<Rc<MessageQueue>> {
    let queue = find(db, &name.required()?)?;
    call.authorize(&queue.queue)?;
    Ok(queue)
}

/// The id of a message; `None`: no message has the number.
fn id(queue: &MessageQueue, number: i64) -> Option<Uuid> {
    (0..=MESSAGE_MAX).contains(&number).then(|| Uuid::message(queue.hash, number))
}

/// The ids of messages; nulls, and numbers that no message has, are passed over.
fn ids(queue: &MessageQueue, numbers: Option<Vec<Option<Datum>>>) -> Vec<Uuid> {
    let number = |it: Option<Datum>| it.map(|it| it.value() as i64);
    let numbers = numbers.unwrap_or_default().into_iter().filter_map(number);
    numbers.filter_map(|number| id(queue, number)).collect()
}

/// When a message becomes visible; `None`: at once.
pub fn delay(argument: &Argument<Timestamptz>) -> Result<Option<Wall>> {
    argument.optional().map(|at| validate::time(argument.name, at)).transpose()
}

/// Messages, each with its headers.
pub fn batch(
    msgs: &Argument<Array<Jsonb>>,
    headers: &Argument<Array<Jsonb>>,
) -> Result<Vec<(Datum, Option<Datum>)>> {
    let messages = msgs.elements(ELEMENTS_MAX)?.unwrap_or_default();
    if messages.is_empty() {
        return Err(error::no_messages());
    }
    let of_each = match headers.elements(ELEMENTS_MAX)? {
        None => vec![None; messages.len()],
        Some(some) if some.len() == messages.len() => some,
        Some(some) => return Err(error::headers_differ(some.len(), messages.len())),
    };
    let pair = |(message, of_one): (Option<Datum>, Option<Datum>)| {
        let of_one = of_one.map(|it| json(headers.name, Some(it))).transpose()?;
        Ok((json(msgs.name, message)?, of_one))
    };
    messages.into_iter().zip(of_each).map(pair).collect()
}

/// A message, or the headers of one: JSON of any type, and JSON null for an SQL null.
fn json(name: &str, value: Option<Datum>) -> Result<Datum> {
    let value = value.unwrap_or_else(jsonb::null);
    // SAFETY: declared as jsonb.
    validate::size(name, unsafe { jsonb::size(value) })?;
    Ok(value)
}

/// Takes a queue, a message, its headers or null, and when it becomes visible or null. Returns its
/// number.
fn send_one(call: &mut Call, args: PgmqSend) -> Result<Option<Datum>> {
    let db = current_database();
    let queue = queue(call, &db, &args.queue_name)?;
    let message = json(args.msg.name, args.msg.datum())?;
    let headers = args.headers.datum().map(|it| json(args.headers.name, Some(it))).transpose()?;
    let at = delay(&args.delay)?;
    let sent = send::send(&db, &queue, [(message, headers)].into_iter(), at)?;
    Ok(sent.first().map(|number| Datum::from(*number)))
}

/// As `send_one`, of arrays of messages and of their headers, or null. Returns a row per message.
fn send_batch(call: &mut Call, args: PgmqSendBatch) -> Result<Option<Datum>> {
    let db = current_database();
    let queue = queue(call, &db, &args.queue_name)?;
    let batch = batch(&args.msgs, &args.headers)?;
    let at = delay(&args.delay)?;
    let mut rows = call.rows()?;
    for number in send::send(&db, &queue, batch.into_iter(), at)? {
        rows.add([Some(Datum::from(number))]);
    }
    Ok(None)
}

/// How many messages the caller wants; none for zero.
fn quantity(qty: &Argument<Integer>) -> Result<usize> {
    match qty.required()? {
        0 => Ok(0),
        number => validate::max_tasks(number),
    }
}

/// Takes a queue, for how many seconds others do not see the messages, how many, what they contain
/// or null, how groups are read, for how many seconds to wait for messages, and how often to look
/// in milliseconds. Returns a row per message.
fn read_messages(call: &mut Call, args: PgmqRead) -> Result<Option<Datum>> {
    let db = current_database();
    let queue = queue(call, &db, &args.queue_name)?;
    let length = Micros::from_secs(args.vt.required()?);
    let most = quantity(&args.qty)?;
    let until = time::monotonic() + Micros::from_secs(args.max_poll_seconds.required()?.max(0));
    let pause = Micros::from_millis(args.poll_interval_ms.required()?.max(1));
    let grouped = args.grouped.required()?;
    // SAFETY: declared as jsonb.
    let contains = args.conditional.datum().filter(|it| unsafe { !jsonb::is_empty(*it) });
    let wish = match contains {
        _ if !grouped.is_empty() => Wish::OfGroups(&grouped),
        Some(part) => Wish::Containing(part),
        None => Wish::First,
    };
    let mut rows = call.rows()?;
    if most == 0 {
        return Ok(None);
    }
    read::poll(&db, &queue, until, pause, || {
        let again = call.again()?;
        again.authorize(&queue.queue)?;
        read::read(&db, &queue, wish, most, length, |row| rows.add(row))
    })?;
    Ok(None)
}

/// Takes a queue, and how many messages. Deletes them, and returns a row for each.
fn pop(call: &mut Call, args: PgmqPop) -> Result<Option<Datum>> {
    let db = current_database();
    let queue = queue(call, &db, &args.queue_name)?;
    let most = quantity(&args.qty)?;
    let mut rows = call.rows()?;
    if most > 0 {
        read::pop(&db, &queue, most, |row| rows.add(row))?;
    }
    Ok(None)
}

/// Takes a queue, the numbers of messages, and when they become visible. Returns a row for each
/// that there is.
fn set_visible(call: &mut Call, args: PgmqSetVt) -> Result<Option<Datum>> {
    let db = current_database();
    let queue = queue(call, &db, &args.queue_name)?;
    let until = validate::time("vt", args.vt.required()?)?;
    let ids = ids(&queue, args.msg_ids.elements(ELEMENTS_MAX)?);
    let mut rows = call.rows()?;
    let live = set_vt::set_vt(&db, &queue, &ids, until)?;
    look::some(&db, &queue, &live, |[number, read_ct, sent, read, _, vt, message, headers]| {
        rows.add([number, read_ct, sent, read, vt, message, headers]);
    });
    Ok(None)
}

/// Takes a queue, the number of a message, and whether it is archived, not deleted. Returns false
/// if there is no such message.
fn end_one(call: &mut Call, args: PgmqEnd) -> Result<Option<Datum>> {
    let db = current_database();
    let queue = queue(call, &db, &args.queue_name)?;
    let archive = args.archive.required()?;
    let id = args.msg_id.optional().and_then(|number| id(&queue, number));
    let ended = match id {
        Some(id) => finish::end(&db, &queue.queue, &[id], archive)?,
        None => Vec::new(),
    };
    Ok(Some(Datum::from(!ended.is_empty())))
}

/// As `end_one`, of an array of numbers. Returns a row with the number of each message that there
/// was.
fn end_batch(call: &mut Call, args: PgmqEndBatch) -> Result<Option<Datum>> {
    let db = current_database();
    let queue = queue(call, &db, &args.queue_name)?;
    let archive = args.archive.required()?;
    let ids = ids(&queue, args.msg_ids.elements(ELEMENTS_MAX)?);
    let mut rows = call.rows()?;
    for id in finish::end(&db, &queue.queue, &ids, archive)? {
        rows.add([id.message_number().map(Datum::from)]);
    }
    Ok(None)
}
