//! Sending messages: each is submitted as a task.

use crate::error::Result;
use crate::extension::database::Database;
use crate::ops::maintenance::notify::notify as send_notification;
use crate::ops::pgmq::ACTION;
use crate::ops::pgmq::queues::MessageQueue;
use crate::ops::submit::draft::Draft;
use crate::ops::submit::submit_tasks;
use crate::pg::time;
use crate::storage::rows::share;
use board::{Micros, Monotonic, Wall};
use pgrx::pg_sys::Datum;
use std::cell::RefCell;
use std::rc::Rc;

/// Sends messages, each with its headers. `at`: when they become visible; `None`: at once. Returns
/// their numbers.
pub fn send(
    db: &Database,
    queue: &MessageQueue,
    messages: impl Iterator<Item = (Datum, Option<Datum>)>,
    at: Option<Wall>,
) -> Result<Vec<i64>> {
    let drafts: Vec<Draft> =
        messages.map(|(message, headers)| drafted(queue, message, headers, at)).collect();
    notify(queue);
    let sent = submit_tasks(db, &drafts).into_iter();
    sent.map(|(id, submitted)| submitted.map(|_| id.message_number().unwrap_or_default())).collect()
}

/// A message as a task to submit.
pub fn drafted(
    queue: &MessageQueue,
    message: Datum,
    headers: Option<Datum>,
    at: Option<Wall>,
) -> Draft {
    Draft {
        queue: queue.queue.clone(),
        action: share(ACTION),
        spec: Some(message),
        meta: headers,
        run_at: at,
        // A message may be read any number of times.
        max_tries: Some(0),
        message: Some(queue.hash),
        ..Draft::blank()
    }
}

thread_local! {
    /// When this session notified last, of each queue.
    static NOTIFIED: RefCell<Vec<(Rc<[u8]>, Monotonic)>> = const { RefCell::new(Vec::new()) };
}

/// Notifies of new messages at the commit, if the queue is to, and this session did not lately.
fn notify(queue: &MessageQueue) {
    let Some(interval) = queue.notify_interval else { return };
    let now = time::monotonic();
    let is_time = NOTIFIED.with_borrow_mut(|notified| {
        let last = notified.iter().find(|(name, _)| **name == *queue.name);
        let is_time = last.is_none_or(|(_, at)| now - *at >= Micros::from_millis(interval));
        if is_time {
            notified.retain(|(name, _)| **name != *queue.name);
            notified.push((queue.name.clone(), now));
        }
        is_time
    });
    if is_time {
        send_notification(&[b"pgmq.q_", &*queue.name, b".INSERT"].concat(), "");
    }
}
