//! What can become of a task: its statuses, and how a worker may end its ownership.

/// How a worker gives a task back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    Completed,
    Aborted,
    Retry,
    Yield,
}

/// What an outcome means: the word in the contract, the status it settles the task with or the
/// word in the history of a task that is ready again, and whether it may carry a result or an error.
struct Meaning {
    outcome: Outcome,
    word: &'static str,
    end: End,
    result: bool,
    error: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The task moves to the finished ones, with this status.
    Settled(&'static str),
    /// The task is ready again, or aborted when it had its last try; this goes into its history.
    Released(&'static str),
}

const MEANINGS: [Meaning; 4] = [
    Meaning {
        outcome: Outcome::Completed,
        word: "completed",
        end: End::Settled(COMPLETED),
        result: true,
        error: false,
    },
    Meaning {
        outcome: Outcome::Aborted,
        word: "aborted",
        end: End::Settled(ABORTED),
        result: false,
        error: true,
    },
    Meaning {
        outcome: Outcome::Retry,
        word: "retry",
        end: End::Released(RETRIED),
        result: false,
        error: true,
    },
    Meaning {
        outcome: Outcome::Yield,
        word: "yield",
        end: End::Released("TaskYield"),
        result: false,
        error: false,
    },
];

/// The statuses that a task can have in the end.
pub const COMPLETED: &str = "completed";
pub const ABORTED: &str = "aborted";
pub const CANCELLED: &str = "cancelled";
pub const READY: &str = "ready";
pub const WAITING: &str = "waiting";

/// What the history says of a task that its worker gives back to be tried again.
pub const RETRIED: &str = "TaskRetry";
/// What the clock does with an expired lease.
pub const EXPIRED: &str = "TaskTimeout";

impl Outcome {
    pub fn parse(word: &[u8]) -> Option<Outcome> {
        MEANINGS.iter().find(|it| it.word.as_bytes() == word).map(|it| it.outcome)
    }

    fn meaning(self) -> &'static Meaning {
        &MEANINGS[self as usize]
    }

    pub fn word(self) -> &'static str {
        self.meaning().word
    }

    pub fn end(self) -> End {
        self.meaning().end
    }

    pub fn takes_result(self) -> bool {
        self.meaning().result
    }

    pub fn takes_error(self) -> bool {
        self.meaning().error
    }
}
