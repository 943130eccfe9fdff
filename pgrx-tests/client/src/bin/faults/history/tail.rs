//! What may be lost when an asynchronous standby is promoted, or a server is recovered to a time:
//! the calls that were acknowledged after the last transaction that survives.

use crate::history::log::{Answer, Call, Record};
use client::Uuid;
use std::collections::HashSet;
use std::time::Instant;

/// The old server had its clients until `to`, and what it acknowledged since `from` may be lost.
#[derive(Clone, Copy)]
pub struct Tail {
    pub from: Instant,
    pub to: Instant,
}

impl Tail {
    pub fn has(&self, record: &Record) -> bool {
        record.ended > self.from && record.began < self.to
    }
}

/// Makes unknown what may be lost, and drops the leases of tasks that may be lost.
pub fn forget(records: &mut Vec<Record>, tails: &[Tail]) -> usize {
    let is_lost = |record: &Record| tails.iter().any(|tail| tail.has(record));
    let tasks: HashSet<Uuid> = (records.iter())
        .filter(|it| matches!(it.call, Call::Submit { .. }) && is_lost(it))
        .map(Record::task)
        .collect();
    records.retain(|it| {
        !(matches!(it.call, Call::Own { .. }) && is_lost(it) && tasks.contains(&it.task()))
    });
    let mut forgotten = 0;
    for record in records.iter_mut().filter(|it| is_lost(it)) {
        forgotten += usize::from(match &mut record.call {
            Call::Submit { answer, .. } => make_unknown(answer),
            Call::Return { answer, .. } => make_unknown(answer),
            Call::Cancel { answer, .. } => make_unknown(answer),
            Call::Own { .. } | Call::Extend { .. } => false,
        });
    }
    forgotten
}

fn make_unknown<T>(answer: &mut Answer<T>) -> bool {
    let is_known = matches!(answer, Answer::Yes(_));
    if is_known {
        *answer = Answer::Unknown;
    }
    is_known
}
