//! What a transaction does to the board: nothing is offered before its commit, and what was taken
//! goes back at a rollback, savepoints included (I2).
//!
//! * `on_board`: a call's way to the board of its database.
//! * `change`: what a transaction may do to the board. `pending`: the changes that it has
//!   registered.
//! * `apply`: making them at the commit, or undoing them. `ends`: when PostgreSQL tells of the end.
//! * `withheld`: changes that wait until their commit is durable. `durability`: when it is.
//! * `in_hand`: what this backend does on the board that an error gives up.
//! * `waiter`: waiting for something on the board. `latch_wait`: sleeping until it happens.

mod apply;
mod change;
pub mod durability;
mod ends;
mod in_hand;
pub mod latch_wait;
pub mod on_board;
mod pending;
mod waiter;
mod withheld;

pub use change::{Change, Offer, QueueCounts};
pub use ends::register;
pub use in_hand::{counting, refilling};
pub use pending::{at_commit, at_commit_of, count, ending, endings_in, endings_in_groups, reserve};
pub use waiter::{end_wait, found_no_room, found_nothing, wait_for};
pub use withheld::{commit_ahead, end_withholding, publish_durable, withheld_until};
