//! What is counted of a queue: how many tasks it has, and what became of them.

use crate::layout::names::{Name, QUEUE_MAX};
use crate::time::{Micros, Wall};

/// What happens to a task, in the order of the columns of the view `stats`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
#[allow(missing_docs, reason = "each is named for what happened")]
pub enum Event {
    Submitted,
    Owned,
    Completed,
    Aborted,
    Cancelled,
    Retried,
    Yielded,
    Expired,
    Fired,
}

/// How many kinds of events there are.
pub const EVENTS: usize = 9;

/// How many lengths of time are told apart: less than 1 ms, less than 2, less than 4, and so on.
/// The last bucket has all that are longer.
pub const BUCKETS: usize = 32;

/// A histogram of lengths of time.
pub type Histogram = [u64; BUCKETS];

/// The bucket of a length of time.
pub fn bucket(length: Micros) -> usize {
    let millis = length.0.max(0) as u64 / 1_000;
    (u64::BITS - millis.leading_zeros()).min(BUCKETS as u32 - 1) as usize
}

/// How often what happened to tasks of one queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Events {
    /// By `Event`.
    pub counts: [u64; EVENTS],
    /// How long tasks were ready before a worker owned them.
    pub ready_to_owned: Histogram,
    /// How long the ownerships took that settled a task.
    pub owned_to_settled: Histogram,
    /// The sums of the lengths in the two histograms, in microseconds.
    pub sums: [u64; 2],
}

impl Events {
    /// Nothing happened.
    pub const NONE: Events = Events {
        counts: [0; EVENTS],
        ready_to_owned: [0; BUCKETS],
        owned_to_settled: [0; BUCKETS],
        sums: [0; 2],
    };

    /// Notes that something happened to so many tasks.
    pub fn note(&mut self, event: Event, times: usize) {
        self.counts[event as usize] += times as u64;
    }

    /// Notes how long a task was ready before a worker owned it.
    pub fn note_wait(&mut self, length: Micros) {
        self.ready_to_owned[bucket(length)] += 1;
        self.sums[0] += length.0.max(0) as u64;
    }

    /// Notes how long an ownership took that settled a task.
    pub fn note_work(&mut self, length: Micros) {
        self.owned_to_settled[bucket(length)] += 1;
        self.sums[1] += length.0.max(0) as u64;
    }

    /// All numbers, to treat them alike.
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        let histograms = self.ready_to_owned.into_iter().chain(self.owned_to_settled);
        self.counts.into_iter().chain(histograms).chain(self.sums)
    }

    fn change(&mut self, other: &Events, change: fn(u64, u64) -> u64) {
        let parts = [
            (&mut self.counts[..], &other.counts[..]),
            (&mut self.ready_to_owned[..], &other.ready_to_owned[..]),
            (&mut self.owned_to_settled[..], &other.owned_to_settled[..]),
            (&mut self.sums[..], &other.sums[..]),
        ];
        for (mine, other) in parts {
            // Most are zero. What they would leave as it is stays in the other processors' caches.
            for (mine, other) in mine.iter_mut().zip(other).filter(|it| *it.1 != 0) {
                *mine = change(*mine, *other);
            }
        }
    }

    /// Adds what `other` counted.
    pub fn add(&mut self, other: &Events) {
        self.change(other, u64::wrapping_add);
    }

    /// Takes away what `other` counted.
    pub fn subtract(&mut self, other: &Events) {
        self.change(other, u64::saturating_sub);
    }
}

/// What a transaction changes of a queue's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counts {
    /// How many live tasks more there are that do not wait, running ones included.
    pub ready: i64,
    /// How many waiting tasks more there are.
    pub waiting: i64,
    /// How many ready tasks were announced with `announce_ready`.
    pub announced: u32,
    /// What happened.
    pub events: Events,
}

impl Counts {
    /// No change.
    pub const NONE: Counts = Counts { ready: 0, waiting: 0, announced: 0, events: Events::NONE };

    /// Notes that live tasks were added (1) or are gone (-1).
    pub fn add_tasks(&mut self, are_ready: bool, count: i64) {
        *(if are_ready { &mut self.ready } else { &mut self.waiting }) += count;
    }

    /// Notes that tasks became ready that were waiting; less than 0: the other way.
    pub fn became_ready(&mut self, count: i64) {
        self.ready += count;
        self.waiting -= count;
    }
}

/// The numbers of a queue.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct QueueStats {
    /// The index of its database's entry.
    pub(crate) entry: u32,
    /// The recount that `ready` and `waiting` go on from. From another one than the database's
    /// last they count as 0.
    pub(crate) recount: u32,
    /// How many live tasks do not wait, running ones included.
    pub(crate) ready: i64,
    /// How many tasks wait for their time or for others.
    pub(crate) waiting: i64,
    /// How many ready tasks open transactions have submitted, to a queue with a limit of them.
    pub(crate) announced: u32,
    /// Since when the queue is counted on this board.
    pub since: Wall,
    /// What happened, as far as it is not in the table of totals yet.
    pub events: Events,
    /// Empty: the record is free.
    pub(crate) name: Name<QUEUE_MAX>,
}

impl QueueStats {
    /// The queue's name.
    pub fn queue(&self) -> &[u8] {
        self.name.as_bytes()
    }
}

/// How many tasks a queue has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Gauges {
    /// How many live tasks do not wait, running ones included.
    pub ready: i64,
    /// How many tasks wait for their time or for others.
    pub waiting: i64,
}

/// Whether the numbers of ready and waiting tasks of a database are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Counted {
    /// They are to be counted.
    No,
    /// A process counts them.
    UnderWay,
    /// They are known.
    Yes,
}

/// The snapshot of the recount under way, as its transaction took it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Recount {
    /// The entry of the database that is counted.
    pub(crate) entry: u32,
    /// The process that counts; 0: none.
    pub(crate) counter: i32,
    /// The number of the recount.
    pub(crate) number: u32,
    /// The first transaction that had not begun.
    pub(crate) end: u32,
    /// How many of the transactions before that had not ended.
    pub(crate) open: u32,
}

impl Recount {
    pub(crate) const NONE: Recount = Recount { entry: 0, counter: 0, number: 0, end: 0, open: 0 };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_goes_into_the_bucket_of_the_next_power_of_two() {
        let buckets = [-5, 0, 999, 1_000, 1_999, 2_000, 3_999, 4_000, 1_000_000, i64::MAX];
        assert_eq!(buckets.map(|it| bucket(Micros(it))), [0, 0, 0, 1, 1, 2, 2, 3, 10, BUCKETS - 1]);
    }

    #[test]
    fn what_is_added_can_be_taken_away() {
        let mut all = Events::NONE;
        let mut some = Events::NONE;
        some.note(Event::Fired, 3);
        some.ready_to_owned[31] = 2;
        some.note_work(Micros(700));
        some.note_work(Micros(-5));
        assert_eq!((some.owned_to_settled[0], some.sums), (2, [0, 700]));
        all.note(Event::Submitted, 7);
        let before = all;
        all.add(&some);
        assert_eq!(all.counts[Event::Fired as usize], 3);
        all.subtract(&some);
        assert_eq!(all, before);
    }
}
