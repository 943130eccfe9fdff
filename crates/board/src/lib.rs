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

mod audit;
mod backoff;
mod board;
mod databases;
mod lanes;
mod leases;
mod list;
mod name;
mod notify;
mod offers;
mod outcome;
mod pool;
mod rank;
mod refill;
mod slot;
mod time;
mod treap;
mod waiters;

#[doc(hidden)]
pub use audit::{Audit, LaneAudit};
pub use backoff::Backoff;
pub use board::{Board, Header, Parts, Sizes, Usage};
pub use databases::{BuildState, DatabaseEntry, MAX_DATABASES};
pub use lanes::{Lane, LaneName, Queue};
pub use leases::{Claim, Claimed, Extended, NEVER, Next, PersistedLease, Refusal};
pub use list::ListHead;
pub use name::{ACTION_MAX, Name, QUEUE_MAX, WORKER_MAX};
pub use notify::{NotifyRound, Settled};
pub use offers::Offered;
pub use outcome::{ABORTED, CANCELLED, COMPLETED, EXPIRED, End, Outcome, READY, RETRIED, WAITING};
pub use pool::NIL;
pub use rank::{Id, Rank};
pub use refill::NeedsRefill;
pub use slot::{Slot, State, Ticket, TokenHash};
pub use time::{Micros, Monotonic, Timestamp, Wall};
pub use waiters::{WaitFor, Waiter};
