//! The workers, as a map from their names to when they last called.

use std::collections::BTreeMap;

use board::{Monotonic, ReleaseCursor, State, Wall, WorkerEvent};

use super::check::Expect;
use super::world::{
    Act, Card, End, Key, MAX_DATABASES, Outcome, QUEUES, Right, WorkerKey, World, queue_name,
};

/// Of the record that a worker has for itself, beside those for its queues.
const NO_QUEUE: u8 = QUEUES;

pub fn worker_name(pid: i32) -> Vec<u8> {
    format!("worker {pid}").into_bytes()
}

impl Card {
    fn is_of(&self, (entry, queue, name): &WorkerKey) -> bool {
        self.token_hash.is_some()
            && (self.lane.0, self.lane.1) == (*entry, *queue)
            && self.worker == *name
    }
}

impl World<'_> {
    /// A worker asks for tasks of a queue.
    pub fn call(&mut self, entry: u32, queue: u8, pid: i32) {
        let name = worker_name(pid);
        let drains = self.board.note_worker(entry, &queue_name(queue), &name, self.now.wall);
        assert_eq!(drains, self.draining.contains(&(entry, NO_QUEUE, name.clone())));
        self.workers.insert((entry, queue, name), self.now.wall);
        self.reconcile(Expect::default());
    }

    /// An administrator asks a worker to stop, or takes that back.
    pub fn drain_worker(&mut self, entry: u32, pid: i32, drains: bool) {
        let key = (entry, NO_QUEUE, worker_name(pid));
        self.board.drain_worker(entry, &key.2, drains, self.now.wall);
        if drains {
            self.workers.entry(key.clone()).or_insert(self.now.wall);
            self.draining.insert(key);
        } else {
            self.draining.remove(&key);
        }
        self.reconcile(Expect::default());
    }

    /// A lease ends without its worker, which is to be told.
    pub fn signal(&mut self, key: Key) {
        let card = &self.cards[&key];
        if card.token_hash.is_some() {
            let of_worker = (card.lane.0, NO_QUEUE, card.worker.clone());
            let of_queue = (card.lane.0, card.lane.1, card.worker.clone());
            let is_known = self.workers.contains_key(&of_worker);
            self.signals.insert(if is_known { of_worker } else { of_queue });
        }
    }

    /// A worker asks what it is to be told.
    pub fn listen(&mut self, entry: u32, pid: i32) {
        let name = worker_name(pid);
        let queues: Vec<Vec<u8>> = (0..QUEUES).map(queue_name).collect();
        let queues: Vec<&[u8]> = queues.iter().map(|it| &it[..]).collect();
        let event = self.board.take_event(entry, 0, &name, &queues);
        let records = (0..=NO_QUEUE).map(|queue| (entry, queue, name.clone()));
        let told = records.filter(|it| self.signals.remove(it)).count();
        let expected = match self.draining.contains(&(entry, NO_QUEUE, name.clone())) {
            _ if told > 0 => Some(WorkerEvent::Signal),
            true => Some(WorkerEvent::Drain),
            false => None,
        };
        assert_eq!(event, expected, "what {} is told", String::from_utf8_lossy(&name));
        self.tally.told += u64::from(event == Some(WorkerEvent::Signal));
        self.tally.drained += u64::from(event == Some(WorkerEvent::Drain));
        self.reconcile(Expect::default());
    }

    /// The worker of a lease calls.
    pub fn note_seen(&mut self, key: Key) {
        let card = &self.cards[&key];
        let worker = (card.lane.0, card.lane.1, card.worker.clone());
        self.workers.insert(worker, self.now.wall);
    }

    /// A worker gets a lease that began then.
    pub fn note_lease(&mut self, key: Key, since: Wall) {
        let card = &self.cards[&key];
        let worker = (card.lane.0, card.lane.1, card.worker.clone());
        let seen = self.workers.entry(worker).or_insert(since);
        *seen = (*seen).max(since);
    }

    /// An administrator releases a worker.
    pub fn release_worker(&mut self, entry: u32, name: &[u8], most: usize, commits: bool) {
        let pid = 70 + entry as i32;
        self.finish_commit(pid);
        let is_leased = |card: &Card| card.state == State::Leased && card.worker == name;
        let leased = self.cards.iter().filter(|(key, card)| key.0 == entry && is_leased(card));
        let mut left: Vec<Key> = leased.map(|(key, _)| *key).collect();
        let (mut taken, mut next) = (Vec::new(), Some(ReleaseCursor::default()));
        while let Some(cursor) = next {
            let before = taken.len();
            next = self.board.take_leases(entry, name, pid, cursor, most, |ticket, lease| {
                assert_eq!(lease.worker.as_bytes(), name);
                taken.push((ticket, (entry, lease.id)));
            });
            assert!(taken.len() - before <= most);
        }
        let mut rights = Vec::new();
        for (ticket, key) in taken {
            let at = left.iter().position(|it| *it == key).expect("a lease of the worker, once");
            left.remove(at);
            let serial = self.serial();
            let card = self.card(key);
            (card.state, card.previous_state, card.again) = (State::Ending, State::Leased, false);
            (card.holder, card.settling_by, card.epoch) = (pid, serial, serial);
            card.expiring = false;
            self.tally.released += 1;
            rights.push(Right { key, ticket, serial, epoch: serial, place: None });
        }
        assert_eq!(left, [], "all of its leases");
        self.reconcile(Expect::default());
        for right in rights {
            if self.locked().contains(&right.key) {
                self.undo_end(right, Monotonic(0));
                continue;
            }
            let is_ready = self.is_ready(right.key);
            let outcome = if is_ready { Outcome::Revoke } else { Outcome::Stray };
            let act = Act::Settle { right, end: End { outcome, expired: false } };
            self.transactions.entry(pid).or_default().acts.push(act);
        }
        if commits { self.commit(pid, false) } else { self.roll_back(pid, usize::MAX) }
    }

    /// Compares the workers of the board with the map, and adopts which ones it forgot.
    pub fn check_workers(&mut self) {
        let mut known = BTreeMap::new();
        for entry in 0..MAX_DATABASES {
            let all =
                (0..self.board.workers_end()).filter_map(|at| self.board.worker_at(at, entry));
            for (it, deadline) in all {
                let queue = (0..QUEUES).find(|queue| queue_name(*queue) == it.queue.as_bytes());
                assert_eq!(queue.is_none(), it.queue.as_bytes().is_empty());
                let key = (entry, queue.unwrap_or(NO_QUEUE), it.name.as_bytes().to_vec());
                let twice = known.insert(key, (it.running, it.last_seen, deadline));
                assert!(twice.is_none(), "a worker of a queue has one record");
            }
        }
        let is_full = known.len() as u32 == self.board.usage().slots;
        let mut forgotten = 0;
        self.workers.retain(|key, _| {
            let is_kept = known.contains_key(key);
            assert!(is_kept || is_full, "{key:?} is forgotten while there is room");
            forgotten += u64::from(!is_kept);
            is_kept
        });
        self.tally.forgotten += forgotten;
        self.signals.retain(|key| known.contains_key(key));
        self.draining.retain(|key| known.contains_key(key));
        for (key, (running, last_seen, deadline)) in &known {
            assert_eq!(self.workers.get(key), Some(last_seen), "{key:?} was seen then");
            let own = || self.cards.values().filter(|card| card.is_of(key));
            assert_eq!(own().filter(|card| card.has_place()).count(), *running as usize, "{key:?}");
            let timed: Vec<&Card> = own()
                .filter(|card| matches!(card.state, State::Reserved | State::Leased))
                .collect();
            let first = timed.iter().map(|card| card.deadline).min();
            let mut firsts = timed.iter().filter(|card| Some(card.deadline) == first);
            let is_first =
                |card: &&&Card| Some(card.deadline_at).filter(|it| *it != Wall::NEVER) == *deadline;
            assert!(first.is_none() && deadline.is_none() || firsts.any(|it| is_first(&it)));
        }
        for (key, card) in self.cards.iter().filter(|(_, card)| card.token_hash.is_some()) {
            let worker = (card.lane.0, card.lane.1, card.worker.clone());
            assert!(known.contains_key(&worker), "a lease has its worker: {key:?}");
        }
    }
}
