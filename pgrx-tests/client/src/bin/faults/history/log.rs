//! What a client records of each call: when it began, when the answer came, and the answer.

use client::Uuid;
use std::time::{Duration, Instant};

/// How a call ended; `Unknown` when the connection broke before the answer came.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer<T> {
    Yes(T),
    Refused(String),
    Unknown,
}

/// A group of a queue. Where a queue has none, its tasks are in group 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    pub queue: &'static str,
    pub group: usize,
}

#[derive(Debug, Clone)]
pub enum Call {
    Submit {
        id: Uuid,
        place: Place,
        answer: Answer<()>,
    },
    /// An own that was not acknowledged is not recorded, since no client knows its token.
    Own {
        id: Uuid,
        token: Uuid,
        length: Duration,
    },
    Extend {
        id: Uuid,
        token: Uuid,
        length: Duration,
        answer: Answer<bool>,
    },
    Return {
        id: Uuid,
        token: Uuid,
        answer: Answer<String>,
    },
    Cancel {
        id: Uuid,
        answer: Answer<bool>,
    },
}

#[derive(Debug, Clone)]
pub struct Record {
    pub client: usize,
    pub began: Instant,
    pub ended: Instant,
    pub call: Call,
}

impl Record {
    pub fn task(&self) -> Uuid {
        match self.call {
            Call::Submit { id, .. }
            | Call::Own { id, .. }
            | Call::Extend { id, .. }
            | Call::Return { id, .. }
            | Call::Cancel { id, .. } => id,
        }
    }
}

/// A fault that the test injected into the server.
#[derive(Debug, Clone, Copy)]
pub enum Fault {
    /// A crash: all memory was lost at some time between these two.
    Crash { at: Instant, up: Instant },
    /// The scheduler was terminated, and persisted no lease between these two.
    SchedulerTerminated { at: Instant },
}
