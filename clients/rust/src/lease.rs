//! A lease, and what a worker knows of its handler.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::time::Instant;
use uuid::Uuid;

use crate::{
    statements::Owned,
    task::{Cause, Control, Task},
    values::random,
};

/// Longer than any process lives.
pub(crate) const FOREVER: Duration = Duration::from_secs(30 * 365 * 86_400);

/// A lease, from the row that it came in until its end is settled.
pub(crate) struct Lease {
    pub id: Uuid,
    pub control: Arc<Control>,
    /// Owned and not begun.
    pub pending: Option<Box<Task>>,
    pub cause: Option<Cause>,
    /// The handler's outcome is on its way to the server.
    pub ended: bool,
    /// How long the server keeps the lease without a heartbeat.
    pub length: Duration,
    pub beat_at: Instant,
    /// From then on another worker might have the task soon.
    pub fence: Instant,
    /// From then on another worker may have it.
    pub end: Instant,
    /// The handler's own limit.
    pub limit: Option<Instant>,
    /// When a handler that was stopped is dropped.
    pub drop_at: Option<Instant>,
    /// After the ownership, by the server's clock.
    pub owned_at: SystemTime,
}

impl Lease {
    pub fn new(owned: Owned, asked_at: Instant) -> Self {
        let mut lease = Self {
            id: owned.task.id,
            control: owned.task.control.clone(),
            pending: Some(owned.task),
            cause: None,
            ended: false,
            length: FOREVER,
            beat_at: asked_at,
            fence: asked_at,
            end: asked_at,
            limit: None,
            drop_at: None,
            owned_at: owned.now,
        };
        lease.extend(owned.deadline, owned.now, asked_at);
        lease
    }

    /// Notes a lease that the server gave until `deadline` when its clock said `now`.
    ///
    /// It counts from before the question, so that the fence is early, never late.
    pub fn extend(&mut self, deadline: Option<SystemTime>, now: SystemTime, asked_at: Instant) {
        self.control.state().deadline = deadline;
        self.length = deadline.map_or(FOREVER, |deadline| {
            deadline.duration_since(now).unwrap_or_default().min(FOREVER)
        });
        self.end = asked_at + self.length;
        self.fence = asked_at + self.length.mul_f64(0.9);
        self.beat_at = asked_at + self.length.mul_f64((0.9 + 0.2 * random()) / 3.0);
    }

    /// Whether nothing is returned, since the lease is over.
    pub fn is_over(&self) -> bool {
        self.cause.is_some_and(Cause::ends_lease)
    }

    /// When it is to be looked at again, after `now`.
    pub fn next(&self, now: Instant) -> Instant {
        let alive = !self.is_over();
        let times = [
            Some(self.beat_at).filter(|_| alive),
            Some(self.fence).filter(|_| alive && !self.ended),
            self.limit.filter(|_| self.cause.is_none() && !self.ended),
            self.drop_at,
        ];
        let later = times.into_iter().flatten().filter(|&at| at > now).min();
        later.unwrap_or_else(|| now + FOREVER)
    }
}
