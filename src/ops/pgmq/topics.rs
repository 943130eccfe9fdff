//! Topics: which routing keys send to which queues.

use crate::error::{self, Result};
use crate::extension::database::Database;
use crate::ops::pgmq::queues::MessageQueue;
use crate::pg::datum::{self, TEXT};
use crate::pg::spi::statement;
use crate::storage::rows::session;
use pgrx::pg_sys::Datum;

statement!(BIND, "pgmq/bind", [TEXT, TEXT]);
statement!(UNBIND, "pgmq/unbind", [TEXT, TEXT]);
statement!(TOPICS, "pgmq/topics", [TEXT, TEXT]);

/// The longest routing key or pattern, in characters, which are of one byte each.
const TOPIC_MAX: usize = 255;

/// Refuses what is no routing key, or no pattern of routing keys.
pub fn check(argument: &str, topic: &[u8], is_pattern: bool) -> Result<()> {
    let wildcards: &[u8] = if is_pattern { b"*#" } else { b"" };
    let is_allowed = |byte: &u8| {
        byte.is_ascii_alphanumeric() || b"._-".contains(byte) || wildcards.contains(byte)
    };
    let has = |part: &[u8; 2]| topic.windows(2).any(|it| it == part);
    let wrong = |what: &str| Err(error::bad_topic(argument, topic, what));
    match topic {
        [] => wrong("is empty"),
        _ if topic.len() > TOPIC_MAX => wrong("is longer than 255 characters"),
        _ if !topic.iter().all(is_allowed) && is_pattern => {
            wrong("has other characters than letters, digits, dots, hyphens, underscores, * and #")
        }
        _ if !topic.iter().all(is_allowed) => {
            wrong("has other characters than letters, digits, dots, hyphens and underscores")
        }
        [b'.', ..] | [.., b'.'] => wrong("begins or ends with a dot"),
        _ if has(b"..") => wrong("has two dots in a row"),
        _ if has(b"**") || has(b"##") || has(b"*#") || has(b"#*") => {
            wrong("has two wildcards in a row")
        }
        _ => Ok(()),
    }
}

/// Binds a pattern to a queue, if it is not bound yet.
pub fn bind(db: &Database, pattern: &[u8], queue: &MessageQueue) {
    session(db).run(&BIND, &[pattern, &queue.queue].map(|it| Some(datum::varlena(it))));
}

/// False: the pattern was not bound to the queue.
pub fn unbind(db: &Database, pattern: &[u8], queue: &MessageQueue) -> bool {
    session(db).run(&UNBIND, &[pattern, &queue.queue].map(|it| Some(datum::varlena(it)))).len() > 0
}

/// A pattern that is bound.
pub struct Topic {
    /// The queue's name, and as it was created.
    pub queue: Vec<u8>,
    pub name: Vec<u8>,
    /// Pattern, time, regular expression.
    pub rest: [Option<Datum>; 3],
}

/// Shows the patterns that match a routing key, or all, bound to a queue, or to any.
pub fn topics(
    db: &Database,
    routing_key: Option<&[u8]>,
    queue: Option<&[u8]>,
    show: impl FnMut(Topic),
) {
    let session = session(db);
    let rows = session.run(&TOPICS, &[routing_key, queue].map(|it| it.map(datum::varlena)));
    let topic = |row| Topic {
        queue: datum::text(rows.get(row, 0)),
        name: datum::text(rows.get(row, 1)),
        rest: [2, 3, 4].map(|column| rows.get(row, column)),
    };
    (0..rows.len()).map(topic).for_each(show);
}
