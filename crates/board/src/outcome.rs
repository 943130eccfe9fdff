//! The statuses of a task, and the outcomes with which a worker gives it back.

/// How a worker gives a task back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The work is done.
    Completed,
    /// The work failed for good.
    Aborted,
    /// The work failed and is to be tried again.
    Retry,
    /// The worker hands the task back; the try does not count.
    Yield,
}

/// What an outcome means.
struct Meaning {
    outcome: Outcome,
    /// The outcome in SQL.
    word: &'static str,
    end: End,
    /// Whether it may carry a result.
    result: bool,
    /// Whether it may carry an error.
    error: bool,
    /// Whether it may carry a time before which the task does not run.
    run_at: bool,
}

/// What an outcome does with the task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The task moves to the settled ones, with this status.
    Settled(&'static str),
    /// The task is ready again, or aborted when it had its last try; this event goes into its
    /// history.
    Released(&'static str),
}

const MEANINGS: [Meaning; 4] = [
    Meaning {
        outcome: Outcome::Completed,
        word: "completed",
        end: End::Settled(COMPLETED),
        result: true,
        error: false,
        run_at: false,
    },
    Meaning {
        outcome: Outcome::Aborted,
        word: "aborted",
        end: End::Settled(ABORTED),
        result: false,
        error: true,
        run_at: false,
    },
    Meaning {
        outcome: Outcome::Retry,
        word: "retry",
        end: End::Released(RETRIED),
        result: false,
        error: true,
        run_at: true,
    },
    Meaning {
        outcome: Outcome::Yield,
        word: "yield",
        end: End::Released("TaskYield"),
        result: false,
        error: false,
        run_at: true,
    },
];

/// The status of a task whose work is done.
pub const COMPLETED: &str = "completed";
/// The status of a task that failed for good.
pub const ABORTED: &str = "aborted";
/// The status of a task that was cancelled.
pub const CANCELLED: &str = "cancelled";
/// The status of a task that may be owned.
pub const READY: &str = "ready";
/// The status of a task that waits for its time or for other tasks.
pub const WAITING: &str = "waiting";

/// The event of a task that its worker gave back to be tried again.
pub const RETRIED: &str = "TaskRetry";
/// The event of a task whose lease expired.
pub const EXPIRED: &str = "TaskTimeout";

impl Outcome {
    /// The outcome of its word in SQL; `None`: no such word.
    pub fn parse(word: &[u8]) -> Option<Outcome> {
        MEANINGS.iter().find(|it| it.word.as_bytes() == word).map(|it| it.outcome)
    }

    fn meaning(self) -> &'static Meaning {
        &MEANINGS[self as usize]
    }

    /// The outcome's word in SQL.
    pub fn word(self) -> &'static str {
        self.meaning().word
    }

    /// What it does with the task.
    pub fn end(self) -> End {
        self.meaning().end
    }

    /// Whether it may carry a result.
    pub fn takes_result(self) -> bool {
        self.meaning().result
    }

    /// Whether it may carry an error.
    pub fn takes_error(self) -> bool {
        self.meaning().error
    }

    /// Whether it may carry a time before which the task does not run.
    pub fn takes_run_at(self) -> bool {
        self.meaning().run_at
    }
}
