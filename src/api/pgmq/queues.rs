//! The schema `pgmq`: making and dropping it, its queues, and what its views show.

use crate::api::call::Call;
use crate::api::call::declared::*;
use crate::api::validate;
use crate::error::Result;
use crate::ops::pgmq::queues::{self, find};
use crate::ops::pgmq::{finish, import, look};
use crate::pg::datum;
use crate::storage::privileges::{Privileges, granted};
use crate::xact::on_board::current_database;
use pgrx::pg_sys::Datum;

sql_functions!(
    EnablePgmqApi => enable_pgmq_api,
    DisablePgmqApi => disable_pgmq_api,
    PgmqCreate => create,
    PgmqDrop => drop,
    PgmqPurge => purge,
    PgmqValidate => validate_name,
    PgmqMessages => messages,
    PgmqQueues => list,
    PgmqMetrics => metrics,
    ImportPgmqQueue => import_pgmq_queue,
);

fn enable_pgmq_api(_: &mut Call, _: EnablePgmqApi) -> Result<Option<Datum>> {
    queues::enable(&current_database())?;
    Ok(None)
}

fn disable_pgmq_api(_: &mut Call, _: DisablePgmqApi) -> Result<Option<Datum>> {
    queues::disable(&current_database());
    Ok(None)
}

/// Takes a name, and what pgmq would make of the queue. Creates it, unless it is there.
fn create(_: &mut Call, args: PgmqCreate) -> Result<Option<Datum>> {
    let name = args.queue_name.required()?;
    let partitioned = args.partitioned.required()?;
    queues::create(&current_database(), &name, partitioned, args.unlogged.required()?)?;
    Ok(None)
}

/// Takes a name. Drops the queue; returns false if there is no such queue.
fn drop(_: &mut Call, args: PgmqDrop) -> Result<Option<Datum>> {
    let name = args.queue_name.required()?;
    Ok(Some(Datum::from(queues::drop(&current_database(), &name)?)))
}

/// Takes a name. Deletes the messages of the queue; returns how many.
fn purge(call: &mut Call, args: PgmqPurge) -> Result<Option<Datum>> {
    let db = current_database();
    let queue = find(&db, &args.queue_name.required()?)?;
    call.authorize(&queue.queue)?;
    Ok(Some(Datum::from(finish::purge(&db, &queue.queue)?)))
}

fn validate_name(_: &mut Call, args: PgmqValidate) -> Result<Option<Datum>> {
    let name = args.queue_name.required()?;
    queues::check_length(&name)?;
    queues::name(&name)?;
    Ok(None)
}

/// Takes a name, and whether the archive is meant. Returns a row per message.
fn messages(call: &mut Call, args: PgmqMessages) -> Result<Option<Datum>> {
    let db = current_database();
    let queue = find(&db, &args.queue_name.required()?)?;
    call.authorize(&queue.queue)?;
    let mut rows = call.rows()?;
    look::messages(&db, &queue, args.archived.required()?, |row| rows.add(row));
    Ok(None)
}

/// Returns a row per queue at which the caller may look.
fn list(call: &mut Call, _: PgmqQueues) -> Result<Option<Datum>> {
    let mut rows = call.rows()?;
    let db = current_database();
    let granted = granted(&db);
    queues::list(&db, |queue, row| {
        if granted.on(queue).has_any(Privileges::LOOK) {
            rows.add(row);
        }
    });
    Ok(None)
}

/// Takes a name. Returns the numbers of the queue.
fn metrics(call: &mut Call, args: PgmqMetrics) -> Result<Option<Datum>> {
    let db = current_database();
    let name = args.queue_name.required()?;
    let queue = find(&db, &name)?;
    call.authorize_with(Privileges::LOOK, &queue.queue)?;
    let mut rows = call.rows()?;
    look::metrics(&db, &queue, |[length, newest, oldest, total, now, visible]| {
        let name = Some(datum::varlena(&name));
        rows.add([name, length, newest, oldest, total, now, visible, None]);
    });
    Ok(None)
}

/// Takes the name of a queue of pgmq, how many messages or null, and whether its archive is meant.
/// Moves the messages to a queue of scylla; returns how many.
fn import_pgmq_queue(_: &mut Call, args: ImportPgmqQueue) -> Result<Option<Datum>> {
    let db = current_database();
    let name = args.name.required()?;
    let most = args.max_messages.optional().unwrap_or(i64::MAX);
    validate::at_least_one(args.max_messages.name, most)?;
    let archive = args.archive.required()?;
    queues::create(&db, &name, false, false)?;
    let queue = find(&db, &name)?;
    Ok(Some(Datum::from(import::import(&db, &queue, archive, most)?)))
}
