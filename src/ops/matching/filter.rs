//! Which tasks a call is about: the members of a filter, as parameters and conditions of
//! statements.

use crate::pg::datum::{self, JSONB, Kind, TEXT, TIMESTAMPTZ};
use crate::pg::process;
use crate::storage::privileges::{Granted, Privileges};
use board::{ABORTED, CANCELLED, COMPLETED, Lease, Wall};
use pgrx::pg_sys::Datum;

/// What a task must have; `None`: anything.
#[derive(Clone, Default)]
pub struct Filter {
    pub queue: Option<Vec<u8>>,
    pub status: Option<Status>,
    pub action: Option<Vec<u8>>,
    pub group_key: Option<Vec<u8>>,
    pub key: Option<Vec<u8>>,
    pub worker: Option<Vec<u8>>,
    pub created_before: Option<Wall>,
    pub created_after: Option<Wall>,
    /// What the spec contains.
    pub spec: Option<Datum>,
    /// What the meta contains.
    pub meta: Option<Datum>,
}

/// The status of a task, as the view `tasks` shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    Waiting,
    Ready,
    Running,
    Completed,
    Aborted,
    Cancelled,
}

impl Status {
    const WORDS: [(Status, &str); 6] = [
        (Status::Waiting, "waiting"),
        (Status::Ready, "ready"),
        (Status::Running, "running"),
        (Status::Completed, COMPLETED),
        (Status::Aborted, ABORTED),
        (Status::Cancelled, CANCELLED),
    ];

    /// The status of a word.
    pub fn parse(word: &[u8]) -> Option<Status> {
        Status::WORDS.iter().find(|it| it.1.as_bytes() == word).map(|it| it.0)
    }

    pub fn word(self) -> &'static str {
        Status::WORDS.iter().find(|it| it.0 == self).map_or("", |it| it.1)
    }

    pub fn is_settled(self) -> bool {
        matches!(self, Status::Completed | Status::Aborted | Status::Cancelled)
    }
}

/// The statement that tells which of some live tasks a filter takes.
pub const BY_ID: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/queries/matching/by_id.sql"));

/// The parameters that each statement has for the filter, from `$1` on.
pub const KINDS: [Kind; 10] =
    [TEXT, TEXT, TEXT, TEXT, TEXT, TIMESTAMPTZ, TIMESTAMPTZ, JSONB, JSONB, TEXT];

impl Filter {
    /// The values of the parameters.
    pub fn parameters(&self) -> Vec<Option<Datum>> {
        let text = |it: &Option<Vec<u8>>| it.as_deref().map(datum::varlena);
        vec![
            text(&self.queue),
            text(&self.action),
            text(&self.group_key),
            text(&self.key),
            text(&self.worker),
            self.created_before.map(datum::timestamptz),
            self.created_after.map(datum::timestamptz),
            self.spec,
            self.meta,
            self.status.map(|it| datum::varlena(it.word().as_bytes())),
        ]
    }

    /// The marks of the lines of a statement that the filter needs.
    pub fn marks(&self) -> Vec<&'static str> {
        let settled = self.status.is_some_and(Status::is_settled);
        let given = [
            (self.queue.is_some(), "queue"),
            (self.queue.is_none(), "any_queue"),
            (self.action.is_some(), "action"),
            (self.queue.is_some() && self.action.is_none(), "any_action"),
            (self.queue.is_some() && self.action.is_some(), "lane_action"),
            (self.group_key.is_some(), "group_key"),
            (self.key.is_some(), "key"),
            (self.worker.is_some(), "worker"),
            (self.created_before.is_some(), "created_before"),
            (self.created_after.is_some(), "created_after"),
            (self.spec.is_some(), "spec"),
            (self.meta.is_some(), "meta"),
            (self.status == Some(Status::Ready), "is_ready"),
            (self.status == Some(Status::Waiting), "is_waiting"),
            (self.key.is_none() && self.is_of_one_group(), "by_group"),
            (self.key.is_none() && !self.is_of_one_group(), "by_queue"),
            (settled, "status"),
            (settled && self.status != Some(Status::Completed), "unsuccessful"),
        ];
        given.into_iter().filter(|it| it.0).map(|it| it.1).collect()
    }

    /// Whether live tasks can match.
    pub fn takes_live(&self) -> bool {
        !self.status.is_some_and(Status::is_settled)
    }

    /// Whether settled tasks can match.
    pub fn takes_settled(&self) -> bool {
        self.status.is_none_or(Status::is_settled)
    }

    /// Whether it is about one group.
    pub fn is_of_one_group(&self) -> bool {
        self.queue.is_some() && self.group_key.is_some()
    }

    /// Whether only the board knows which live tasks match: those that a worker owns.
    pub fn is_of_owned(&self) -> bool {
        self.status == Some(Status::Running) || self.worker.is_some()
    }

    /// Whether it takes a live task by its lease, or by having none. A ready task that another open
    /// transaction has reserved has a lease.
    pub fn takes_lease(&self, lease: Option<&Lease>) -> bool {
        let Some(lease) = lease else { return !self.is_of_owned() };
        let is_leased = lease.reserved_by().is_none_or(|it| it == process::id());
        let takes_status = match self.status {
            None => true,
            Some(Status::Running) => is_leased,
            Some(Status::Ready) => !is_leased,
            Some(_) => false,
        };
        takes_status && self.worker.as_ref().is_none_or(|it| *it == lease.worker.as_bytes())
    }

    /// Whether it asks for what only a role that may look at a queue knows of the tasks there.
    pub fn asks_for_contents(&self) -> bool {
        self.key.is_some() || self.worker.is_some() || self.spec.is_some() || self.meta.is_some()
    }

    /// Whether tasks of a queue match for a role that needs all of some privileges there.
    pub fn takes_queue(&self, granted: &Granted, needed: &[Privileges], queue: &[u8]) -> bool {
        self.queue.as_deref().is_none_or(|it| it == queue)
            && needed.iter().all(|it| granted.on(queue).has_any(*it))
    }
}

/// What a line of a statement ends with that only some filters need.
const MARK: &str = " -- if ";

/// The text of a statement without the lines whose marks are not among some.
pub fn with_marks(text: &str, marks: &[&str]) -> String {
    let is_wanted = |line: &&str| line.split_once(MARK).is_none_or(|it| marks.contains(&it.1));
    text.lines().filter(is_wanted).fold(String::with_capacity(text.len()), |mut all, line| {
        all.push_str(line.split_once(MARK).map_or(line, |it| it.0));
        all.push('\n');
        all
    })
}
