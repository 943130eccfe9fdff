//! The end of an ownership: what is written about it (`Ending`), and the task's state after it
//! (`Ended`).

use crate::guc;
use crate::pg::datum;
use crate::pg::jsonb;
use crate::pg::spi::Rows;
use crate::pg::uuid::Uuid;
use crate::storage::rows::{id_at, share};
use board::{ABORTED, CANCELLED, COMPLETED, Lease, Micros, Wall};
use pgrx::pg_sys::Datum;
use std::rc::Rc;

/// The end of an ownership, or of a task without an owner, as it is to be written.
pub struct Ending {
    pub id: Uuid,
    /// The lease, if there was one.
    pub lease: Option<Lease>,
    pub result: Option<Datum>,
    pub error: Option<Datum>,
    /// The task is deleted, not kept among the settled ones, unless its result may be waited for.
    pub is_discarded: bool,
}

/// The most entries of a task's errors.
const ERRORS_MAX: usize = 100;

/// How many bytes the errors of a task may have beyond what one error may have: room for the ones
/// that scylla adds.
const OWN_ERRORS_MAX: usize = 65_536;

/// A task's errors with one more: the newest of them, that one last.
///
/// # Safety
/// The data must be of jsonbs.
pub unsafe fn with_error(errors: Datum, error: Datum) -> Datum {
    let most = guc::max_spec_size() + OWN_ERRORS_MAX;
    // SAFETY: the caller's promise.
    unsafe { jsonb::with_last(errors, error, ERRORS_MAX, most) }
}

impl Ending {
    /// The end of a task without an owner.
    pub fn of(id: Uuid) -> Ending {
        Ending { id, lease: None, result: None, error: None, is_discarded: false }
    }

    /// The lease, if there was one that the history does not have yet.
    pub fn lease_not_in_history(&self) -> Option<&Lease> {
        self.lease.as_ref().filter(|lease| !lease.in_history())
    }

    /// How long the ownership took that ends at `now`.
    pub fn owned_for(&self, now: Wall) -> Option<Micros> {
        self.lease.as_ref().map(|lease| now - lease.since_at)
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
    /// It did not wait before.
    pub was_ready: bool,
    pub queue: Rc<[u8]>,
    /// How long the ownership took, if it had settled by one.
    pub owned_for: Option<Micros>,
    /// The schedule whose run it was, if it has settled.
    pub schedule: Option<i64>,
    /// How long it waits before it is tried again.
    pub pause: Micros,
}

impl Ended {
    pub fn is_settled(&self) -> bool {
        [COMPLETED, ABORTED, CANCELLED].contains(&self.status)
    }

    /// With what its ending tells, of those at `now`, which are sorted by id.
    pub fn of(self, endings: &[Ending], now: Wall) -> Ended {
        let at = endings.binary_search_by_key(&self.id, |ending| ending.id).ok();
        Ended { owned_for: at.and_then(|at| endings[at].owned_for(now)), ..self }
    }

    /// From a row with the columns `followed`, `post_result`, `ready`, `queue` and `schedule`
    /// behind the id and the status.
    pub fn at(rows: &Rows, row: usize, status: &'static str) -> Ended {
        let [has_dependents, post_result, was_ready] =
            [2, 3, 4].map(|column| datum::number(rows.get(row, column)) != 0);
        Ended {
            id: id_at(rows, row, 0),
            status,
            has_dependents,
            post_result,
            was_ready,
            queue: share(&datum::text(rows.get(row, 5))),
            owned_for: None,
            schedule: rows.get(row, 6).map(|it| it.value() as i64),
            pause: Micros::ZERO,
        }
    }
}
