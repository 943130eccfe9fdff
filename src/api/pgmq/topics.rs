//! Topics and notifications of the schema `pgmq`.

use crate::api::call::Call;
use crate::api::call::declared::*;
use crate::api::pgmq::messages::{batch, delay};
use crate::error::{self, Result};
use crate::ops::pgmq::queues::{self, find};
use crate::ops::pgmq::send;
use crate::ops::pgmq::topics::{self, Topic};
use crate::pg::datum;
use crate::storage::privileges::{Privileges, granted};
use crate::xact::on_board::current_database;
use pgrx::pg_sys::Datum;

sql_functions!(
    PgmqBind => bind,
    PgmqUnbind => unbind,
    PgmqTopics => list,
    PgmqValidateTopic => validate_topic,
    PgmqSendTopic => send_topic,
    PgmqNotify => set_notify,
);

/// Takes a pattern and a queue, and binds the one to the other.
fn bind(call: &mut Call, args: PgmqBind) -> Result<Option<Datum>> {
    let db = current_database();
    let pattern = args.pattern.required()?;
    topics::check(args.pattern.name, &pattern, true)?;
    let queue = find(&db, &args.queue_name.required()?)?;
    call.authorize(&queue.queue)?;
    topics::bind(&db, &pattern, &queue);
    Ok(None)
}

/// Takes a pattern and a queue. Returns false if the one is not bound to the other.
fn unbind(call: &mut Call, args: PgmqUnbind) -> Result<Option<Datum>> {
    let db = current_database();
    let pattern = args.pattern.required()?;
    let queue = find(&db, &args.queue_name.required()?)?;
    call.authorize(&queue.queue)?;
    Ok(Some(Datum::from(topics::unbind(&db, &pattern, &queue))))
}

/// Takes a routing key or null, and a queue or null. Returns a row per pattern that is bound to a
/// queue at which the caller may look.
fn list(call: &mut Call, args: PgmqTopics) -> Result<Option<Datum>> {
    let db = current_database();
    let key = args.routing_key.optional();
    key.as_ref().map_or(Ok(()), |key| topics::check(args.routing_key.name, key, false))?;
    let queue = args.queue_name.optional().map(|name| queues::name(&name)).transpose()?;
    let granted = granted(&db);
    let mut rows = call.rows()?;
    topics::topics(&db, key.as_deref(), queue.as_deref(), |Topic { queue, name, rest }| {
        if granted.on(&queue).has_any(Privileges::LOOK) {
            let [pattern, bound, regex] = rest;
            rows.add([pattern, Some(datum::varlena(&name)), bound, regex]);
        }
    });
    Ok(None)
}

fn validate_topic(_: &mut Call, args: PgmqValidateTopic) -> Result<Option<Datum>> {
    let is_pattern = args.pattern.required()?;
    let name = if is_pattern { args.pattern.name } else { "routing_key" };
    topics::check(name, &args.topic.required()?, is_pattern)?;
    Ok(Some(Datum::from(true)))
}

/// Takes a routing key, messages, their headers or null, and when they become visible or null.
/// Returns a row per message and queue. The caller needs the privilege on each of these queues.
fn send_topic(call: &mut Call, args: PgmqSendTopic) -> Result<Option<Datum>> {
    let db = current_database();
    let key = args.routing_key.required()?;
    topics::check(args.routing_key.name, &key, false)?;
    let batch = batch(&args.msgs, &args.headers)?;
    let at = delay(&args.delay)?;
    let mut names: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    topics::topics(&db, Some(&key), None, |topic| names.push((topic.queue, topic.name)));
    names.dedup();
    let mut rows = call.rows()?;
    for (queue, name) in names {
        call.authorize(&queue)?;
        let queue = find(&db, &queue)?;
        for number in send::send(&db, &queue, batch.iter().copied(), at)? {
            rows.add([Some(datum::varlena(&name)), Some(Datum::from(number))]);
        }
    }
    Ok(None)
}

/// Takes a queue, how often a session notifies of its messages or null, and whether it must do so
/// already.
fn set_notify(call: &mut Call, args: PgmqNotify) -> Result<Option<Datum>> {
    let db = current_database();
    let name = args.queue_name.required()?;
    let queue = find(&db, &name)?;
    call.authorize(&queue.queue)?;
    let interval = args.throttle_interval_ms.optional();
    if interval.is_some_and(|it| it < 0) {
        return Err(error::negative(args.throttle_interval_ms.name));
    }
    match queues::set_notify(&db, &queue, interval, args.only_enabled.required()?) {
        true => Ok(None),
        false => Err(error::notifies_not(&name)),
    }
}
