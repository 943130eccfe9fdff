//! What a client remembers of each call: when it began, when the answer came, and the answer.

use client::Uuid;
use std::time::{Duration, Instant};

/// How a call ended: `Unknown` when the connection broke before the answer came.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer<T> {
    Yes(T),
    Refused(String),
    Unknown,
}

#[derive(Debug, Clone)]
pub enum Call {
    Submit {
        id: Uuid,
        answer: Answer<()>,
    },
    /// An own that was not acknowledged is not recorded: no client knows its token.
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

/// What was done to the server.
#[derive(Debug, Clone, Copy)]
pub enum Blow {
    /// Everything in memory was lost, some time between these two.
    Crash { at: Instant, up: Instant },
    /// The clock wrote nothing down until it was back.
    ClockTerminated { at: Instant },
}
