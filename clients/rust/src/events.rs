//! What the machine of a worker is told.

use std::thread;

use tokio::{sync::mpsc::UnboundedSender, time::Instant};
use uuid::Uuid;

use crate::{
    link::{Failure, Waiter},
    outcome::{End, Ended},
    statements::{Beat, Owned, Unfit},
};

/// What has ended that takes time.
pub(crate) enum Event {
    /// The server was asked whether it fits, for the so-and-so-many-th time.
    Reached(u32, Result<(), Unfit>),
    /// Leases and the progress that was told. The attempt, while the worker is not up.
    Beat {
        tokens: Vec<Uuid>,
        shares: Vec<Option<f64>>,
        asked_at: Instant,
        attempt: Option<u32>,
        answer: Result<Vec<Beat>, Failure>,
    },
    Exchanged {
        batch: Vec<Ended>,
        most: usize,
        asked_at: Instant,
        answer: Result<(Vec<Option<String>>, Vec<Owned>), Failure>,
    },
    /// What became of a task whose return had no answer; none: another one has it, or it is gone.
    LookedUp {
        ended: Ended,
        status: Option<String>,
    },
    /// A return that was refused is sent again.
    ReturnAgain(Ended),
    Handled(Uuid, End),
    /// A wait: its connection, unless that is lost, and what it was told of.
    Woke(Option<Waiter>, Result<Option<String>, Failure>),
}

/// Tells that a handler has ended, even when its runtime ends or its destructor panics.
pub(crate) struct Report {
    sender: UnboundedSender<Event>,
    token: Uuid,
    end: Option<End>,
}

impl Report {
    pub fn new(sender: UnboundedSender<Event>, token: Uuid) -> Self {
        Self { sender, token, end: None }
    }

    pub fn ended(mut self, end: End) {
        self.end = Some(end);
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        let end = self.end.take().unwrap_or_else(|| match thread::panicking() {
            true => End::Panicked("a destructor has panicked".into()),
            false => End::Dropped,
        });
        // an error: the worker has ended
        let _ = self.sender.send(Event::Handled(self.token, end));
    }
}
