//! One task on the board.

use crate::containers::pool::{Chain, Node};
use crate::containers::treap::Links;
use crate::layout::names::{Name, WORKER_MAX, hash};
use crate::layout::rank::{Id, Rank};
use crate::time::{Micros, Monotonic, Wall};

/// What proves a lease: the first half of the SHA-256 of its token. The token itself is never kept.
pub type TokenHash = [u8; 16];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum State {
    Free,
    /// In its lane, to be taken.
    Queued,
    /// Claimed by a transaction in flight.
    Reserved,
    /// Owned by a worker.
    Leased,
    /// A transaction in flight, or the clock, ends its lease.
    Ending,
}

/// A transaction's right to end what it began with a slot. Void once the slot's generation moved on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket {
    pub slot: u32,
    pub generation: u32,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Slot {
    // The first 64 bytes, a cache line, hold what trees and chains look at.
    pub id: Id,
    pub created: Wall,
    /// When the lease ends: what the timer goes by.
    pub deadline: Monotonic,
    pub priority: u32,
    /// In the lane's tree while queued, in the entry's timer while reserved or leased.
    pub(crate) links: Links,
    pub(crate) chain: Chain,
    pub(crate) lane: u32,
    pub(crate) generation: u32,
    /// The process in whose transaction the slot is reserved or settling.
    pub(crate) holder: i32,
    /// The deadline as the worker was told it.
    pub deadline_at: Wall,
    /// When the lease began.
    pub since_at: Wall,
    /// The length that the lease was taken with.
    pub length: Micros,
    /// The task's own lease length; zero: none.
    pub timeout: Micros,
    pub token_hash: TokenHash,
    pub progress: f64,
    pub(crate) state: State,
    /// The state that a failed settling goes back to.
    pub(crate) previous_state: State,
    /// The token_hash is good: a lease stands, or the last one ended by expiry and nobody owned since.
    pub(crate) token_valid: bool,
    /// The task's row already counts this lease as a try and has its assignment in the history.
    pub in_history: bool,
    /// Offered again since its transaction began: when it goes, its row may be ready all the same.
    pub(crate) reoffered: bool,
    /// The lease was written behind to the table.
    pub persisted: bool,
    pub worker: Name<{ WORKER_MAX }>,
}

impl Slot {
    pub(crate) fn new(lane: u32, rank: Rank, timeout: Micros) -> Slot {
        Slot {
            id: rank.id,
            created: rank.created,
            priority: rank.priority,
            deadline: Monotonic(0),
            deadline_at: Wall(0),
            since_at: Wall(0),
            length: Micros::ZERO,
            timeout,
            token_hash: [0; 16],
            progress: 0.0,
            chain: Chain::NONE,
            links: Links::NONE,
            lane,
            generation: 0,
            holder: 0,
            state: State::Free,
            previous_state: State::Free,
            token_valid: false,
            in_history: false,
            reoffered: false,
            persisted: false,
            worker: Name::EMPTY,
        }
    }

    pub fn rank(&self) -> Rank {
        Rank { id: self.id, created: self.created, priority: self.priority }
    }

    pub fn state(&self) -> State {
        self.state
    }

    /// Whether a worker holds the task: its lease was committed and has not ended.
    pub fn is_held(&self) -> bool {
        match self.state {
            State::Leased => true,
            State::Ending => self.previous_state == State::Leased,
            State::Free | State::Queued | State::Reserved => false,
        }
    }

    /// As `is_held`, but to the process itself what its own transaction did counts already.
    pub fn has_lease_for(&self, process: i32) -> bool {
        match self.state {
            State::Reserved | State::Ending if self.holder == process => {
                self.state == State::Reserved
            }
            _ => self.is_held(),
        }
    }

    /// Whether this process's transaction ends the task's lease, or holds the task.
    pub fn is_ended_by(&self, process: i32) -> bool {
        self.state == State::Ending && self.holder == process
    }

    pub fn ticket(&self, slot: u32) -> Ticket {
        Ticket { slot, generation: self.generation }
    }

    pub(crate) fn hash(entry: u32, id: Id) -> u32 {
        hash(entry, &id.to_ne_bytes())
    }
}

impl Node for Slot {
    fn chain(&mut self) -> &mut Chain {
        &mut self.chain
    }
    fn chain_ref(&self) -> &Chain {
        &self.chain
    }
}

const _: () = assert!(size_of::<Slot>() <= 256);
const _: () = assert!(std::mem::offset_of!(Slot, deadline_at) == 64);
