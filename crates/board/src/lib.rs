//! The board: which tasks are ready, in which order, and who leases what.
//!
//! No PostgreSQL in here and no allocation: everything lives in slices that the caller owns
//! (shared memory in the extension, vectors in the tests). A [`Board`] is borrowed for as long
//! as the caller holds its lock; each move costs O(log n).
//!
//! * [`Slot`]: one task that the board knows, in one [`State`] (I3).
//! * [`Lane`]: the ready order of one (house, queue, action), best [`Rank`] first (I4).
//! * [`House`]: one database, with the timer of its leases (I12).
//! * [`Waiter`]: one process that waits for work of a queue, or for the end of a task.
#![forbid(unsafe_code)]

mod audit;
mod backoff;
mod board;
mod house;
mod lane;
mod lease;
mod list;
mod name;
mod news;
mod offer;
mod outcome;
mod pool;
mod rank;
mod refill;
mod slot;
mod treap;
mod waiter;

#[doc(hidden)]
pub use audit::{Audit, LaneAudit};
pub use backoff::Backoff;
pub use board::{Board, Head, Parts, Sizes, Usage};
pub use house::{Door, HOUSES, House};
pub use lane::{Lane, LaneName, Queue};
pub use lease::{Claim, Front, Held, Lasting, Moment, NEVER, Refusal, Taken};
pub use list::Ends;
pub use name::{ACTION_MAX, Name, QUEUE_MAX, WORKER_MAX};
pub use news::{Round, Settled};
pub use offer::Put;
pub use outcome::{ABORTED, CANCELLED, COMPLETED, EXPIRED, End, Outcome, READY, RETRIED, WAITING};
pub use pool::NIL;
pub use rank::{Id, Rank};
pub use refill::Dry;
pub use slot::{Seal, Slot, State, Ticket};
pub use waiter::{Waiter, Wish};
