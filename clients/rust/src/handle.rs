//! What a worker and those who look at it share.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::watch;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stop {
    No,
    Drain,
    Now,
}

/// Stops a [`Worker`](crate::Worker), and tells what it has done. To clone it is cheap.
#[derive(Debug, Clone)]
pub struct WorkerHandle {
    name: Arc<str>,
    stop: watch::Sender<Stop>,
    counts: Arc<Counts>,
}

impl WorkerHandle {
    pub(crate) fn new(name: String) -> Self {
        Self { name: name.into(), stop: watch::Sender::new(Stop::No), counts: Arc::default() }
    }

    /// What the server's views call the worker.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Begins to stop: the worker owns nothing more, and its handlers have their grace to end.
    pub fn stop(&self) {
        self.at_least(Stop::Drain);
    }

    /// Hands the tasks back at once.
    pub fn stop_now(&self) {
        self.at_least(Stop::Now);
    }

    fn at_least(&self, stop: Stop) {
        self.stop.send_if_modified(|known| {
            let more = *known < stop;
            *known = stop.max(*known);
            more
        });
    }

    /// How it is to stop.
    pub(crate) fn state(&self) -> Stop {
        *self.stop.borrow()
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Stop> {
        self.stop.subscribe()
    }

    pub(crate) fn count(&self, count: impl FnOnce(&Counts) -> &AtomicU64) {
        count(&self.counts).fetch_add(1, Ordering::Relaxed);
    }

    /// What the worker has done so far.
    pub fn stats(&self) -> WorkerStats {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        WorkerStats {
            owned: read(&self.counts.owned),
            completed: read(&self.counts.completed),
            aborted: read(&self.counts.aborted),
            retried: read(&self.counts.retried),
            yielded: read(&self.counts.yielded),
            cancelled: read(&self.counts.cancelled),
            lost: read(&self.counts.lost),
            reconnects: read(&self.counts.reconnects),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub owned: AtomicU64,
    pub completed: AtomicU64,
    pub aborted: AtomicU64,
    pub retried: AtomicU64,
    pub yielded: AtomicU64,
    pub cancelled: AtomicU64,
    pub lost: AtomicU64,
    pub reconnects: AtomicU64,
}

/// What a worker has done: numbers of tasks, except `reconnects`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerStats {
    /// Owned.
    pub owned: u64,
    /// Returned as completed.
    pub completed: u64,
    /// Failed for good.
    pub aborted: u64,
    /// To be tried again.
    pub retried: u64,
    /// Handed back, also by [`HandlerError::Snooze`](crate::HandlerError::Snooze).
    pub yielded: u64,
    /// Stopped, because they were cancelled or deleted.
    pub cancelled: u64,
    /// Whose lease was lost, and the result dropped.
    pub lost: u64,
    /// How many times the server was reached again.
    pub reconnects: u64,
}
