//! The end of an ownership: what the tables are to tell of it, and what became of the task.

use crate::pg::datum;
use crate::pg::spi::Rows;
use crate::pg::uuid::Uuid;
use crate::storage::rows::id_at;
use board::{ABORTED, CANCELLED, COMPLETED, Micros, Slot};
use pgrx::pg_sys::Datum;

/// An ownership that ends, as the tables are to tell of it.
pub struct Ending {
    pub id: Uuid,
    /// The lease, if there was one.
    pub lease: Option<Slot>,
    pub result: Option<Datum>,
    pub error: Option<Datum>,
}

impl Ending {
    /// Of a task that nobody owns.
    pub fn of(id: Uuid) -> Ending {
        Ending { id, lease: None, result: None, error: None }
    }

    /// The lease, if there was one that the history does not tell of.
    pub fn unsent(&self) -> Option<&Slot> {
        self.lease.as_ref().filter(|lease| !lease.in_history)
    }

    /// How far the task is now.
    pub fn progress(&self, word: &str) -> f64 {
        if word == COMPLETED {
            1.0
        } else {
            self.lease.as_ref().map_or(0.0, |lease| lease.progress)
        }
    }
}

/// What became of a task whose ownership, or whose life, ended.
pub struct Ended {
    pub id: Uuid,
    pub status: &'static str,
    /// Others wait for it.
    pub has_dependents: bool,
    /// Its result may be waited for.
    pub post_result: bool,
    /// How long it is to pause before it is tried again.
    pub pause: Micros,
}

impl Ended {
    pub fn is_settled(&self) -> bool {
        [COMPLETED, ABORTED, CANCELLED].contains(&self.status)
    }

    /// From a row whose last columns are whether others wait, and whether the result may be waited for.
    pub fn at(rows: &Rows, row: usize, status: &'static str, flags: usize) -> Ended {
        let [has_dependents, post_result] =
            [0, 1].map(|offset| datum::number(rows.get(row, flags + offset)) != 0);
        Ended { id: id_at(rows, row, 0), status, has_dependents, post_result, pause: Micros::ZERO }
    }
}
