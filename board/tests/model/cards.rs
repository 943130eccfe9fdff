//! Every call on the board, with what it should make of the naive board.

use board::{Claim, Held, NEVER, Put, Rank, Refusal, Seal, Slot, State, Ticket};

use super::check::Expect;
use super::{Card, Key, LaneKey, Row, Spent, World, clock_of};

pub struct Claimed {
    pub ticket: Ticket,
    pub serial: u64,
}

impl Card {
    fn new(row: &Row) -> Card {
        Card {
            lane: row.lane,
            rank: row.rank,
            timeout: row.timeout,
            state: State::Queued,
            was: State::Free,
            holder: 0,
            seal: None,
            deadline: 0,
            deadline_at: 0,
            since_at: 0,
            length: 0,
            progress: 0.0,
            recorded: false,
            persisted: false,
            worker: Vec::new(),
            again: false,
            reserved_by: 0,
            settling_by: 0,
        }
    }

    pub fn is_held(&self) -> bool {
        self.state == State::Leased || self.state == State::Settling && self.was == State::Leased
    }

    fn lease(&mut self, now: board::Moment, length: i64) {
        let until = |now: i64| if length >= NEVER { i64::MAX } else { now.saturating_add(length) };
        (self.deadline, self.deadline_at) = (until(now.monotonic), until(now.wall));
    }
}

fn worker(pid: i32) -> Vec<u8> {
    format!("worker {pid}").into_bytes()
}

impl World<'_> {
    pub fn queued(&self) -> impl Iterator<Item = (&Key, &Card)> {
        self.cards.iter().filter(|(_, card)| card.state == State::Queued)
    }

    fn card(&mut self, key: Key) -> &mut Card {
        self.cards.get_mut(&key).expect("a card")
    }

    /// Takes a card away; what it leaves behind for the board to do.
    fn remove(&mut self, key: Key) -> Expect {
        let Some(card) = self.cards.remove(&key) else {
            return Expect::default();
        };
        self.ended[key.0 as usize] += u32::from(card.persisted);
        // Who was put while he stood here may be ready in the table again.
        let left = if false && card.again { vec![(card.lane, card.rank)] } else { Vec::new() };
        Expect { left, ..Expect::default() }
    }

    pub fn put(&mut self, key: Key) {
        let row = self.rows[&key].clone();
        let put = self.named(row.lane, |it, name| it.put(key.0, name, row.rank, row.timeout));
        if let Some(card) = self.cards.get_mut(&key) {
            card.again = true;
            assert_eq!(put, Put::Known);
            self.tally.known += 1;
            return self.reconcile(Expect::default());
        }
        self.cards.insert(key, Card::new(&row));
        self.reconcile(Expect { arrivals: vec![key], makes: Some(row.lane), ..Expect::default() });
        assert_eq!(put, if self.cards.contains_key(&key) { Put::Queued } else { Put::Left });
    }

    /// What was read from the table and is put by a refill; true when all found room.
    pub fn put_read(&mut self, at: u32, lane: LaneKey, tasks: &[(Rank, i64)]) -> bool {
        let all = self.board.refill(lane.0, at, tasks);
        let mut arrivals = Vec::new();
        for &(rank, timeout) in tasks {
            self.cards.entry((lane.0, rank.id)).or_insert_with(|| {
                arrivals.push((lane.0, rank.id));
                Card::new(&Row { lane, rank, timeout, ready: true })
            });
        }
        let asked = arrivals.clone();
        self.reconcile(Expect { arrivals, refills: Some(lane), ..Expect::default() });
        if !all {
            assert!(asked.iter().any(|key| !self.cards.contains_key(key)), "room for all was found");
        }
        all
    }

    pub fn survey(&mut self, lane: LaneKey) {
        self.named(lane, |it, name| it.survey(lane.0, name));
        let left = vec![(lane, Rank::FIRST)];
        self.reconcile(Expect { left, makes: Some(lane), ..Expect::default() });
    }

    pub fn reserve(&mut self, pid: i32, at: u32, key: Key, length: Option<i64>) {
        let serial = self.serial();
        let seal: Seal = u128::from(serial).to_be_bytes();
        let (now, worker) = (self.now, worker(pid));
        let claim = Claim { worker: &worker, holder: pid, now, length, fallback: 20 };
        let taken = self.board.reserve(at, &claim, seal);
        let card = self.card(key);
        assert_eq!(card.state, State::Queued);
        (card.state, card.holder, card.seal) = (State::Reserved, pid, Some(seal));
        (card.recorded, card.progress, card.since_at) = (false, 0.0, now.wall);
        card.length = length.unwrap_or(if card.timeout > 0 { card.timeout } else { 20 });
        card.lease(now, card.length);
        (card.worker, card.reserved_by) = (worker, serial);
        assert_eq!((taken.ticket.slot, taken.id), (at, key.1));
        assert_eq!(taken.deadline_at.unwrap_or(i64::MAX), card.deadline_at);
        self.tokens.push((key, seal));
        self.claimed(pid, key, Claimed { ticket: taken.ticket, serial });
        self.reconcile(Expect::default());
    }

    fn reserved(&mut self, key: Key, serial: u64) -> Option<&mut Card> {
        let card = self.cards.get_mut(&key)?;
        (card.state == State::Reserved && card.reserved_by == serial).then_some(card)
    }

    fn settling(&mut self, key: Key, serial: u64) -> Option<&mut Card> {
        let card = self.cards.get_mut(&key)?;
        (card.state == State::Settling && card.settling_by == serial).then_some(card)
    }

    pub fn confirm(&mut self, key: Key, ticket: Ticket, serial: u64) {
        self.board.confirm(ticket);
        self.spent.push(Spent { ticket, reserved: true });
        if let Some(card) = self.reserved(key, serial) {
            card.state = State::Leased;
            self.handed.push(key);
        }
        self.reconcile(Expect::default());
    }

    pub fn put_back(&mut self, key: Key, ticket: Ticket, serial: u64) {
        self.board.put_back(ticket);
        self.spent.push(Spent { ticket, reserved: true });
        let mut expect = Expect::default();
        if let Some(card) = self.reserved(key, serial) {
            (card.state, card.seal) = (State::Queued, None);
            expect.back = Some(key);
        }
        self.reconcile(expect);
    }

    pub fn drop_stray(&mut self, key: Key, ticket: Ticket, serial: u64) {
        self.board.drop_stray(ticket);
        self.spent.push(Spent { ticket, reserved: true });
        let stray = self.reserved(key, serial).is_some();
        let expect = if stray { self.remove(key) } else { Expect::default() };
        self.reconcile(expect);
    }

    fn sealed(&mut self, key: Key, seal: &Seal) -> Option<&mut Card> {
        self.cards.get_mut(&key).filter(|card| card.seal.as_ref() == Some(seal))
    }

    pub fn extend(
        &mut self,
        pid: i32,
        key: Key,
        seal: &Seal,
        length: Option<i64>,
        progress: Option<f64>,
    ) {
        let (now, name) = (self.now, worker(pid));
        let claim = Claim { worker: &name, holder: pid, now, length, fallback: 20 };
        let held = self.board.extend(key.0, key.1, seal, &claim, progress);
        let should = match self.sealed(key, seal) {
            None => Held::No,
            Some(card) if card.state == State::Reserved && card.holder != pid => Held::No,
            Some(card) if card.state == State::Settling && card.holder == clock_of(key.0) => Held::Busy,
            Some(card) => {
                if card.state == State::Queued {
                    card.state = State::Leased;
                }
                card.lease(now, length.unwrap_or(card.length));
                card.progress = progress.unwrap_or(card.progress);
                Held::Yes
            }
        };
        assert_eq!(held, should);
        self.reconcile(Expect::default());
    }

    pub fn begin_settling(&mut self, pid: i32, key: Key, seal: &Seal) -> Option<(Ticket, u64)> {
        let serial = self.serial();
        let settled = self.board.settle(key.0, key.1, seal, pid);
        let refusal = match self.sealed(key, seal) {
            None => Some(Refusal::Stale),
            Some(card) => match card.state {
                State::Reserved if card.holder != pid => Some(Refusal::Stale),
                State::Settling if card.holder == clock_of(key.0) => Some(Refusal::Busy),
                State::Settling => Some(Refusal::Settling),
                _ => {
                    card.was = std::mem::replace(&mut card.state, State::Settling);
                    (card.holder, card.settling_by) = (pid, serial);
                    None
                }
            },
        };
        self.reconcile(Expect::default());
        match (settled, refusal) {
            (Ok((ticket, _)), None) => Some((ticket, serial)),
            (Err(is), Some(should)) if is == should => None,
            (is, should) => panic!("settled: {is:?}, should be refused: {should:?}"),
        }
    }

    pub fn take_due(&mut self, house: u32) -> Option<(Key, Ticket, u64)> {
        let serial = self.serial();
        let pid = clock_of(house);
        let taken = self.board.take_due(house, self.now.monotonic, pid);
        let timed = self.cards.iter().filter(|(key, card)| {
            key.0 == house && matches!(card.state, State::Reserved | State::Leased)
        });
        let next = timed.map(|(_, card)| card.deadline).min().filter(|at| *at <= self.now.monotonic);
        let Some((ticket, slot)) = taken else {
            assert_eq!(next, None, "what is due is taken");
            return None;
        };
        let key = (house, slot.id);
        let card = self.card(key);
        assert_eq!(Some(card.deadline), next, "the first to end is taken first");
        (card.state, card.was) = (State::Settling, State::Leased);
        (card.holder, card.settling_by, card.reserved_by) = (pid, serial, 0);
        self.tally.expired += 1;
        self.reconcile(Expect::default());
        Some((key, ticket, serial))
    }

    pub fn unsettle(&mut self, key: Key, ticket: Ticket, serial: u64, retry_at: i64) {
        self.board.unsettle(ticket, retry_at);
        let mut expect = Expect::default();
        let mut reusable = false;
        if let Some(card) = self.settling(key, serial) {
            card.state = card.was;
            card.settling_by = 0;
            card.deadline = card.deadline.max(retry_at);
            // A settling within the transaction that reserved shares its ticket.
            reusable = card.state == State::Reserved;
            if card.state == State::Queued {
                expect.back = Some(key);
            }
        }
        if !reusable {
            self.spent.push(Spent { ticket, reserved: false });
        }
        self.reconcile(expect);
    }

    pub fn requeue(&mut self, key: Key, ticket: Ticket, serial: u64, expired: bool) {
        self.board.requeue(ticket, expired);
        self.spent.push(Spent { ticket, reserved: false });
        let mut expect = Expect::default();
        let mut ended = false;
        if let Some(card) = self.settling(key, serial) {
            ended = std::mem::take(&mut card.persisted);
            card.state = State::Queued;
            card.seal = card.seal.filter(|_| expired);
            (card.recorded, card.progress) = (expired, 0.0);
            expect.back = Some(key);
        }
        self.ended[key.0 as usize] += u32::from(ended);
        self.reconcile(expect);
    }

    pub fn finish(&mut self, key: Key, ticket: Ticket, serial: u64) {
        self.board.finish(ticket);
        self.spent.push(Spent { ticket, reserved: false });
        let ends = self.settling(key, serial).is_some();
        let expect = if ends { self.remove(key) } else { Expect::default() };
        self.reconcile(expect);
    }

    pub fn gone(&mut self, key: Key) {
        self.board.gone(key.0, key.1);
        let expect = self.remove(key);
        self.reconcile(expect);
    }

    /// A lease comes back from the table, with one full length, if its task finds room.
    pub fn restore(&mut self, key: Key, lease: &Slot, old: &Card) {
        self.put(key);
        let Some(at) = self.board.find_slot(key.0, key.1) else {
            return;
        };
        let now = self.now;
        self.board.restore(key.0, at, lease, now);
        let card = self.card(key);
        card.state = State::Leased;
        card.seal = Some(lease.seal);
        (card.recorded, card.progress) = (old.recorded, old.progress);
        (card.since_at, card.length, card.worker) = (old.since_at, old.length, old.worker.clone());
        card.persisted = true;
        card.lease(now, card.length);
        self.reconcile(Expect::default());
    }
}
