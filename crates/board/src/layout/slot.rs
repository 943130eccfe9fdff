//! One task on the board.

use crate::layout::nodes::{NIL, TreapLinks};
use crate::layout::rank::{Id, Rank};
use crate::time::{Micros, Monotonic, Wall};

/// What proves a lease: the first half of the SHA-256 of its token. The board never has the token
/// itself (I7).
pub type TokenHash = [u8; 16];

/// What a slot's task does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum State {
    /// The slot has no task.
    Free,
    /// In its lane, to be taken.
    Queued,
    /// Claimed by a transaction in flight.
    Reserved,
    /// Owned by a worker.
    Leased,
    /// A transaction in flight ends its lease.
    Ending,
    /// Ready, and not handed out yet: the end of its last lease is not durable yet.
    Withheld,
}

/// The holder of a slot whose lease is being ended since it has expired, by whichever process.
pub(crate) const EXPIRY: i32 = 0;

/// A transaction's right to end what it began with a slot. Void once the slot has another
/// generation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ticket {
    /// The slot's index.
    pub slot: u32,
    pub(crate) generation: u32,
}

/// What may be true of a slot.
#[derive(Clone, Copy)]
pub(crate) enum Flag {
    /// The task's row counts this lease as a try already and has its assignment in the history.
    InHistory,
    /// Offered again since its transaction began: when the slot goes, the row may be ready.
    Reoffered,
    /// The lease was written to the table.
    Persisted,
    /// No worker owned the task since it was queued, and `since_at` tells since when it ages, which
    /// is later than its submission.
    AgesLater,
}

/// The flags of a slot, a bit each.
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
pub(crate) struct Flags(u8);

impl Flags {
    pub(crate) fn has(self, flag: Flag) -> bool {
        self.0 & (1 << flag as u8) != 0
    }

    pub(crate) fn set(&mut self, flag: Flag, value: bool) {
        self.0 = self.0 & !(1 << flag as u8) | u8::from(value) << flag as u8;
    }
}

/// Where the table has a task's row, or had it: a hint, to be followed with a check of the id.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct RowHint {
    /// The block.
    pub block: u32,
    /// The offset number in the block, from 1; 0: not known.
    pub offset: u16,
}

/// One task on the board.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Slot {
    // First what trees and chains look at.
    /// The task's id.
    pub id: Id,
    pub(crate) created: Wall,
    /// When the lease ends: the order of the timer. The scheduler may defer it.
    pub deadline: Monotonic,
    pub(crate) priority: u32,
    /// In the lane's tree while queued, in the worker's timer while reserved or leased.
    pub(crate) links: TreapLinks,
    pub(crate) lane: u32,
    pub(crate) generation: u32,
    /// The process in whose transaction the slot is reserved or ending; `EXPIRY`: any
    /// that ends the lease since it has expired.
    pub(crate) holder: i32,
    /// The deadline that the worker was told.
    pub(crate) deadline_at: Wall,
    /// When the lease began; while `Flag::AgesLater`: since when the task ages.
    pub since_at: Wall,
    /// The length that the lease was taken with.
    pub length: Micros,
    /// The task's own lease length; zero: none.
    pub timeout: Micros,
    /// Proves the lease while the slot has a worker.
    pub token_hash: TokenHash,
    /// How far the worker says it is: 0 to 1.
    pub progress: f64,
    /// The process whose transaction claimed the task and has not ended, even if the reservation
    /// has expired: the ownership is no try yet. Zero: it has ended.
    pub(crate) claimed_by: i32,
    pub(crate) state: State,
    /// The state that an ending goes back to when it rolls back.
    pub(crate) previous_state: State,
    pub(crate) flags: Flags,
    /// Where its row is.
    pub row: RowHint,
    /// The worker whose token is good: it has the lease, or its lease expired and no worker owned
    /// the task since. `NIL`: none.
    pub(crate) worker: u32,
    /// The task's group; `NIL`: none. A slot that is pinned has the head of this group's lane as
    /// its lane.
    pub(crate) group: u32,
}

impl Slot {
    pub(crate) fn new(lane: u32, group: u32, rank: Rank, timeout: Micros) -> Slot {
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
            links: TreapLinks::NONE,
            lane,
            generation: 0,
            holder: 0,
            state: State::Free,
            previous_state: State::Free,
            flags: Flags::default(),
            claimed_by: 0,
            row: RowHint::default(),
            worker: NIL,
            group,
        }
    }

    /// The task's position in its lane.
    pub fn rank(&self) -> Rank {
        Rank { id: self.id, created: self.created, priority: self.priority }
    }

    /// What the task does.
    pub fn state(&self) -> State {
        self.state
    }

    /// The deadline that the worker was told; `None`: the lease never expires.
    pub fn deadline_at(&self) -> Option<Wall> {
        Some(self.deadline_at).filter(|at| *at != Wall::NEVER)
    }

    /// Whether the task's row counts this lease as a try already and has its assignment in the
    /// history.
    pub fn in_history(&self) -> bool {
        self.flags.has(Flag::InHistory)
    }

    /// Whether the lease was written to the table.
    pub fn is_persisted(&self) -> bool {
        self.flags.has(Flag::Persisted)
    }

    /// Whether a worker has a lease that was committed and has not ended.
    pub fn has_lease(&self) -> bool {
        match self.state {
            State::Leased => true,
            State::Ending => self.previous_state == State::Leased,
            State::Free | State::Queued | State::Reserved | State::Withheld => false,
        }
    }

    /// As `has_lease`, but what the process's own transaction did counts already.
    pub fn has_lease_for(&self, process: i32) -> bool {
        match self.state {
            State::Reserved | State::Ending if self.holder == process => {
                self.state == State::Reserved
            }
            _ => self.has_lease(),
        }
    }

    /// The process whose transaction claimed the task and has not ended; `None`: it has, or the
    /// reservation has expired.
    pub fn reserved_by(&self) -> Option<i32> {
        (self.state == State::Reserved).then_some(self.claimed_by)
    }

    /// The state of the task if its worker has it again after its deadline.
    pub(crate) fn unexpired_state(&self) -> State {
        if self.claimed_by != 0 { State::Reserved } else { State::Leased }
    }

    /// Whether this process's transaction ends the task's lease, or withdrew the task.
    pub fn is_ended_by(&self, process: i32) -> bool {
        self.state == State::Ending && self.holder == process
    }

    /// Whether a token is good for it.
    pub(crate) fn has_token(&self) -> bool {
        self.worker != NIL
    }

    /// Whether the lease is being ended since it has expired: its worker may have it when that is
    /// over.
    pub(crate) fn is_expiring(&self) -> bool {
        self.state == State::Ending && self.holder == EXPIRY
    }

    /// Since when the task ages.
    pub(crate) fn aged_since(&self) -> Wall {
        if self.flags.has(Flag::AgesLater) { self.since_at } else { self.created }
    }

    /// Whether this is the lease that `other` was.
    pub fn is_same_lease(&self, other: &Slot) -> bool {
        self.generation == other.generation && self.in_history() == other.in_history()
    }

    /// The slot's ticket as it is now; `slot` is the slot's index.
    pub fn ticket(&self, slot: u32) -> Ticket {
        Ticket { slot, generation: self.generation }
    }
}

const _: () = assert!(size_of::<Slot>() <= 144);
