//! Processes that wait for work of a queue, or for the end of a task.
//!
//! A process joins its line before it looks for what it waits for, so that it cannot miss what
//! happens in between. A process that is woken leaves the line: the next event wakes another one.

use crate::board::Board;
use crate::containers::hash::hash;
use crate::containers::list::{self, ListNodes};
use crate::layout::names::Name;
use crate::layout::nodes::{Link, NIL};
use crate::layout::rank::Id;
use crate::layout::waiter::{Waiter, WaiterState};

/// What a process waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitFor<'a> {
    /// A ready task of a queue.
    Work(&'a [u8]),
    /// The end of a task.
    Settled(Id),
}

impl Waiter {
    fn waits_for(&self, entry: u32, wait: WaitFor) -> bool {
        let (queue, id) = parts(wait);
        self.entry == entry && self.id == id && self.queue.as_bytes() == queue
    }

    fn was_woken(&self) -> bool {
        matches!(self.state, WaiterState::Signalled | WaiterState::Woken)
    }
}

/// A queue's name is never empty: the two kinds do not meet.
fn parts(wait: WaitFor<'_>) -> (&[u8], Id) {
    match wait {
        WaitFor::Work(queue) => (queue, 0),
        WaitFor::Settled(id) => (&[], id),
    }
}

impl ListNodes for [Waiter] {
    fn link(&mut self, node: u32) -> &mut Link {
        &mut self[node as usize].link
    }
}

impl Board<'_> {
    fn wait_hash(&self, entry: u32, wait: WaitFor) -> u32 {
        match wait {
            WaitFor::Work(queue) => hash(entry, queue),
            WaitFor::Settled(id) => self.id_hash(entry, id),
        }
    }

    /// The index of the line for a hash.
    pub(crate) fn line(&self, hash: u32) -> usize {
        hash as usize & (self.lines.len() - 1)
    }

    /// Makes a process wait. A process that waits for this already keeps its place; one that was
    /// woken joins at the end.
    pub fn wait_for(&mut self, entry: u32, process: u32, wait: WaitFor) {
        let waiter = &self.waiters[process as usize];
        if waiter.state == WaiterState::Waiting && waiter.waits_for(entry, wait) {
            return;
        }
        self.leave_line(process);
        let hash = self.wait_hash(entry, wait);
        let (queue, id) = parts(wait);
        self.waiters[process as usize] = Waiter {
            id,
            link: Link::NONE,
            entry,
            hash,
            state: WaiterState::Waiting,
            queue: Name::new(queue),
        };
        let line = self.line(hash);
        list::push(self.waiters, &mut self.lines[line], process);
        self.globals.waiting += 1;
        if let WaitFor::Work(queue) = wait {
            self.note_waiter(entry, queue);
        }
    }

    /// Ends a process's waiting. If it was woken for work, the wake-up goes to the next waiter.
    pub fn stop_waiting(&mut self, process: u32) {
        let Some(waiter) = self.waiters.get(process as usize).copied() else { return };
        self.leave_line(process);
        self.waiters[process as usize].state = WaiterState::Idle;
        if waiter.was_woken() && !waiter.queue.as_bytes().is_empty() {
            self.wake_first(waiter.entry, waiter.hash, WaitFor::Work(waiter.queue.as_bytes()));
        }
    }

    fn leave_line(&mut self, process: u32) {
        let Waiter { state, hash, .. } = self.waiters[process as usize];
        match state {
            WaiterState::Waiting => {
                let line = self.line(hash);
                list::remove(self.waiters, &mut self.lines[line], process);
                self.globals.waiting -= 1;
            }
            WaiterState::Signalled => {
                list::remove(self.waiters, &mut self.globals.signalled, process)
            }
            WaiterState::Idle | WaiterState::Woken => {}
        }
    }

    fn signal(&mut self, process: u32) {
        self.leave_line(process);
        self.waiters[process as usize].state = WaiterState::Signalled;
        list::push(self.waiters, &mut self.globals.signalled, process);
    }

    fn first_waiter(&self, entry: u32, hash: u32, wait: WaitFor) -> Option<u32> {
        let mut at = self.lines[self.line(hash)].first;
        while at != NIL {
            let waiter = &self.waiters[at as usize];
            if waiter.hash == hash && waiter.waits_for(entry, wait) {
                return Some(at);
            }
            at = waiter.link.next;
        }
        None
    }

    pub(crate) fn has_waiter(&self, entry: u32, hash: u32, wait: WaitFor) -> bool {
        self.globals.waiting > 0 && self.first_waiter(entry, hash, wait).is_some()
    }

    /// Wakes the process that has waited longest; false when none waits.
    pub(crate) fn wake_first(&mut self, entry: u32, hash: u32, wait: WaitFor) -> bool {
        if self.globals.waiting == 0 {
            return false;
        }
        let first = self.first_waiter(entry, hash, wait);
        first.into_iter().for_each(|first| self.signal(first));
        first.is_some()
    }

    /// Wakes a process that waits for work of a queue whose lane found no place on the board.
    pub(crate) fn wake_worker(&mut self, entry: u32, queue: &[u8]) {
        if self.globals.waiting > 0 {
            self.wake_first(entry, hash(entry, queue), WaitFor::Work(queue));
        }
    }

    /// Wakes all processes that wait for the end of a task.
    pub(crate) fn wake_all(&mut self, entry: u32, id: Id) {
        let wait = WaitFor::Settled(id);
        if self.globals.waiting > 0 {
            let hash = self.wait_hash(entry, wait);
            while self.wake_first(entry, hash, wait) {}
        }
    }

    /// Wakes all processes that wait in a database whose entry is freed.
    pub(crate) fn wake_database(&mut self, entry: u32) {
        for process in 0..self.waiters.len() as u32 {
            let waiter = &self.waiters[process as usize];
            if waiter.entry == entry && waiter.state == WaiterState::Waiting {
                self.signal(process);
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
