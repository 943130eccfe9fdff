//! Each call on the board, with its expected effect on the naive board.

use board::{
    Claim, Expired, Extended, Micros, Monotonic, NEVER, Offered, PersistedLease, Rank, Refusal,
    State, TokenHash, Wall,
};

use super::check::Expect;
use super::workers::worker_name;
use super::world::{Act, Card, Key, LaneKey, Right, Row, World};

impl Card {
    pub fn new(row: &Row, epoch: u64) -> Card {
        Card {
            lane: row.lane,
            rank: row.rank,
            timeout: row.timeout,
            state: State::Queued,
            previous_state: State::Free,
            holder: 0,
            expiring: false,
            token_hash: None,
            deadline: Monotonic(0),
            deadline_at: Wall(0),
            since_at: Wall(0),
            length: Micros::ZERO,
            progress: 0.0,
            in_history: false,
            persisted: false,
            uncommitted: false,
            claimed_by: 0,
            worker: Vec::new(),
            again: false,
            epoch,
            reserved_by: 0,
            settling_by: 0,
        }
    }

    pub fn has_lease(&self) -> bool {
        self.state == State::Leased
            || self.state == State::Ending && self.previous_state == State::Leased
    }

    /// Whether it takes a place of its queue.
    pub fn has_place(&self) -> bool {
        let state = if self.state == State::Ending { self.previous_state } else { self.state };
        matches!(state, State::Reserved | State::Leased)
    }

    /// Claimed by another process, in a transaction that has not ended.
    fn is_claimed_by_another(&self, pid: i32) -> bool {
        self.uncommitted && self.claimed_by != pid
    }

    fn lease(&mut self, now: board::Timestamp, length: Micros) {
        (self.deadline, self.deadline_at) = if length >= NEVER {
            (Monotonic::NEVER, Wall::NEVER)
        } else {
            (now.monotonic + length, now.wall + length)
        };
    }
}

/// The length of a lease for which neither the caller nor the task sets one.
const FALLBACK: Micros = Micros(20);

impl World<'_> {
    pub fn queued(&self) -> impl Iterator<Item = (&Key, &Card)> {
        self.cards.iter().filter(|(_, card)| card.state == State::Queued)
    }

    pub(super) fn card(&mut self, key: Key) -> &mut Card {
        self.cards.get_mut(&key).expect("a card")
    }

    /// Removes a card, and returns what the board may do because of it.
    fn remove(&mut self, key: Key) -> Expect {
        let Some(card) = self.cards.remove(&key) else {
            return Expect::default();
        };
        self.ended[key.0 as usize] += u32::from(card.persisted);
        // Of a commit that is late to tell the board, the ending does the same.
        if card.state == State::Ending && card.has_place() && card.settling_by != 0 {
            self.overtaken.insert((card.lane.0, card.lane.1));
            self.tally.overtaken += 1;
        }
        // A task that was offered again while it had a slot may be ready in the table.
        let left = if card.again { vec![(card.lane, card.rank)] } else { Vec::new() };
        Expect { left, ..Expect::default() }
    }

    pub fn put(&mut self, key: Key) {
        let row = self.rows[&key].clone();
        let put = self.named(row.lane, |it, name| it.offer(key.0, name, row.rank, row.timeout));
        if let Some(card) = self.cards.get_mut(&key) {
            card.again = true;
            assert_eq!(put, Offered::Known);
            self.tally.known += 1;
            return self.reconcile(Expect::default());
        }
        let epoch = self.serial();
        self.cards.insert(key, Card::new(&row, epoch));
        self.reconcile(Expect { arrivals: vec![key], makes: Some(row.lane), ..Expect::default() });
        assert_eq!(
            put,
            if self.cards.contains_key(&key) { Offered::Queued } else { Offered::LeftToTable }
        );
    }

    /// A refill puts tasks that it read from the table; true when all found room.
    pub fn put_read(&mut self, at: u32, pid: i32, lane: LaneKey, tasks: &[(Rank, Micros)]) -> bool {
        let all = self.board.refill(lane.0, at, pid, tasks);
        let mut arrivals = Vec::new();
        for &(rank, timeout) in tasks {
            let epoch = self.serial();
            self.cards.entry((lane.0, rank.id)).or_insert_with(|| {
                arrivals.push((lane.0, rank.id));
                Card::new(&Row { lane, rank, timeout, ready: true }, epoch)
            });
        }
        self.reconcile(Expect { arrivals, read: true, ..Expect::default() });
        if !all {
            let has = |(rank, _): &(Rank, Micros)| self.cards.contains_key(&(lane.0, rank.id));
            assert!(!tasks.iter().all(has), "there was room for all");
        }
        all
    }

    pub fn survey(&mut self, lane: LaneKey) {
        self.named(lane, |it, name| it.survey(lane.0, name, None, Rank::FIRST));
        let left = vec![(lane, Rank::FIRST)];
        self.reconcile(Expect { left, makes: Some(lane), ..Expect::default() });
    }

    pub fn reserve(&mut self, pid: i32, at: u32, key: Key, length: Option<Micros>) {
        let serial = self.serial();
        let token_hash: TokenHash = u128::from(serial).to_be_bytes();
        let (now, worker) = (self.now, worker_name(pid));
        let claim = Claim {
            worker: &worker,
            holder: pid,
            now,
            length,
            fallback: FALLBACK,
            longest: Micros::MAX,
        };
        let lane = self.cards[&key].lane;
        self.note_turn(lane);
        let taken = self.board.reserve(at, &claim, token_hash);
        let card = self.card(key);
        assert_eq!(card.state, State::Queued);
        (card.state, card.holder, card.token_hash) = (State::Reserved, pid, Some(token_hash));
        (card.in_history, card.progress, card.since_at) = (false, 0.0, now.wall);
        (card.again, card.uncommitted, card.claimed_by) = (false, true, pid);
        card.length =
            length.unwrap_or(if card.timeout > Micros::ZERO { card.timeout } else { FALLBACK });
        card.lease(now, card.length);
        (card.worker, card.reserved_by, card.epoch) = (worker, serial, serial);
        assert_eq!((taken.ticket.slot, taken.id), (at, key.1));
        assert_eq!(taken.deadline_at.unwrap_or(Wall::NEVER), card.deadline_at);
        self.note_lease(key, now.wall);
        self.tokens.push((key, token_hash));
        let right = Right { key, ticket: taken.ticket, serial, epoch: serial, place: None };
        let act = Act::Reserve { right, ready: self.is_ready(key) };
        self.transactions.entry(pid).or_default().acts.push(act);
        self.reconcile(Expect::default());
    }

    /// The card of a task that this transaction claimed and no other since, even if the reservation
    /// has expired.
    fn claimed(&mut self, Right { key, serial, .. }: Right) -> Option<&mut Card> {
        let card = self.cards.get_mut(&key)?;
        (card.uncommitted && card.reserved_by == serial).then_some(card)
    }

    fn settling(&mut self, Right { key, serial, .. }: Right) -> Option<&mut Card> {
        let card = self.cards.get_mut(&key)?;
        (card.state == State::Ending && card.settling_by == serial).then_some(card)
    }

    pub fn commit_claim(&mut self, right: Right) {
        self.board.commit_claim(right.ticket);
        self.spent.push((right, true));
        if let Some(card) = self.claimed(right) {
            card.uncommitted = false;
            match card.state {
                State::Reserved => {
                    card.state = State::Leased;
                    self.handed.push(right.key);
                }
                State::Queued => card.state = State::Leased,
                State::Ending => card.previous_state = State::Leased,
                State::Leased | State::Withheld | State::Free => {}
            }
        }
        self.reconcile(Expect::default());
    }

    pub fn undo_claim(&mut self, right: Right) {
        self.board.undo_claim(right.ticket);
        self.spent.push((right, true));
        let mut expect = Expect::default();
        if let Some(card) = self.claimed(right) {
            (card.uncommitted, card.token_hash) = (false, None);
            match card.state {
                State::Reserved => {
                    card.state = State::Queued;
                    expect.back = Some(right.key);
                }
                State::Ending => card.previous_state = State::Queued,
                State::Queued | State::Leased | State::Withheld | State::Free => {}
            }
        }
        self.reconcile(expect);
    }

    pub fn drop_stray(&mut self, right: Right) {
        self.board.drop_stray(right.ticket, true);
        self.spent.push((right, true));
        // Other transactions may see it as ready: the next refill reads it again.
        let stray = |card: &&mut Card| matches!(card.state, State::Reserved | State::Queued);
        let stray = self.claimed(right).filter(stray).map(|card| card.again = true).is_some();
        let expect = if stray { self.remove(right.key) } else { Expect::default() };
        self.reconcile(expect);
    }

    fn hashed(&mut self, key: Key, token_hash: &TokenHash) -> Option<&mut Card> {
        self.cards.get_mut(&key).filter(|card| card.token_hash.as_ref() == Some(token_hash))
    }

    pub fn extend(
        &mut self,
        key: Key,
        token_hash: &TokenHash,
        length: Option<Micros>,
        progress: Option<f64>,
    ) {
        let now = self.now;
        let may_run = self.may_run_on(key);
        let extended = self.board.extend(key.0, key.1, token_hash, now, length, progress);
        let (mut revived, mut superseded) = (0, 0);
        let should = match self.hashed(key, token_hash) {
            None => Extended::No,
            Some(card) if card.state == State::Ending && card.expiring => Extended::Busy,
            // One that has expired needs a place, as if its task were owned.
            Some(card)
                if !may_run
                    && (card.deadline <= now.monotonic && card.state != State::Ending
                        || matches!(card.state, State::Queued | State::Withheld)
                        || card.state == State::Ending && card.previous_state == State::Queued) =>
            {
                superseded = 1;
                Extended::No
            }
            Some(card) => {
                // No worker owned it since: its worker has it again, even if its ending rolls back.
                let again = if card.uncommitted { State::Reserved } else { State::Leased };
                if matches!(card.state, State::Queued | State::Withheld) {
                    card.state = again;
                } else if card.state == State::Ending && card.previous_state == State::Queued {
                    card.previous_state = again;
                    revived = 1;
                }
                card.lease(now, length.unwrap_or(card.length));
                card.progress = progress.unwrap_or(card.progress);
                Extended::Yes(Some(card.deadline_at).filter(|at| *at != Wall::NEVER))
            }
        };
        assert_eq!(extended, should);
        if self.hashed(key, token_hash).is_some() {
            self.note_seen(key);
        }
        self.tally.revived += revived;
        self.tally.superseded += superseded;
        self.reconcile(Expect::default());
    }

    pub fn begin_settling(&mut self, pid: i32, key: Key, token_hash: &TokenHash) -> Option<Right> {
        let serial = self.serial();
        let had_place = self.cards.get(&key).is_some_and(Card::has_place);
        let settled = self.board.begin_end(key.0, key.1, token_hash, pid);
        let refusal = match self.hashed(key, token_hash) {
            None => Some(Refusal::Stale),
            Some(card) => match card.state {
                State::Ending if card.expiring => Some(Refusal::Busy),
                State::Ending => Some(Refusal::Ending),
                _ if card.is_claimed_by_another(pid) => Some(Refusal::Reserved(card.claimed_by)),
                _ => {
                    card.previous_state = std::mem::replace(&mut card.state, State::Ending);
                    if card.previous_state == State::Withheld {
                        card.previous_state = State::Queued;
                    }
                    (card.holder, card.settling_by, card.again) = (pid, serial, false);
                    card.expiring = false;
                    None
                }
            },
        };
        if let Ok((ticket, _)) = settled {
            self.board.note_seen(ticket.slot, self.now.wall);
            self.note_seen(key);
        }
        self.reconcile(Expect::default());
        match (settled, refusal) {
            (Ok((ticket, slot)), None) => {
                let place = self.board.freed_place(&slot);
                assert_eq!(place.is_some(), had_place);
                Some(Right { key, ticket, serial, epoch: self.cards[&key].epoch, place })
            }
            (Err(is), Some(should)) if is == should => None,
            (is, should) => panic!("settled: {is:?}, should be refused: {should:?}"),
        }
    }

    /// Takes the slot that expires first. Returns the right to end it, unless it was a reservation.
    pub fn take_expired(&mut self, entry: u32, pid: i32) -> Option<Option<Right>> {
        let serial = self.serial();
        let taken = self.board.take_expired(entry, self.now.monotonic);
        let timed = self.cards.iter().filter(|(key, card)| {
            key.0 == entry && matches!(card.state, State::Reserved | State::Leased)
        });
        let next =
            timed.map(|(_, card)| card.deadline).min().filter(|at| *at <= self.now.monotonic);
        let (ticket, slot) = match taken {
            None => {
                assert_eq!(next, None, "what is due is taken");
                return None;
            }
            Some(Expired::Lease(ticket, slot)) => (ticket, slot),
            Some(Expired::Reservation) => {
                // Of slots that expire at one time, the one that is no longer reserved.
                let is_free = |key: &Key| {
                    let slot = self.board.slot_of(key.0, key.1);
                    slot.is_none_or(|slot| slot.state() == State::Queued)
                };
                let free = self.cards.iter().find(|(key, card)| {
                    card.state == State::Reserved && Some(card.deadline) == next && is_free(key)
                });
                let key = *free.expect("a reservation that is due").0;
                assert_eq!(key.0, entry);
                self.card(key).state = State::Queued;
                self.tally.lapsed += 1;
                self.reconcile(Expect { back: Some(key), ..Expect::default() });
                return Some(None);
            }
        };
        let key = (entry, slot.id);
        let card = self.card(key);
        assert_eq!(Some(card.deadline), next, "the first to end is taken first");
        (card.state, card.previous_state, card.again) = (State::Ending, State::Leased, false);
        (card.holder, card.settling_by, card.epoch) = (pid, serial, serial);
        card.expiring = true;
        self.tally.expired += 1;
        self.reconcile(Expect::default());
        Some(Some(Right { key, ticket, serial, epoch: serial, place: None }))
    }

    /// The lease expires later, never sooner than `extend` returned.
    pub fn postpone(&mut self, key: Key, until: Monotonic) {
        self.board.defer_expiry(key.0, key.1, until);
        let card = self.card(key);
        if card.state == State::Leased {
            card.deadline = card.deadline.max(until);
        }
        self.reconcile(Expect::default());
    }

    pub fn undo_end(&mut self, right: Right, retry_at: Monotonic) {
        self.board.undo_end(right.ticket, retry_at);
        let mut expect = Expect::default();
        if let Some(card) = self.settling(right) {
            card.state = card.previous_state;
            card.settling_by = 0;
            card.deadline = card.deadline.max(retry_at);
            if card.state == State::Queued {
                expect.back = Some(right.key);
            }
        }
        self.spent.push((right, false));
        self.reconcile(expect);
    }

    pub fn requeue(&mut self, right: Right, expired: bool) {
        self.board.requeue(right.ticket, expired);
        self.note_requeued(right, expired, expired);
    }

    pub fn revoke(&mut self, right: Right) {
        self.board.revoke(right.ticket);
        self.note_requeued(right, false, true);
    }

    /// `expired`: its token is valid still; `told`: its worker is told.
    fn note_requeued(&mut self, right: Right, expired: bool, told: bool) {
        self.spent.push((right, false));
        let mut expect = Expect::default();
        if told && self.settling(right).is_some() {
            self.signal(right.key);
        }
        let mut ended = false;
        if let Some(card) = self.settling(right) {
            ended = std::mem::take(&mut card.persisted);
            card.state = State::Queued;
            card.token_hash = card.token_hash.filter(|_| expired);
            (card.in_history, card.progress, card.uncommitted) = (expired, 0.0, false);
            expect.back = Some(right.key);
        }
        self.ended[right.key.0 as usize] += u32::from(ended);
        self.reconcile(expect);
    }

    pub fn withhold(&mut self, right: Right) {
        self.board.withhold(right.ticket);
        self.spent.push((right, false));
        if self.settling(right).is_some() {
            self.signal(right.key);
        }
        let mut ended = false;
        if let Some(card) = self.settling(right) {
            ended = std::mem::take(&mut card.persisted);
            (card.state, card.in_history, card.progress) = (State::Withheld, true, 0.0);
            self.withheld.push(right);
            self.tally.withheld += 1;
        }
        self.ended[right.key.0 as usize] += u32::from(ended);
        self.reconcile(Expect::default());
    }

    /// A withheld task becomes ready, unless its worker has it again, or it was ended.
    pub fn publish(&mut self, right: Right) {
        self.board.publish(right.ticket);
        let mut expect = Expect::default();
        if let Some(card) = self.cards.get_mut(&right.key)
            && (card.state, card.epoch) == (State::Withheld, right.epoch)
        {
            card.state = State::Queued;
            expect.back = Some(right.key);
        }
        self.reconcile(expect);
    }

    pub fn finish(&mut self, right: Right) {
        self.board.commit_end(right.ticket);
        self.spent.push((right, false));
        let ends = self.settling(right).map(|card| card.settling_by = 0).is_some();
        let expect = if ends { self.remove(right.key) } else { Expect::default() };
        self.reconcile(expect);
    }

    pub fn remove_task(&mut self, key: Key) {
        self.board.remove_task(key.0, key.1);
        let is_held = |card: &Card| matches!(card.state, State::Leased | State::Reserved);
        if self.cards.get(&key).is_some_and(is_held) {
            self.signal(key);
        }
        let expect = self.remove(key);
        self.reconcile(expect);
    }

    /// Ensures that a ready task has a slot, even if its lane has not reached it. `None` when all
    /// slots are leased.
    pub fn ensure_slot(&mut self, key: Key) -> Option<u32> {
        let row = self.rows[&key].clone();
        let place =
            self.named(row.lane, |it, name| it.ensure_slot(key.0, name, row.rank, row.timeout));
        if let Some(at) = place {
            assert_eq!(self.board.slot_at(at, key.0).expect("a slot").id, key.1);
        }
        let expect = self.admitted(key, place.is_some());
        self.reconcile(expect);
        assert_eq!(self.cards.contains_key(&key), place.is_some());
        place
    }

    /// The other effects of giving a slot to a task without one, or the reason why it found no
    /// room.
    pub(super) fn admitted(&mut self, key: Key, found: bool) -> Expect {
        let row = self.rows[&key].clone();
        let known = self.cards.contains_key(&key);
        let mut expect = Expect { makes: Some(row.lane), ..Expect::default() };
        if !found {
            let usage = self.board.usage();
            let no_room = usage.slots_used == usage.slots && self.queued().count() == 0;
            assert!(!known && no_room);
        } else if !known {
            let epoch = self.serial();
            self.cards.insert(key, Card::new(&row, epoch));
            expect.arrivals.push(key);
            (expect.read, expect.asked) = (true, true);
        }
        expect
    }

    /// A lease is restored from the table, with one full length, if its task finds room.
    pub fn restore(&mut self, key: Key, lease: &Card) {
        let (Some(at), Some(token_hash)) = (self.ensure_slot(key), lease.token_hash) else {
            return;
        };
        let now = self.now;
        let lasting = PersistedLease {
            token_hash,
            worker: &lease.worker,
            since_at: lease.since_at,
            length: lease.length,
            progress: lease.progress,
            in_history: lease.in_history,
        };
        self.board.restore(at, &lasting, now);
        let card = self.card(key);
        (card.state, card.token_hash, card.persisted) = (State::Leased, lease.token_hash, true);
        (card.in_history, card.progress) = (lease.in_history, lease.progress);
        (card.since_at, card.length) = (lease.since_at, lease.length);
        card.worker = lease.worker.clone();
        card.lease(now, lease.length);
        self.note_lease(key, lease.since_at);
        self.reconcile(Expect::default());
    }
}
