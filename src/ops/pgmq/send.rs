//! Sending messages: each is submitted as a task.

use crate::error::Result;
use crate::ops::pgmq::ACTION;
use crate::ops::pgmq::queues::MessageQueue;
use crate::ops::submit::draft::Draft;
use crate::ops::submit::submit_tasks;
use crate::shmem::database::Database;
use crate::storage::rows::share;
use board::Wall;
use pgrx::pg_sys::Datum;

/// Sends messages, each with its headers. `at`: when they become visible; `None`: at once. Returns
/// their numbers.
pub fn send(
    db: &Database,
    queue: &MessageQueue,
    messages: impl Iterator<Item = (Datum, Option<Datum>)>,
    at: Option<Wall>,
) -> Result<Vec<i64>> {
    let common = Draft {
        queue: queue.queue.clone(),
        action: share(ACTION),
        run_at: at,
        // A message may be read any number of times.
        max_tries: Some(0),
        message: Some(queue.hash),
        ..Draft::blank()
    };
    let draft = |(spec, meta)| Draft { spec: Some(spec), meta, ..common.clone() };
    let drafts: Vec<Draft> = messages.map(draft).collect();
    let sent = submit_tasks(db, &drafts).into_iter();
    sent.map(|(id, submitted)| submitted.map(|_| id.message_number().unwrap_or_default())).collect()
}
