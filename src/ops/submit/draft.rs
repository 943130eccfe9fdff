//! A task to submit: what the caller gave, and what it gets at its insertion.

use crate::error::Result;
use crate::guc;
use crate::ops::due;
use crate::pg::named::database::Named;
use crate::pg::time;
use crate::pg::uuid::{Uuid, group_hash};
use crate::storage::rows::rank;
use crate::xact::{Change, Offer};
use board::{Micros, RowHint, Wall};
use pgrx::pg_sys::{Datum, Oid};
use std::rc::Rc;

/// What to do when a live task of the queue has the key already.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnConflict {
    #[default]
    Error,
    /// Answer with the live task's id.
    Ignore,
    /// Cancel the live task; an error when it is running.
    Replace,
}

/// A task to submit, its values checked. The default is a task of which the caller says nothing.
#[derive(Clone, Default)]
pub struct Draft {
    /// `None`: generated at the insertion.
    pub id: Option<Uuid>,
    /// Empty: not given.
    pub queue: Rc<[u8]>,
    pub action: Rc<[u8]>,
    pub priority: u32,
    /// A jsonb; `None`: not given.
    pub spec: Option<Datum>,
    pub key: Option<Vec<u8>>,
    pub group_key: Option<Vec<u8>>,
    pub on_conflict: OnConflict,
    /// How long the key stays taken after the submission, whether or not the task has settled.
    pub unique_for: Option<Micros>,
    pub run_at: Option<Wall>,
    pub after: Vec<Uuid>,
    pub run_on_failure: bool,
    /// 0: no limit; `None`: the server's.
    pub max_tries: Option<i32>,
    /// Intervals; `None`: the server's.
    pub retry_interval: Option<Datum>,
    pub retry_jitter: Option<Datum>,
    /// An interval, with its length.
    pub timeout: Option<(Datum, Micros)>,
    pub post_result: bool,
    /// Whether the caller may learn which task has the key.
    pub shows_holder: bool,
    /// A jsonb object; `None`: null.
    pub meta: Option<Datum>,
    /// The settled task that this one repeats.
    pub resubmitted_from: Option<Uuid>,
    /// The hash of the queue, of a message: its id has the time of submission as its number.
    pub message: Option<u64>,
    /// What the server runs itself, of a task of the queue `sql`.
    pub sql: Option<SqlCommand>,
}

/// A command that the server runs itself.
#[derive(Clone)]
pub struct SqlCommand {
    /// With whose rights it runs.
    pub role: Oid,
    /// Where it runs; `None`: in this database.
    pub database: Option<Named>,
    pub command: Vec<u8>,
}

thread_local! {
    static BLANK: Draft = Draft::default();
}

impl Draft {
    /// The default, without an allocation.
    pub fn blank() -> Draft {
        BLANK.with(Draft::clone)
    }
}

/// A queue and a key.
pub type KeyName<'n> = (&'n [u8], &'n [u8]);

/// A task to be inserted: a draft with what it gets then.
pub struct NewTask<'d> {
    pub id: Uuid,
    pub created: Wall,
    /// When its row was last written.
    pub updated: Wall,
    pub draft: &'d Draft,
    /// When the scheduler makes it ready; `None`: it is ready now.
    pub due: Option<Wall>,
    /// The predecessors that count: live ones, and failed ones.
    pub after: Vec<Uuid>,
    /// Where its row is, if that is known.
    pub row: Option<RowHint>,
    /// Other tasks of the same batch wait for it.
    pub has_dependents: bool,
    /// Its queue runs the tasks of each group in their order.
    pub keeps_order: bool,
}

/// The outcome of a draft: true when a task was inserted, false when a live task has its key, else
/// why nothing was inserted.
pub type Submitted = Result<bool>;

impl<'d> NewTask<'d> {
    pub fn new(draft: &'d Draft, now: Wall, created: Wall) -> NewTask<'d> {
        let id = draft.id.unwrap_or_else(|| match draft.message {
            Some(queue) => Uuid::message(queue, created.0),
            None => Uuid::timed(time::unix_millis(created), guc::shard()),
        });
        NewTask {
            id,
            created,
            // By the clock, which may have been set back.
            updated: created.min(now),
            draft,
            due: draft.run_at.filter(|at| due::is_ahead(*at, now)),
            after: Vec::new(),
            row: None,
            has_dependents: false,
            keeps_order: false,
        }
    }

    /// The queue and key, which no other live task may have.
    pub fn key(&self) -> Option<KeyName<'d>> {
        self.draft.key.as_deref().map(|key| (&*self.draft.queue, key))
    }

    /// Whether it may be owned as soon as it is inserted.
    pub fn is_ready(&self) -> bool {
        self.due.is_none() && self.after.is_empty()
    }

    /// Whether it is behind others of its group, until the scheduler brings it forward.
    pub fn is_behind(&self) -> bool {
        self.keeps_order && self.is_ready()
    }

    /// The change of the board at the commit, for a task without predecessors.
    pub fn change(&self) -> Change {
        match self.due {
            Some(at) => Change::Due(at),
            None => Change::Offer(self.offer()),
        }
    }

    pub fn offer(&self) -> Offer {
        Offer {
            queue: self.draft.queue.clone(),
            action: self.draft.action.clone(),
            group: self.draft.group_key.as_deref().map(group_hash),
            rank: rank(self.id, self.created, self.draft.priority.into()),
            timeout: self.draft.timeout.map_or(Micros::ZERO, |(_, length)| length),
            aged_since: None,
            row: self.row,
            behind: self.is_behind(),
        }
    }
}
