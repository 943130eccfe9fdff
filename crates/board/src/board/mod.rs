//! The board as a whole: its memory, and what every operation needs.

#[cfg(feature = "audit")]
pub mod audit;
pub mod databases;
pub mod lanes;
pub mod leases;
pub mod notify;
pub mod offers;
pub mod queues;
pub mod refill;
pub mod shares;
pub mod stats;
pub mod waiters;
pub mod wakes;

use crate::containers::hash::hash;
use crate::containers::pool::Pool;
use crate::layout::entry::{DatabaseEntry, MAX_DATABASES};
use crate::layout::header::{Globals, Header, PoolHeads};
use crate::layout::lane::Lane;
use crate::layout::names::{Name, QUEUE_MAX};
use crate::layout::nodes::{ListHead, NIL};
use crate::layout::queue::{Group, GroupNote, Queue};
use crate::layout::rank::Id;
use crate::layout::slot::{Flag, Slot, State, Ticket};
use crate::layout::stats::{QueueStats, Recount};
use crate::layout::waiter::{Notice, WAIT_NODES, WaitNode, Waiter};
use crate::layout::worker::Worker;

/// How many queues that are not needed are kept to be announced; more are not announced.
pub(crate) const MAX_UNNEEDED: usize = 256;

/// How many queues are counted at once; what more there are is not counted.
const MAX_COUNTED: usize = 10_240;

/// How many waiters are looked at under one hold of the lock (I8).
pub(crate) const LOOKS_PER_HOLD: u32 = 64;
/// How many queues can have settings.
pub const MAX_CONFIGURED: usize = 16_384;

/// How much memory a board needs: the lengths of the slices in [`Parts`]. Numbers of buckets are
/// powers of two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// How many tasks the board holds.
    pub slots: usize,
    /// Buckets of the slots' index, and of the workers'.
    pub slot_buckets: usize,
    /// How many lanes it holds.
    pub lanes: usize,
    /// Buckets of the lanes' index, of the groups' and of the notices'.
    pub lane_buckets: usize,
    /// How many queues it holds: one for each lane, those that are kept to be announced, and those
    /// that have settings.
    pub queues: usize,
    /// Buckets of the queues' index.
    pub queue_buckets: usize,
    /// Processes that may wait.
    pub waiters: usize,
    /// Lines of waiters.
    pub wait_lists: usize,
    /// Queues that are counted.
    pub counted: usize,
    /// Transactions that may be open at once.
    pub transactions: usize,
}

impl Sizes {
    /// The sizes for so many slots and processes. There is a lane for each slot that may be pinned,
    /// and two for each process, which may refill one below another: so the number of leases is
    /// limited by that of the slots alone.
    pub fn of(slots: usize, processes: usize) -> Sizes {
        let lanes = slots + 2 * processes;
        let queues = lanes + MAX_UNNEEDED + MAX_CONFIGURED;
        Sizes {
            slots,
            slot_buckets: slots.next_power_of_two(),
            lanes,
            lane_buckets: lanes.next_power_of_two(),
            queues,
            queue_buckets: queues.next_power_of_two(),
            waiters: processes,
            wait_lists: (4 * processes).next_power_of_two(),
            counted: MAX_COUNTED,
            transactions: 2 * processes,
        }
    }

    /// Buckets of the index of what is counted.
    pub fn counted_buckets(&self) -> usize {
        self.counted.next_power_of_two()
    }

    /// How many nodes of wait lists it holds.
    pub fn wait_nodes(&self) -> usize {
        self.waiters * WAIT_NODES
    }

    /// How many workers it holds, with or without leases: each lease has one.
    pub fn workers(&self) -> usize {
        self.slots
    }

    /// How many groups it holds, each of which has a lane or a slot.
    pub fn groups(&self) -> usize {
        self.lanes + self.slots
    }

    /// How many settled tasks to be announced it holds.
    pub fn notices(&self) -> usize {
        (self.lanes / 4).max(1_024)
    }

    /// How many groups it holds that are to be looked at.
    pub fn notes(&self) -> usize {
        self.notices()
    }
}

/// Calls a macro with the slices of a board: of each its name, its records, and how many there are
/// with some [`Sizes`].
#[macro_export]
macro_rules! slices {
    ($with:ident, $sizes:ident) => {
        $with! {
            $sizes;
            slots: $crate::Slot, $sizes.slots;
            lanes: $crate::Lane, $sizes.lanes;
            queues: $crate::Queue, $sizes.queues;
            slot_chains: $crate::Chain, $sizes.slots;
            slot_buckets: u32, $sizes.slot_buckets;
            lane_chains: $crate::Chain, $sizes.lanes;
            lane_buckets: u32, $sizes.lane_buckets;
            queue_chains: $crate::Chain, $sizes.queues;
            queue_buckets: u32, $sizes.queue_buckets;
            groups: $crate::Group, $sizes.groups();
            group_chains: $crate::Chain, $sizes.groups();
            group_buckets: u32, $sizes.lane_buckets;
            notices: $crate::Notice, $sizes.notices();
            notice_chains: $crate::Chain, $sizes.notices();
            notice_buckets: u32, $sizes.lane_buckets;
            notes: $crate::GroupNote, $sizes.notes();
            note_chains: $crate::Chain, $sizes.notes();
            note_buckets: u32, $sizes.lane_buckets;
            waiters: $crate::Waiter, $sizes.waiters;
            wait_nodes: $crate::WaitNode, $sizes.wait_nodes();
            wait_lists: $crate::ListHead, $sizes.wait_lists;
            stats: $crate::QueueStats, $sizes.counted;
            stats_chains: $crate::Chain, $sizes.counted;
            stats_buckets: u32, $sizes.counted_buckets();
            workers: $crate::Worker, $sizes.workers();
            worker_chains: $crate::Chain, $sizes.workers();
            worker_buckets: u32, $sizes.slot_buckets;
            open: u32, $sizes.transactions;
        }
    };
}

macro_rules! declare_parts {
    ($sizes:ident; $($name:ident: $record:ty, $count:expr;)*) => {
        /// The memory of a board, lent by the caller. [`Sizes`] tells how long each slice is.
        #[allow(missing_docs, reason = "each slice is named for its records")]
        pub struct Parts<'a> {
            pub header: &'a mut Header,
            $(pub $name: &'a mut [$record],)*
        }
    };
}

slices!(declare_parts, sizes);

/// A board, borrowed from its memory for as long as the caller holds its lock.
pub struct Board<'a> {
    pub(crate) globals: &'a mut Globals,
    pub(crate) slots: Pool<'a, Slot>,
    pub(crate) lanes: Pool<'a, Lane>,
    pub(crate) queues: Pool<'a, Queue>,
    pub(crate) groups: Pool<'a, Group>,
    pub(crate) notices: Pool<'a, Notice>,
    pub(crate) notes: Pool<'a, GroupNote>,
    pub(crate) waiters: &'a mut [Waiter],
    /// The waiters' nodes in wait lists, `WAIT_NODES` each.
    pub(crate) wait_nodes: &'a mut [WaitNode],
    /// The wait lists; as many as a power of two.
    pub(crate) wait_lists: &'a mut [ListHead],
    pub(crate) stats: Pool<'a, QueueStats>,
    pub(crate) workers: Pool<'a, Worker>,
    /// The worker that was looked for last under this hold of the lock.
    pub(crate) called: u32,
    /// The transactions that had not ended when the recount under way took its snapshot.
    pub(crate) open: &'a mut [u32],
    /// How many waiters may still be looked at under this hold of the lock (I8).
    pub(crate) looks: u32,
}

/// How full a board is.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// How many tasks it holds at most.
    pub slots: u32,
    /// How many tasks it has.
    pub slots_used: u32,
    /// How many lanes it holds at most.
    pub lanes: u32,
    /// How many lanes it has.
    pub lanes_used: u32,
}

impl<'a> Board<'a> {
    /// The board in some memory, which holds one already or is to be cleared. Made again
    /// at each hold of the lock.
    pub fn on(parts: Parts<'a>) -> Board<'a> {
        let Header { pools, globals } = parts.header;
        let PoolHeads { slots, lanes, queues, groups, notices, notes, stats, workers } = pools;
        assert!(parts.wait_lists.len().is_power_of_two());
        Board {
            globals,
            slots: Pool::new(slots, parts.slots, parts.slot_chains, parts.slot_buckets),
            lanes: Pool::new(lanes, parts.lanes, parts.lane_chains, parts.lane_buckets),
            queues: Pool::new(queues, parts.queues, parts.queue_chains, parts.queue_buckets),
            groups: Pool::new(groups, parts.groups, parts.group_chains, parts.group_buckets),
            notices: Pool::new(notices, parts.notices, parts.notice_chains, parts.notice_buckets),
            notes: Pool::new(notes, parts.notes, parts.note_chains, parts.note_buckets),
            waiters: parts.waiters,
            wait_nodes: parts.wait_nodes,
            wait_lists: parts.wait_lists,
            stats: Pool::new(stats, parts.stats, parts.stats_chains, parts.stats_buckets),
            workers: Pool::new(workers, parts.workers, parts.worker_chains, parts.worker_buckets),
            called: NIL,
            open: parts.open,
            looks: LOOKS_PER_HOLD,
        }
    }

    /// Makes the board empty, whatever its memory holds.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.lanes.clear();
        self.queues.clear();
        self.groups.clear();
        self.notices.clear();
        self.notes.clear();
        self.stats.clear();
        self.workers.clear();
        self.called = NIL;
        self.waiters.fill(Waiter::IDLE);
        self.wait_nodes.fill(WaitNode::NONE);
        self.wait_lists.fill(ListHead::EMPTY);
        // Tickets from before must stay void, so the generations go on.
        let Globals { generation, seed, .. } = *self.globals;
        *self.globals = Globals {
            lengths: NIL,
            generation,
            seed,
            unneeded: 0,
            configured: 0,
            refusing: 0,
            ordering: 0,
            waiting: 0,
            joined: 0,
            signalled: ListHead::EMPTY,
            registered: 0,
            recount: Recount::NONE,
            entries: [DatabaseEntry::VACANT; MAX_DATABASES],
        };
    }

    /// Gives an empty board a random number, so that users cannot choose ids or priorities that
    /// make its trees and chains long.
    pub fn set_seed(&mut self, seed: u32) {
        self.globals.seed = seed;
    }

    /// Whether any queue refuses more ready tasks than it may have.
    pub fn refuses(&self) -> bool {
        self.globals.refusing > 0
    }

    /// Whether any queue runs the tasks of each group in their order.
    pub fn orders(&self) -> bool {
        self.globals.ordering > 0
    }

    /// How full the board is.
    pub fn usage(&self) -> Usage {
        Usage {
            slots: self.slots.capacity(),
            slots_used: self.slots.live(),
            lanes: self.lanes.capacity(),
            lanes_used: self.lanes.live(),
        }
    }

    /// The index of a task's slot.
    pub fn find_slot(&self, entry: u32, id: Id) -> Option<u32> {
        self.slots.find(self.id_hash(entry, id), |slot| {
            slot.id == id && self.entry_of_slot(slot) == entry
        })
    }

    /// A task's slot.
    pub fn slot_of(&self, entry: u32, id: Id) -> Option<&Slot> {
        self.find_slot(entry, id).map(|at| &self.slots[at])
    }

    /// The slot at an index, if it has a task of this database.
    pub fn slot_at(&self, at: u32, entry: u32) -> Option<&Slot> {
        self.is_in_entry(at, entry).then(|| &self.slots[at])
    }

    /// The name of the queue of a slot that has a task.
    pub fn queue_name_of(&self, slot: &Slot) -> Name<QUEUE_MAX> {
        self.queues[self.lanes[slot.lane].queue].name
    }

    /// The end of the slots' indexes: a walk over the slots with `slot_at` ends there.
    pub fn slots_end(&self) -> u32 {
        self.slots.end()
    }

    /// As `slots_end`, for a walk that looks for pinned slots of a database: 0 when it has none.
    pub fn pinned_end(&self, entry: u32) -> u32 {
        if self.entry(entry).pinned == 0 { 0 } else { self.slots_end() }
    }

    /// Whether the lease of a ticket has not ended, and no transaction ends it.
    pub fn is_leased(&self, ticket: Ticket) -> bool {
        self.is_at(ticket, State::Leased)
    }

    /// Notes that a lease was written to the table; false when it has ended meanwhile.
    pub fn note_persisted(&mut self, ticket: Ticket) -> bool {
        let leased = self.is_leased(ticket);
        if leased {
            self.slots[ticket.slot].flags.set(Flag::Persisted, true);
        }
        leased
    }

    pub(crate) fn is_at(&self, ticket: Ticket, state: State) -> bool {
        if ticket.slot >= self.slots.end() {
            return false;
        }
        let slot = &self.slots[ticket.slot];
        slot.generation == ticket.generation && slot.state == state
    }

    /// The hash of a task's id.
    pub(crate) fn id_hash(&self, entry: u32, id: Id) -> u32 {
        hash(entry ^ self.globals.seed, &id.to_ne_bytes())
    }

    /// Whether a slot has a task of this database.
    pub(crate) fn is_in_entry(&self, at: u32, entry: u32) -> bool {
        // A slot that `clear` made unused still has the fields that it had.
        at < self.slots.end()
            && self.slots[at].state != State::Free
            && self.entry_of_slot(&self.slots[at]) == entry
    }

    pub(crate) fn entry_of_slot(&self, slot: &Slot) -> u32 {
        self.queues[self.lanes[slot.lane].queue].entry
    }

    /// A number that this board did not give before.
    pub(crate) fn next_generation(&mut self) -> u32 {
        self.globals.generation = self.globals.generation.wrapping_add(1);
        self.globals.generation
    }
}
