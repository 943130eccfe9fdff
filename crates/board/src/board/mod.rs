//! The board as a whole: its memory, and what every move needs.

pub mod audit;
pub mod databases;
pub mod lanes;
pub mod leases;
pub mod notify;
pub mod offers;
pub mod refill;
pub mod waiters;

use crate::board::databases::{DatabaseEntry, MAX_DATABASES};
use crate::board::lanes::{Lane, Queue};
use crate::board::notify::{MAX_PARKED, Settled};
use crate::board::waiters::{Waiter, Waiters};
use crate::containers::list::ListHead;
use crate::containers::pool::{NIL, Pool, PoolHead};
use crate::layout::rank::Id;
use crate::layout::slot::{Slot, State, Ticket};

/// How much memory a board of so many slots needs: the lengths of the slices in [`Parts`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    pub slots: usize,
    pub slot_buckets: usize,
    pub lanes: usize,
    pub lane_buckets: usize,
    /// Processes that may wait.
    pub waiters: usize,
    pub waiter_buckets: usize,
}

impl Sizes {
    /// Lanes, and queues, are a quarter as many as slots, and a thousand at the least: a queue whose
    /// lanes find no place is served lane after lane, no longer in the order of all.
    pub fn of(slots: usize, processes: usize) -> Sizes {
        let lanes = (slots / 4).max(1_024);
        Sizes {
            slots,
            slot_buckets: slots.next_power_of_two(),
            lanes,
            lane_buckets: lanes.next_power_of_two(),
            waiters: processes,
            waiter_buckets: processes.next_power_of_two(),
        }
    }

    /// Queues; their buckets are as many as the lanes'.
    pub fn queues(&self) -> usize {
        self.lanes + MAX_PARKED
    }

    /// Settled tasks that are to be announced; their buckets are as many as the lanes'.
    pub fn settled(&self) -> usize {
        self.lanes
    }
}

/// What stands once on a board.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Header {
    slots: PoolHead,
    lanes: PoolHead,
    queues: PoolHead,
    settled: PoolHead,
    rest: Globals,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Globals {
    /// The tree of all lanes, the longest last.
    pub(crate) lengths: u32,
    generation: u32,
    pub(crate) seed: u32,
    /// Queues without lanes, kept for their news.
    pub(crate) parked: u32,
    /// How many processes wait.
    pub(crate) waiting: u32,
    /// Processes that were woken and are to be told.
    pub(crate) signalled: ListHead,
    pub(crate) entries: [DatabaseEntry; MAX_DATABASES],
}

/// The memory of a board, lent by the caller.
pub struct Parts<'a> {
    pub head: &'a mut Header,
    pub slots: &'a mut [Slot],
    pub slot_buckets: &'a mut [u32],
    pub lanes: &'a mut [Lane],
    pub lane_buckets: &'a mut [u32],
    pub queues: &'a mut [Queue],
    pub queue_buckets: &'a mut [u32],
    pub settled: &'a mut [Settled],
    pub settled_buckets: &'a mut [u32],
    pub waiters: &'a mut [Waiter],
    pub waiter_buckets: &'a mut [ListHead],
}

pub struct Board<'a> {
    pub(crate) head: &'a mut Globals,
    pub(crate) slots: Pool<'a, Slot>,
    pub(crate) lanes: Pool<'a, Lane>,
    pub(crate) queues: Pool<'a, Queue>,
    pub(crate) settled: Pool<'a, Settled>,
    pub(crate) waiters: Waiters<'a>,
}

/// How full a board is.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    pub slots: u32,
    pub slots_used: u32,
    pub lanes: u32,
    pub lanes_used: u32,
}

impl<'a> Board<'a> {
    pub fn on(parts: Parts<'a>) -> Board<'a> {
        let Header { slots, lanes, queues, settled, rest } = parts.head;
        Board {
            head: rest,
            slots: Pool::new(slots, parts.slots, parts.slot_buckets),
            lanes: Pool::new(lanes, parts.lanes, parts.lane_buckets),
            queues: Pool::new(queues, parts.queues, parts.queue_buckets),
            settled: Pool::new(settled, parts.settled, parts.settled_buckets),
            waiters: Waiters::new(parts.waiters, parts.waiter_buckets),
        }
    }

    /// Makes the board empty, whatever its memory holds.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.lanes.clear();
        self.queues.clear();
        self.settled.clear();
        self.waiters.clear();
        // Tickets from before must stay void, so the generations go on.
        let Globals { generation, seed, .. } = *self.head;
        *self.head = Globals {
            lengths: NIL,
            generation,
            seed,
            parked: 0,
            waiting: 0,
            signalled: ListHead::NONE,
            entries: [DatabaseEntry::VACANT; MAX_DATABASES],
        };
    }

    /// Gives an empty board a random number, so that nobody can choose ids or priorities that make
    /// its trees and chains long.
    pub fn set_seed(&mut self, seed: u32) {
        self.head.seed = seed;
    }

    pub(crate) fn slot_hash(&self, entry: u32, id: Id) -> u32 {
        Slot::hash(entry ^ self.head.seed, id)
    }

    pub fn usage(&self) -> Usage {
        Usage {
            slots: self.slots.capacity(),
            slots_used: self.slots.live(),
            lanes: self.lanes.capacity(),
            lanes_used: self.lanes.live(),
        }
    }

    pub fn find_slot(&self, entry: u32, id: Id) -> Option<u32> {
        self.slots
            .find(self.slot_hash(entry, id), |slot| slot.id == id && self.lives_in(slot, entry))
    }

    /// The slot of a task, as it is now.
    pub fn peek(&self, entry: u32, id: Id) -> Option<&Slot> {
        self.find_slot(entry, id).map(|at| &self.slots[at])
    }

    /// The slot at a place, if a task of this entry stands there.
    pub fn slot_at(&self, at: u32, entry: u32) -> Option<&Slot> {
        self.is_in_entry(at, entry).then(|| &self.slots[at])
    }

    /// Whether the lease of a ticket has not ended, and nobody is ending it.
    pub fn is_leased(&self, ticket: Ticket) -> bool {
        self.is_at(ticket, State::Leased)
    }

    /// Notes that a lease was written to the table; false when it has ended meanwhile.
    pub fn note_persisted(&mut self, ticket: Ticket) -> bool {
        let stands = self.is_leased(ticket);
        if stands {
            self.slots[ticket.slot].persisted = true;
        }
        stands
    }

    /// How many places a walk over the slots must look at.
    pub fn places(&self) -> u32 {
        self.slots.used()
    }

    /// A place that `clear` made unused still holds what stood there.
    pub(crate) fn is_in_entry(&self, at: u32, entry: u32) -> bool {
        at < self.slots.used()
            && self.slots[at].state != State::Free
            && self.lives_in(&self.slots[at], entry)
    }

    fn lives_in(&self, slot: &Slot, entry: u32) -> bool {
        self.queues[self.lanes[slot.lane].queue].entry == entry
    }

    pub(crate) fn entry_of(&self, at: u32) -> u32 {
        self.queues[self.lanes[self.slots[at].lane].queue].entry
    }

    /// A number that no slot of this board bore before.
    pub(crate) fn next_generation(&mut self) -> u32 {
        self.head.generation = self.head.generation.wrapping_add(1);
        self.head.generation
    }
}
