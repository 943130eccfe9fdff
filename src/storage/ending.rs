//! The end of an ownership: what is written about it (`Ending`), and the task's state after it
//! (`Ended`).

use crate::pg::datum;
use crate::pg::spi::Rows;
use crate::pg::uuid::Uuid;
use crate::storage::rows::id_at;
use board::{ABORTED, CANCELLED, COMPLETED, Micros, Slot};
use pgrx::pg_sys::Datum;

/// The end of an ownership, or of a task without an owner, as it is to be written.
pub struct Ending {
    pub id: Uuid,
    /// The lease, if there was one.
    pub lease: Option<Slot>,
    pub result: Option<Datum>,
    pub error: Option<Datum>,
}

impl Ending {
    /// The end of a task without an owner.
    pub fn of(id: Uuid) -> Ending {
        Ending { id, lease: None, result: None, error: None }
    }

    /// The lease, if there was one that the history does not have yet.
    pub fn lease_not_in_history(&self) -> Option<&Slot> {
        self.lease.as_ref().filter(|lease| !lease.in_history())
    }

    /// The task's progress after the end.
    pub fn progress(&self, word: &str) -> f64 {
        if word == COMPLETED {
            1.0
        } else {
            self.lease.as_ref().map_or(0.0, |lease| lease.progress)
        }
    }
}

/// A task after its ownership, or the task itself, has ended.
pub struct Ended {
    pub id: Uuid,
    pub status: &'static str,
    /// Other tasks wait for it.
    pub has_dependents: bool,
    /// Its result may be waited for.
    pub post_result: bool,
    /// The schedule whose run it was, if it has settled.
    pub schedule: Option<i64>,
    /// How long it waits before it is tried again.
    pub pause: Micros,
}

impl Ended {
    pub fn is_settled(&self) -> bool {
        [COMPLETED, ABORTED, CANCELLED].contains(&self.status)
    }

    /// From a row with the columns `followed`, `post_result` and `schedule` at `flags`.
    pub fn at(rows: &Rows, row: usize, status: &'static str, flags: usize) -> Ended {
        let [has_dependents, post_result] =
            [0, 1].map(|offset| datum::number(rows.get(row, flags + offset)) != 0);
        let schedule = rows.get(row, flags + 2).map(|it| it.value() as i64);
        let (id, pause) = (id_at(rows, row, 0), Micros::ZERO);
        Ended { id, status, has_dependents, post_result, schedule, pause }
    }
}
