//! Processes that wait for work of a queue, or for the end of a task.
//!
//! A process waits for one thing at a time, so its waiter stands at the place of its own number. Who
//! is woken leaves the list: what happens next wakes the next one.

use crate::board::Board;
use crate::list::{self, Ends, Link, Links};
use crate::name::{Name, QUEUE_MAX, hash};
use crate::pool::NIL;
use crate::rank::Id;

/// What a process waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish<'a> {
    /// A ready task of a queue.
    Work(&'a [u8]),
    /// The end of a task.
    End(Id),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Stage {
    Away,
    Waiting,
    /// To be told: the caller of the move that woke it takes it from the list of the called.
    Called,
    Woken,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Waiter {
    /// The task, or 0.
    id: Id,
    link: Link,
    house: u32,
    hash: u32,
    pub(crate) stage: Stage,
    /// The queue, or empty.
    queue: Name<QUEUE_MAX>,
}

impl Waiter {
    const AWAY: Waiter = Waiter {
        id: 0,
        link: Link::NONE,
        house: 0,
        hash: 0,
        stage: Stage::Away,
        queue: Name::EMPTY,
    };

    fn wishes(&self, house: u32, wish: Wish) -> bool {
        let (queue, id) = parts(wish);
        self.house == house && self.id == id && self.queue.as_bytes() == queue
    }
}

/// A queue's name is never empty: the two kinds do not meet.
fn parts(wish: Wish<'_>) -> (&[u8], Id) {
    match wish {
        Wish::Work(queue) => (queue, 0),
        Wish::End(id) => (&[], id),
    }
}

pub struct Waiters<'a> {
    nodes: &'a mut [Waiter],
    /// The lists of those that wait; as many as a power of two.
    buckets: &'a mut [Ends],
}

impl Links for [Waiter] {
    fn link(&mut self, node: u32) -> &mut Link {
        &mut self[node as usize].link
    }
}

impl<'a> Waiters<'a> {
    pub(crate) fn new(nodes: &'a mut [Waiter], buckets: &'a mut [Ends]) -> Self {
        assert!(buckets.len().is_power_of_two());
        Waiters { nodes, buckets }
    }

    pub(crate) fn clear(&mut self) {
        self.nodes.fill(Waiter::AWAY);
        self.buckets.fill(Ends::NONE);
    }

    fn bucket(&self, hash: u32) -> usize {
        hash as usize & (self.buckets.len() - 1)
    }

    fn first(&self, house: u32, hash: u32, wish: Wish) -> Option<u32> {
        let mut at = self.buckets[self.bucket(hash)].first;
        while at != NIL {
            let waiter = &self.nodes[at as usize];
            if waiter.hash == hash && waiter.wishes(house, wish) {
                return Some(at);
            }
            at = waiter.link.next();
        }
        None
    }

    /// Of each waiter, its stage, after checking the lists.
    pub(crate) fn audit(&mut self) -> Vec<Stage> {
        let mut waiting = vec![false; self.nodes.len()];
        for bucket in 0..self.buckets.len() {
            for at in list::in_order(self.nodes, self.buckets[bucket]) {
                assert_eq!(self.bucket(self.nodes[at as usize].hash), bucket, "a waiter's bucket");
                waiting[at as usize] = true;
            }
        }
        let stages: Vec<Stage> = self.nodes.iter().map(|waiter| waiter.stage).collect();
        for (stage, waiting) in stages.iter().zip(waiting) {
            assert_eq!(*stage == Stage::Waiting, waiting, "who waits is listed");
        }
        stages
    }
}

impl Board<'_> {
    fn wish_hash(&self, house: u32, wish: Wish) -> u32 {
        match wish {
            Wish::Work(queue) => hash(house, queue),
            Wish::End(id) => self.slot_hash(house, id),
        }
    }

    /// Makes a process wait. Who waits for this already keeps its place; who was woken queues anew.
    pub fn wait_for(&mut self, house: u32, process: u32, wish: Wish) {
        let waiter = &self.waiters.nodes[process as usize];
        if waiter.stage == Stage::Waiting && waiter.wishes(house, wish) {
            return;
        }
        self.unlist_waiter(process);
        let hash = self.wish_hash(house, wish);
        let (queue, id) = parts(wish);
        self.waiters.nodes[process as usize] = Waiter {
            id,
            link: Link::NONE,
            house,
            hash,
            stage: Stage::Waiting,
            queue: Name::new(queue),
        };
        let bucket = self.waiters.bucket(hash);
        list::push(self.waiters.nodes, &mut self.waiters.buckets[bucket], process);
        self.head.waiting += 1;
        if let Wish::Work(queue) = wish {
            self.note_waiter(house, queue);
        }
    }

    /// Ends a process's waiting. If it was woken for a task, the wake-up goes to the next one.
    pub fn stop_waiting(&mut self, process: u32) {
        let Some(waiter) = self.waiters.nodes.get(process as usize).copied() else { return };
        self.unlist_waiter(process);
        self.waiters.nodes[process as usize].stage = Stage::Away;
        let was_woken = matches!(waiter.stage, Stage::Called | Stage::Woken);
        if was_woken && !waiter.queue.as_bytes().is_empty() {
            self.wake_first(waiter.house, waiter.hash, Wish::Work(waiter.queue.as_bytes()));
        }
    }

    fn unlist_waiter(&mut self, process: u32) {
        let Waiter { stage, hash, .. } = self.waiters.nodes[process as usize];
        match stage {
            Stage::Waiting => {
                let bucket = self.waiters.bucket(hash);
                list::remove(self.waiters.nodes, &mut self.waiters.buckets[bucket], process);
                self.head.waiting -= 1;
            }
            Stage::Called => list::remove(self.waiters.nodes, &mut self.head.called, process),
            Stage::Away | Stage::Woken => {}
        }
    }

    fn call(&mut self, process: u32) {
        self.unlist_waiter(process);
        self.waiters.nodes[process as usize].stage = Stage::Called;
        list::push(self.waiters.nodes, &mut self.head.called, process);
    }

    pub(crate) fn has_waiter(&self, house: u32, hash: u32, wish: Wish) -> bool {
        self.head.waiting > 0 && self.waiters.first(house, hash, wish).is_some()
    }

    /// Wakes who has waited longest.
    pub(crate) fn wake_first(&mut self, house: u32, hash: u32, wish: Wish) -> bool {
        if self.head.waiting == 0 {
            return false;
        }
        let first = self.waiters.first(house, hash, wish);
        first.into_iter().for_each(|first| self.call(first));
        first.is_some()
    }

    /// Wakes one who waits for work of a queue that the board has no place for.
    pub(crate) fn wake_worker(&mut self, house: u32, queue: &[u8]) {
        if self.head.waiting > 0 {
            self.wake_first(house, hash(house, queue), Wish::Work(queue));
        }
    }

    /// A task has settled: wakes all who wait for its end.
    pub(crate) fn wake_all(&mut self, house: u32, id: Id) {
        let wish = Wish::End(id);
        if self.head.waiting > 0 {
            let hash = self.wish_hash(house, wish);
            while self.wake_first(house, hash, wish) {}
        }
    }

    /// Wakes whoever waits in a house: it is no more.
    pub(crate) fn wake_house(&mut self, house: u32) {
        for process in 0..self.waiters.nodes.len() as u32 {
            let waiter = &self.waiters.nodes[process as usize];
            if waiter.house == house && waiter.stage == Stage::Waiting {
                self.call(process);
            }
        }
    }

    /// The next process to be told that it was woken.
    #[inline]
    pub fn next_called(&mut self) -> Option<u32> {
        let process = list::pop(self.waiters.nodes, &mut self.head.called)?;
        self.waiters.nodes[process as usize].stage = Stage::Woken;
        Some(process)
    }

    pub(crate) fn called(&mut self) -> Vec<u32> {
        list::in_order(self.waiters.nodes, self.head.called)
    }

    /// How many processes wait, and how many were woken and do not wait again yet.
    pub fn waiting(&self) -> (u32, u32) {
        let woken = |waiter: &&Waiter| matches!(waiter.stage, Stage::Called | Stage::Woken);
        (self.head.waiting, self.waiters.nodes.iter().filter(woken).count() as u32)
    }
}
