//! What the views and the metrics of the schema `pgmq` show.

use crate::extension::database::Database;
use crate::ops::pgmq::queues::MessageQueue;
use crate::pg::datum::{self, TEXT, UUIDS};
use crate::pg::spi::{Rows, statement};
use crate::pg::uuid::Uuid;
use crate::storage::rows::{id_at, ids, session};
use pgrx::pg_sys::Datum;

statement!(SOME, "pgmq/some", [TEXT, UUIDS]);
statement!(METRICS, "pgmq/metrics", [TEXT]);

const LIVE: &str = include_str!("../../../sql/queries/pgmq/messages.sql");
const ARCHIVED: &str = include_str!("../../../sql/queries/pgmq/archive.sql");

/// A row of pgmq's table of messages or of its archive, which has `archived_at`.
pub type Row = [Option<Datum>; 8];

/// Shows the messages of a queue, or its archive.
pub fn messages(db: &Database, queue: &MessageQueue, archived: bool, mut show: impl FnMut(Row)) {
    let text = if archived { ARCHIVED } else { LIVE };
    let name = Some(datum::varlena(&queue.queue));
    session(db).read_text(text.as_bytes(), &[TEXT], &[name], |rows| {
        (0..rows.len()).filter_map(|row| row_at(rows, row)).for_each(&mut show);
        true
    });
}

/// Shows those of some messages that are live.
pub fn some(db: &Database, queue: &MessageQueue, wanted: &[Uuid], show: impl FnMut(Row)) {
    let session = session(db);
    let name = Some(datum::varlena(&queue.queue));
    let rows = session.run(&SOME, &[name, ids(wanted.iter().copied())]);
    (0..rows.len()).filter_map(|row| row_at(&rows, row)).for_each(show);
}

/// The columns from the id on: `None`: the task is no message.
fn row_at(rows: &Rows, row: usize) -> Option<Row> {
    let number = id_at(rows, row, 0).message_number()?;
    let rest = [1, 2, 3, 4, 5, 6, 7].map(|column| rows.get(row, column));
    let [read_ct, enqueued, read, archived, vt, message, headers] = rest;
    Some([Some(Datum::from(number)), read_ct, enqueued, read, archived, vt, message, headers])
}

/// The numbers of a queue, from its length on.
pub fn metrics(db: &Database, queue: &MessageQueue, show: impl FnOnce([Option<Datum>; 6])) {
    let session = session(db);
    let rows = session.run(&METRICS, &[Some(datum::varlena(&queue.queue))]);
    show([0, 1, 2, 3, 4, 5].map(|column| rows.get(0, column)));
}
