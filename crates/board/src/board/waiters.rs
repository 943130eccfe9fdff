//! Processes that wait for work of a queue, or for the end of a task.
//!
//! A process waits for one thing at a time, so its waiter stands at the place of its own number. Who
//! is woken leaves the list: what happens next wakes the next one.

use crate::board::Board;
use crate::containers::list::{self, Link, Links, ListHead};
use crate::containers::pool::NIL;
use crate::layout::names::{Name, QUEUE_MAX, hash};
use crate::layout::rank::Id;

/// What a process waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitFor<'a> {
    /// A ready task of a queue.
    Work(&'a [u8]),
    /// The end of a task.
    Settled(Id),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum WaiterState {
    Idle,
    Waiting,
    /// To be told: the caller of the move that woke it takes it from the list of the called.
    Signalled,
    Woken,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Waiter {
    /// The task, or 0.
    id: Id,
    link: Link,
    entry: u32,
    hash: u32,
    pub(crate) state: WaiterState,
    /// The queue, or empty.
    queue: Name<QUEUE_MAX>,
}

impl Waiter {
    const IDLE: Waiter = Waiter {
        id: 0,
        link: Link::NONE,
        entry: 0,
        hash: 0,
        state: WaiterState::Idle,
        queue: Name::EMPTY,
    };

    fn waits_for(&self, entry: u32, wait: WaitFor) -> bool {
        let (queue, id) = parts(wait);
        self.entry == entry && self.id == id && self.queue.as_bytes() == queue
    }
}

/// A queue's name is never empty: the two kinds do not meet.
fn parts(wait: WaitFor<'_>) -> (&[u8], Id) {
    match wait {
        WaitFor::Work(queue) => (queue, 0),
        WaitFor::Settled(id) => (&[], id),
    }
}

pub struct Waiters<'a> {
    nodes: &'a mut [Waiter],
    /// The lists of those that wait; as many as a power of two.
    buckets: &'a mut [ListHead],
}

impl Links for [Waiter] {
    fn link(&mut self, node: u32) -> &mut Link {
        &mut self[node as usize].link
    }
}

impl<'a> Waiters<'a> {
    pub(crate) fn new(nodes: &'a mut [Waiter], buckets: &'a mut [ListHead]) -> Self {
        assert!(buckets.len().is_power_of_two());
        Waiters { nodes, buckets }
    }

    pub(crate) fn clear(&mut self) {
        self.nodes.fill(Waiter::IDLE);
        self.buckets.fill(ListHead::NONE);
    }

    fn bucket(&self, hash: u32) -> usize {
        hash as usize & (self.buckets.len() - 1)
    }

    fn first(&self, entry: u32, hash: u32, wait: WaitFor) -> Option<u32> {
        let mut at = self.buckets[self.bucket(hash)].first;
        while at != NIL {
            let waiter = &self.nodes[at as usize];
            if waiter.hash == hash && waiter.waits_for(entry, wait) {
                return Some(at);
            }
            at = waiter.link.next();
        }
        None
    }

    /// Of each waiter, its stage, after checking the lists.
    pub(crate) fn audit(&mut self) -> Vec<WaiterState> {
        let mut waiting = vec![false; self.nodes.len()];
        for bucket in 0..self.buckets.len() {
            for at in list::in_order(self.nodes, self.buckets[bucket]) {
                assert_eq!(self.bucket(self.nodes[at as usize].hash), bucket, "a waiter's bucket");
                waiting[at as usize] = true;
            }
        }
        let stages: Vec<WaiterState> = self.nodes.iter().map(|waiter| waiter.state).collect();
        for (stage, waiting) in stages.iter().zip(waiting) {
            assert_eq!(*stage == WaiterState::Waiting, waiting, "who waits is listed");
        }
        stages
    }
}

impl Board<'_> {
    fn wait_hash(&self, entry: u32, wait: WaitFor) -> u32 {
        match wait {
            WaitFor::Work(queue) => hash(entry, queue),
            WaitFor::Settled(id) => self.slot_hash(entry, id),
        }
    }

    /// Makes a process wait. Who waits for this already keeps its place; who was woken queues anew.
    pub fn wait_for(&mut self, entry: u32, process: u32, wait: WaitFor) {
        let waiter = &self.waiters.nodes[process as usize];
        if waiter.state == WaiterState::Waiting && waiter.waits_for(entry, wait) {
            return;
        }
        self.unlist_waiter(process);
        let hash = self.wait_hash(entry, wait);
        let (queue, id) = parts(wait);
        self.waiters.nodes[process as usize] = Waiter {
            id,
            link: Link::NONE,
            entry,
            hash,
            state: WaiterState::Waiting,
            queue: Name::new(queue),
        };
        let bucket = self.waiters.bucket(hash);
        list::push(self.waiters.nodes, &mut self.waiters.buckets[bucket], process);
        self.head.waiting += 1;
        if let WaitFor::Work(queue) = wait {
            self.note_waiter(entry, queue);
        }
    }

    /// ListHead a process's waiting. If it was woken for a task, the wake-up goes to the next one.
    pub fn stop_waiting(&mut self, process: u32) {
        let Some(waiter) = self.waiters.nodes.get(process as usize).copied() else { return };
        self.unlist_waiter(process);
        self.waiters.nodes[process as usize].state = WaiterState::Idle;
        let was_woken = matches!(waiter.state, WaiterState::Signalled | WaiterState::Woken);
        if was_woken && !waiter.queue.as_bytes().is_empty() {
            self.wake_first(waiter.entry, waiter.hash, WaitFor::Work(waiter.queue.as_bytes()));
        }
    }

    fn unlist_waiter(&mut self, process: u32) {
        let Waiter { state, hash, .. } = self.waiters.nodes[process as usize];
        match state {
            WaiterState::Waiting => {
                let bucket = self.waiters.bucket(hash);
                list::remove(self.waiters.nodes, &mut self.waiters.buckets[bucket], process);
                self.head.waiting -= 1;
            }
            WaiterState::Signalled => {
                list::remove(self.waiters.nodes, &mut self.head.signalled, process)
            }
            WaiterState::Idle | WaiterState::Woken => {}
        }
    }

    fn signal(&mut self, process: u32) {
        self.unlist_waiter(process);
        self.waiters.nodes[process as usize].state = WaiterState::Signalled;
        list::push(self.waiters.nodes, &mut self.head.signalled, process);
    }

    pub(crate) fn has_waiter(&self, entry: u32, hash: u32, wait: WaitFor) -> bool {
        self.head.waiting > 0 && self.waiters.first(entry, hash, wait).is_some()
    }

    /// Wakes who has waited longest.
    pub(crate) fn wake_first(&mut self, entry: u32, hash: u32, wait: WaitFor) -> bool {
        if self.head.waiting == 0 {
            return false;
        }
        let first = self.waiters.first(entry, hash, wait);
        first.into_iter().for_each(|first| self.signal(first));
        first.is_some()
    }

    /// Wakes one who waits for work of a queue that the board has no place for.
    pub(crate) fn wake_worker(&mut self, entry: u32, queue: &[u8]) {
        if self.head.waiting > 0 {
            self.wake_first(entry, hash(entry, queue), WaitFor::Work(queue));
        }
    }

    /// A task has settled: wakes all who wait for its end.
    pub(crate) fn wake_all(&mut self, entry: u32, id: Id) {
        let wait = WaitFor::Settled(id);
        if self.head.waiting > 0 {
            let hash = self.wait_hash(entry, wait);
            while self.wake_first(entry, hash, wait) {}
        }
    }

    /// Wakes whoever waits in a entry: it is no more.
    pub(crate) fn wake_database(&mut self, entry: u32) {
        for process in 0..self.waiters.nodes.len() as u32 {
            let waiter = &self.waiters.nodes[process as usize];
            if waiter.entry == entry && waiter.state == WaiterState::Waiting {
                self.signal(process);
            }
        }
    }

    /// The next process to be told that it was woken.
    #[inline]
    pub fn next_signalled(&mut self) -> Option<u32> {
        let process = list::pop(self.waiters.nodes, &mut self.head.signalled)?;
        self.waiters.nodes[process as usize].state = WaiterState::Woken;
        Some(process)
    }

    pub(crate) fn signalled(&mut self) -> Vec<u32> {
        list::in_order(self.waiters.nodes, self.head.signalled)
    }

    /// How many processes wait, and how many were woken and do not wait again yet.
    pub fn waiting(&self) -> (u32, u32) {
        let woken =
            |waiter: &&Waiter| matches!(waiter.state, WaiterState::Signalled | WaiterState::Woken);
        (self.head.waiting, self.waiters.nodes.iter().filter(woken).count() as u32)
    }
}
