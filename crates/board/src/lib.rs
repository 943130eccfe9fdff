//! The board: which tasks are ready, in which order, and who leases what.
//!
//! No PostgreSQL in here and no allocation: everything lives in slices that the caller owns
//! (shared memory in the extension, vectors in the tests). A [`Board`] is borrowed for as long
//! as the caller holds its lock; each move costs O(log n).
//!
//! * [`Slot`]: one task that the board knows, in one [`State`] (I3).
//! * [`Lane`]: the ready order of one (entry, queue, action), best [`Rank`] first (I4).
//! * [`DatabaseEntry`]: one database, with the timer of its leases (I12).
//! * [`Waiter`]: one process that waits for work of a queue, or for the end of a task.
#![forbid(unsafe_code)]

mod backoff;
mod board;
mod containers;
mod layout;
mod outcome;
mod time;

pub use backoff::Backoff;
#[doc(hidden)]
pub use board::audit::{Audit, LaneAudit};
pub use board::databases::{BuildState, DatabaseEntry, MAX_DATABASES};
pub use board::lanes::{Lane, LaneName, Queue};
pub use board::leases::{Claim, Claimed, Extended, NEVER, Next, PersistedLease, Refusal};
pub use board::notify::{NotifyRound, Settled};
pub use board::offers::Offered;
pub use board::refill::NeedsRefill;
pub use board::waiters::{WaitFor, Waiter};
pub use board::{Board, Header, Parts, Sizes, Usage};
pub use containers::list::ListHead;
pub use containers::pool::NIL;
pub use layout::names::{ACTION_MAX, Name, QUEUE_MAX, WORKER_MAX};
pub use layout::rank::{Id, Rank};
pub use layout::slot::{Slot, State, Ticket, TokenHash};
pub use outcome::{ABORTED, CANCELLED, COMPLETED, EXPIRED, End, Outcome, READY, RETRIED, WAITING};
pub use time::{Micros, Monotonic, Timestamp, Wall};
