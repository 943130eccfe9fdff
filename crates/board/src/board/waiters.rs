//! Processes that wait for work, or for the end of a task.
//!
//! A *wait list* is a first-in, first-out list of waiting processes. A queue or a task has one
//! while processes wait for it, and so has a worker that waits. A process joins its wait lists
//! before it checks for what it waits for, so it cannot miss what happens in between. It is in the
//! list of its task, or in one list for each queue. A process that is woken leaves all its wait
//! lists at once, and joins them again before it checks.

use crate::board::Board;
use crate::containers::hash::hash;
use crate::containers::list::{self, ListNodes};
use crate::layout::lane::LaneRef;
use crate::layout::nodes::{Link, NIL};
use crate::layout::rank::Id;
use crate::layout::waiter::{
    ActionFilter, MAX_WAIT_QUEUES, WAIT_NODES, WaitNode, Waiter, WaiterState,
};

/// What a process waits for.
#[derive(Clone, Copy, Debug)]
pub enum WaitFor<'a> {
    /// A ready task of one of these queues, `MAX_WAIT_QUEUES` at most, whose action is one of some.
    Work {
        /// The names of the queues.
        queues: &'a [&'a [u8]],
        /// The actions.
        filter: ActionFilter,
    },
    /// As `Work`, or what concerns a worker.
    Event {
        /// The names of the queues.
        queues: &'a [&'a [u8]],
        /// The actions.
        filter: ActionFilter,
        /// The worker's name.
        worker: &'a [u8],
    },
    /// The end of a task.
    Settled(Id),
}

/// What concerns a worker that waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorkerEvent {
    /// A lease of the worker ended without it.
    Signal,
    /// The worker is asked to stop.
    Drain,
}

impl ActionFilter {
    /// Every action.
    pub const ANY: ActionFilter = ActionFilter(u128::MAX);

    /// Some actions; `None`: every one.
    pub fn new(actions: Option<&[&[u8]]>) -> ActionFilter {
        actions.map_or(ActionFilter::ANY, |actions| {
            ActionFilter(actions.iter().fold(0, |all, action| all | ActionFilter::of(action).0))
        })
    }

    /// One action.
    pub(crate) fn of(action: &[u8]) -> ActionFilter {
        ActionFilter(1 << (hash(0, action) % u128::BITS))
    }

    /// Whether the action is among these. May be true though it is not, and never the other way
    /// round.
    pub fn admits(self, action: &[u8]) -> bool {
        self.meets(ActionFilter::of(action))
    }

    pub(crate) fn meets(self, other: ActionFilter) -> bool {
        self.0 & other.0 != 0
    }
}

impl Waiter {
    fn was_woken(&self) -> bool {
        matches!(self.state, WaiterState::Signalled | WaiterState::Woken)
    }
}

impl ListNodes for [Waiter] {
    fn link(&mut self, node: u32) -> &mut Link {
        &mut self[node as usize].link
    }
}

impl ListNodes for [WaitNode] {
    fn link(&mut self, node: u32) -> &mut Link {
        &mut self[node as usize].link
    }
}

/// The hash of a worker's wait list.
fn worker_hash(entry: u32, worker: &[u8]) -> u32 {
    hash(hash(entry, b"worker"), worker)
}

/// The indexes of a waiter's nodes.
fn wait_nodes(process: u32, wait_lists: u32) -> std::ops::Range<u32> {
    let first = process * WAIT_NODES as u32;
    first..first + wait_lists
}

impl Board<'_> {
    /// The index of the wait list for a hash.
    pub(crate) fn wait_list(&self, hash: u32) -> usize {
        hash as usize & (self.wait_lists.len() - 1)
    }

    /// The process that has a node.
    pub(crate) fn process_at(&self, node: u32) -> u32 {
        node / WAIT_NODES as u32
    }

    pub(crate) fn waiter_at(&self, node: u32) -> &Waiter {
        &self.waiters[self.process_at(node) as usize]
    }

    /// Makes a process wait. A process that waits for this already keeps its nodes; one that was
    /// woken joins at the ends of its wait lists.
    pub fn wait_for(&mut self, entry: u32, process: u32, wait: WaitFor) {
        let mut hashes = [0; WAIT_NODES];
        let mut join = |queues: &[&[u8]]| {
            let wait_lists = queues.len().min(MAX_WAIT_QUEUES);
            hashes
                .iter_mut()
                .zip(&queues[..wait_lists])
                .for_each(|(it, queue)| *it = hash(entry, queue));
            wait_lists
        };
        let mut for_worker = false;
        let (wait_lists, filter, for_work) = match wait {
            WaitFor::Work { queues, filter } => (join(queues) as u32, filter, true),
            WaitFor::Event { queues, filter, worker } => {
                let wait_lists = join(queues);
                hashes[wait_lists] = worker_hash(entry, worker);
                for_worker = true;
                (wait_lists as u32 + 1, filter, true)
            }
            WaitFor::Settled(id) => {
                hashes[0] = self.id_hash(entry, id);
                (1, ActionFilter::ANY, false)
            }
        };
        let waiter = self.waiters[process as usize];
        let same = (waiter.entry, waiter.wait_lists, waiter.filter, waiter.for_work)
            == (entry, wait_lists, filter, for_work)
            && wait_nodes(process, wait_lists)
                .zip(hashes)
                .all(|(at, hash)| self.wait_nodes[at as usize].hash == hash);
        if waiter.state == WaiterState::Waiting && same {
            return;
        }
        self.leave_lines(process);
        self.globals.joined += 1;
        self.globals.waiting += 1;
        self.waiters[process as usize] = Waiter {
            filter,
            joined: self.globals.joined,
            woken_for: waiter.woken_for,
            link: Link::NONE,
            entry,
            wait_lists,
            state: WaiterState::Waiting,
            for_work,
            for_worker,
            signalled: waiter.signalled && for_worker,
        };
        for (at, hash) in wait_nodes(process, wait_lists).zip(hashes) {
            self.wait_nodes[at as usize] = WaitNode { link: Link::NONE, hash };
            let list_at = self.wait_list(hash);
            list::push(self.wait_nodes, &mut self.wait_lists[list_at], at);
        }
    }

    /// Ends a process's wait. `found`: the lane in which it found work. If it was woken for another
    /// lane, that wake-up goes to the next waiter.
    pub fn end_wait(&mut self, process: u32, found: Option<LaneRef>) {
        if self.waiters.get(process as usize).is_none() {
            return;
        }
        self.leave_lines(process);
        let waiter = &mut self.waiters[process as usize];
        waiter.state = WaiterState::Idle;
        waiter.signalled = false;
        let woken_for = std::mem::replace(&mut waiter.woken_for, LaneRef::NONE);
        if !found.is_some_and(|found| self.is_used(woken_for, found)) {
            self.pass_on(woken_for);
        }
    }

    /// Notes that a process looked and found nothing, and waits on: a wake-up that was not for it
    /// goes to the next waiter.
    pub fn found_nothing(&mut self, process: u32) {
        let waiter = &mut self.waiters[process as usize];
        let woken_for = std::mem::replace(&mut waiter.woken_for, LaneRef::NONE);
        self.pass_on(woken_for);
    }

    fn leave_lines(&mut self, process: u32) {
        let Waiter { state, wait_lists, .. } = self.waiters[process as usize];
        match state {
            WaiterState::Waiting => {
                for at in wait_nodes(process, wait_lists) {
                    let list_at = self.wait_list(self.wait_nodes[at as usize].hash);
                    list::remove(self.wait_nodes, &mut self.wait_lists[list_at], at);
                }
                self.globals.waiting -= 1;
            }
            WaiterState::Signalled => {
                list::remove(self.waiters, &mut self.globals.signalled, process)
            }
            WaiterState::Idle | WaiterState::Woken => {}
        }
    }

    /// Wakes a waiting process for a lane.
    pub(crate) fn signal(&mut self, process: u32, woken_for: LaneRef) {
        self.leave_lines(process);
        let waiter = &mut self.waiters[process as usize];
        waiter.state = WaiterState::Signalled;
        let unused = std::mem::replace(&mut waiter.woken_for, woken_for);
        list::push(self.waiters, &mut self.globals.signalled, process);
        // It was looking for what it was woken for before, and may have found nothing there.
        self.owe(unused);
    }

    /// Wakes one process that waits for work, of a queue with this hash and of an action, whose
    /// lane does not fit on the board.
    pub(crate) fn wake_without_lane(&mut self, entry: u32, hash: u32, filter: ActionFilter) {
        if self.globals.waiting == 0 {
            return;
        }
        let mut at = self.wait_lists[self.wait_list(hash)].first;
        while at != NIL && self.looks > 0 {
            self.looks -= 1;
            if self.wants_work(at, entry, hash, filter) {
                return self.signal(self.process_at(at), LaneRef::NONE);
            }
            at = self.wait_nodes[at as usize].link.next;
        }
    }

    /// Whether the waiter of a node waits for work of a queue with this hash, for one of the
    /// actions.
    pub(crate) fn wants_work(&self, at: u32, entry: u32, hash: u32, filter: ActionFilter) -> bool {
        let waiter = self.waiter_at(at);
        waiter.for_work
            && waiter.entry == entry
            && self.wait_nodes[at as usize].hash == hash
            && waiter.filter.meets(filter)
    }

    /// Wakes all processes that wait for the end of a task.
    pub(crate) fn wake_all(&mut self, entry: u32, id: Id) {
        if self.globals.waiting == 0 {
            return;
        }
        let hash = self.id_hash(entry, id);
        let mut at = self.wait_lists[self.wait_list(hash)].first;
        while at != NIL {
            let (process, node) = (self.process_at(at), self.wait_nodes[at as usize]);
            // A process that waits for the end of a task is in one list only: `next` stays in it.
            at = node.link.next;
            let waiter = &self.waiters[process as usize];
            if !waiter.for_work && waiter.entry == entry && node.hash == hash {
                self.signal(process, LaneRef::NONE);
            }
        }
    }

    /// A lease of a worker, which has this record, has ended without it: it is told when it waits,
    /// or at once. One that has not waited yet has no other record.
    pub(crate) fn signal_worker(&mut self, record: u32) {
        let (entry, name) = (self.workers[record].entry, self.workers[record].name);
        let record = self.find_worker(entry, b"", name.as_bytes()).unwrap_or(record);
        self.workers[record].signalled = true;
        self.wake_worker(entry, name.as_bytes(), true);
    }

    /// Wakes the processes in which a worker waits.
    pub(crate) fn wake_worker(&mut self, entry: u32, worker: &[u8], signalled: bool) {
        if self.globals.waiting == 0 {
            return;
        }
        let hash = worker_hash(entry, worker);
        let list_at = self.wait_list(hash);
        let mut at = self.wait_lists[list_at].first;
        while at != NIL {
            let (process, node) = (self.process_at(at), self.wait_nodes[at as usize]);
            let waiter = &mut self.waiters[process as usize];
            let is_worker =
                waiter.for_worker && at + 1 == wait_nodes(process, waiter.wait_lists).end;
            if is_worker && waiter.entry == entry && node.hash == hash {
                waiter.signalled |= signalled;
                self.signal(process, LaneRef::NONE);
                // It has left this list, maybe with several nodes.
                at = self.wait_lists[list_at].first;
            } else {
                at = node.link.next;
            }
        }
    }

    /// What a worker is to be told, which waits in a process for some queues. A signal is told
    /// once.
    pub fn take_event(
        &mut self,
        entry: u32,
        process: u32,
        worker: &[u8],
        queues: &[&[u8]],
    ) -> Option<WorkerEvent> {
        let mut signalled = std::mem::take(&mut self.waiters[process as usize].signalled);
        let mut drains = false;
        for queue in queues.iter().copied().chain([&b""[..]]) {
            if let Some(it) = self.find_worker(entry, queue, worker) {
                let it = &mut self.workers[it];
                signalled |= std::mem::take(&mut it.signalled);
                drains |= it.draining;
            }
        }
        match (signalled, drains) {
            (true, _) => Some(WorkerEvent::Signal),
            (false, true) => Some(WorkerEvent::Drain),
            (false, false) => None,
        }
    }

    /// Wakes all processes that wait in a database whose entry is freed.
    pub(crate) fn wake_database(&mut self, entry: u32) {
        for process in 0..self.waiters.len() as u32 {
            let waiter = &self.waiters[process as usize];
            if waiter.entry == entry && waiter.state == WaiterState::Waiting {
                self.signal(process, LaneRef::NONE);
            }
        }
    }

    /// The next process that was woken, whose latch the caller sets.
    #[inline]
    pub fn next_signalled(&mut self) -> Option<u32> {
        let process = list::pop(self.waiters, &mut self.globals.signalled)?;
        self.waiters[process as usize].state = WaiterState::Woken;
        Some(process)
    }

    /// How many processes wait, and how many were woken and do not wait again yet.
    pub fn waiting(&self) -> (u32, u32) {
        let woken = self.waiters.iter().filter(|waiter| waiter.was_woken()).count();
        (self.globals.waiting, woken as u32)
    }
}
