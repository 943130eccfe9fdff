//! The board: which tasks are ready, in which order, and who leases what.
//!
//! No PostgreSQL in here and no allocation: everything lies in slices that the caller owns, which
//! are shared memory in the extension and vectors in the tests. The caller holds its lock as long
//! as it borrows a [`Board`]; each operation costs O(log n).
//!
//! (I1) to (I12) are the invariants of `docs/reference/guarantees.md`. Reading order, low to high:
//!
//! * `time`: lengths and instants.
//! * `layout`: the records in the slices: a [`Slot`] is one task that the board knows, in one
//!   [`State`] (I3); a [`Lane`] is the ready order of one action of one [`Queue`], best [`Rank`]
//!   first (I4); a [`Worker`] has the timer of its leases in one queue; a [`DatabaseEntry`] is one
//!   database with the timer of its workers (I12); a [`Waiter`] is one process that waits for work
//!   or for the end of a task.
//! * `containers`: pools, lists and trees over slices.
//! * `board`: the operations, one file per subject.
//! * `backoff`, `outcome`: rules that need no board.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod backoff;
mod board;
mod containers;
mod layout;
mod outcome;
mod time;

pub use backoff::Backoff;
#[cfg(feature = "audit")]
pub use board::audit::{Audit, LaneAudit};
pub use board::leases::workers::ReleaseCursor;
pub use board::leases::{
    Claim, Claimed, Expired, Extended, Lease, NEVER, Next, PersistedLease, Refusal,
};
pub use board::notify::NotifyRound;
pub use board::offers::Offered;
pub use board::queues::aging::raised;
pub use board::queues::limits::{Blocked, Bucket, Freed, FreedPlace, GroupPlace, RunningPlace};
pub use board::queues::order::NoteRef;
pub use board::refill::NeedsRefill;
pub use board::shares::Room;
pub use board::waiters::{WaitFor, WorkerEvent};
pub use board::{Board, MAX_CONFIGURED, Parts, Sizes, Usage};
pub use layout::entry::{
    BuildState, COUNTDOWN_DELAY, DatabaseEntry, MAX_DATABASES, ROW_RETRY_DELAY,
};
pub use layout::header::Header;
pub use layout::lane::{Lane, LaneRef, Order};
pub use layout::names::{ACTION_MAX, GroupHash, LaneName, Name, QUEUE_MAX, WORKER_MAX};
pub use layout::nodes::{Chain, ListHead, NIL};
pub use layout::queue::{Coverage, Group, GroupNote, Permits, Queue, QueueSettings};
pub use layout::rank::{Id, Rank};
pub use layout::slot::{RowHint, Slot, State, Ticket, TokenHash};
pub use layout::stats::{
    BUCKETS, Counted, Counts, EVENTS, Event, Events, Gauges, Histogram, QueueStats, bucket,
};
pub use layout::waiter::{ActionFilter, MAX_WAIT_QUEUES, Notice, WaitNode, Waiter};
pub use layout::worker::Worker;
pub use outcome::{ABORTED, CANCELLED, COMPLETED, EXPIRED, End, Outcome, READY, RETRIED, WAITING};
pub use time::{Micros, Monotonic, Timestamp, Wall};
