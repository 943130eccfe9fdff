//! The desk: the board in shared memory, who is at home in this database, and what a transaction
//! does to the board when it ends.

mod home;
mod memory;
mod patience;
mod transaction;

pub use home::{Home, SEEN_COLUMNS, build_by, find_anew, home};
pub use memory::{
    broadcast, is_attended, is_kept_away, keep_away, let_back, request_memory, serve_as, wait,
    wake_clock, with_board,
};
pub use patience::patiently;
pub use transaction::{AT_ONCE, Change, LATER, Offer, SOON, promise, refilling, reserve, wait_for};
