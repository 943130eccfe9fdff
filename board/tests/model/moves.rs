//! The moves, and what the table and its transactions have to do with each.

use board::{Door, Front, Id, Rank, State};

use super::check::Expect;
use super::{ACTIONS, Act, Card, HOUSES, Key, QUEUES, Refill, Right, Row, World};
use super::{action_name, clock_of, queue_name};

/// How a settling ends when it commits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    Finish,
    Requeue,
    /// Live, but not ready before somebody wakes it.
    Delay,
    /// It was not ready in the table.
    Stray,
}

#[derive(Clone, Copy, Debug)]
pub struct End {
    pub outcome: Outcome,
    pub expired: bool,
}

/// A callback that comes too late.
#[derive(Clone, Copy, Debug)]
pub enum Verb {
    Confirm,
    PutBack,
    DropStray,
    Finish,
    Requeue,
    Unsettle,
}

/// Numbers are taken modulo what there is to choose from.
#[derive(Clone, Debug)]
pub enum Move {
    Submit { lane: u8, priority: u32, created: i64, timeout: i64, delayed: bool, late: bool },
    Wake { pick: u8, late: bool },
    Cancel { pick: u8, late: bool },
    /// One late put and one late gone.
    CatchUp { pick: u8 },
    Own { holder: u8, queue: u8, actions: Option<u8>, max: u8, length: Option<i64>, patient: bool },
    OwnOne { holder: u8, pick: u8 },
    /// The transaction reads its tasks' rows.
    Inspect { holder: u8 },
    Settle { holder: u8, pick: u8, outcome: Outcome },
    Commit { holder: u8, late: bool },
    RollBack { holder: u8, acts: u8 },
    Due { house: u8, max: u8, outcome: Outcome },
    Extend { holder: u8, pick: u8, length: Option<i64>, progress: Option<f64> },
    Persist { pick: u8 },
    Replay { pick: u8, verb: Verb },
    /// Somebody found a lane dry and comes late to refill it.
    BeginRefill { pick: u8 },
    Read { pick: u8, limit: u8 },
    Place { pick: u8, count: u8 },
    EndRefill { pick: u8 },
    AbandonRefill { pick: u8 },
    Survey { lane: u8 },
    Refresh { house: u8 },
    Rebuild { house: u8, chunk: u32 },
    Wreck,
    Tick { by: i64 },
    Step { by: i64 },
}

fn nth<T: Clone>(pick: u8, of: impl IntoIterator<Item = T>) -> Option<T> {
    let all: Vec<T> = of.into_iter().collect();
    (!all.is_empty()).then(|| all[usize::from(pick) % all.len()].clone())
}

fn house_of(holder: u8) -> (u32, i32) {
    (u32::from(holder) % HOUSES, 1 + i32::from(holder))
}

impl World<'_> {
    pub fn play(&mut self, it: &Move) {
        match *it {
            Move::Submit { lane, priority, created, timeout, delayed, late } => {
                let lane = (
                    u32::from(lane) % HOUSES,
                    lane / HOUSES as u8 % QUEUES,
                    lane / HOUSES as u8 / QUEUES % ACTIONS,
                );
                let id = Id::from(self.serial().wrapping_mul(0x9e37_79b9_7f4a_7c15));
                let rank = Rank { id, created, priority };
                self.rows.insert((lane.0, id), Row { lane, rank, timeout, ready: !delayed });
                if !delayed {
                    self.offer((lane.0, id), late);
                }
            }
            Move::Wake { pick, late } => {
                let locked = self.locked();
                let asleep = self.rows.iter().filter(|(key, row)| !row.ready && !locked.contains(key));
                if let Some(key) = nth(pick, asleep.map(|(key, _)| *key)) {
                    self.rows.get_mut(&key).expect("a row").ready = true;
                    self.offer(key, late);
                }
            }
            Move::Cancel { pick, late } => {
                let locked = self.locked();
                if let Some(key) = nth(pick, self.rows.keys().filter(|key| !locked.contains(key)).copied()) {
                    self.rows.remove(&key);
                    if late { self.gones.push(key) } else { self.gone(key) }
                }
            }
            Move::CatchUp { pick } => self.catch_up(pick),
            Move::Own { holder, queue, actions, max, length, patient } => {
                self.own(holder, queue % QUEUES, actions, max, length, patient);
            }
            Move::OwnOne { holder, pick } => {
                let (house, pid) = house_of(holder);
                self.finish_commit(pid);
                let ready = self.rows.iter().filter(|(key, row)| row.ready && key.0 == house);
                if let Some(key) = nth(pick, ready.map(|(key, _)| *key))
                    && let Some(at) = self.admit(key)
                    && self.cards[&key].state == State::Queued
                {
                    self.reserve(pid, at, key, None);
                }
            }
            Move::Inspect { holder } => self.inspect(house_of(holder).1),
            Move::Settle { holder, pick, outcome } => {
                let (house, pid) = house_of(holder);
                self.finish_commit(pid);
                let of_house = self.tokens.iter().rev().filter(|token| token.0.0 == house);
                if let Some((key, seal)) = nth(pick, of_house.copied()) {
                    self.settle(pid, key, &seal, End { outcome, expired: false });
                }
            }
            Move::Commit { holder, late } => self.commit(house_of(holder).1, late),
            Move::RollBack { holder, acts } => self.roll_back(house_of(holder).1, acts.into()),
            Move::Due { house, max, outcome } => self.due(u32::from(house) % HOUSES, max, outcome),
            Move::Extend { holder, pick, length, progress } => {
                let (house, pid) = house_of(holder);
                let of_house = self.tokens.iter().rev().filter(|token| token.0.0 == house);
                if let Some((key, seal)) = nth(pick, of_house.copied()) {
                    self.extend(pid, key, &seal, length, progress);
                }
            }
            Move::Persist { pick } => {
                let held = self.cards.iter_mut().filter(|(_, card)| card.is_held());
                if let Some((key, _)) = nth(pick, held.map(|(key, card)| (*key, card.persisted))) {
                    let at = self.board.find_slot(key.0, key.1).expect("a slot");
                    let ticket = self.board.slot_at(at, key.0).expect("a slot").ticket(at);
                    let card = self.cards.get_mut(&key).expect("a card");
                    let stands = card.state == State::Leased;
                    card.persisted |= stands;
                    assert_eq!(self.board.stands(ticket), stands);
                    assert_eq!(self.board.note_persisted(ticket), stands);
                }
            }
            Move::Replay { pick, verb } => self.replay(pick, verb),
            Move::BeginRefill { pick } => {
                if let Some((lane, dry)) = nth(pick, self.dries.iter().rev().copied()) {
                    self.begin_refill(lane, &dry);
                }
            }
            Move::Read { pick, limit } => self.with_refill(pick, |it, at| it.read_on(at, limit)),
            Move::Place { pick, count } => self.with_refill(pick, |it, at| it.place_some(at, count)),
            Move::EndRefill { pick } => self.with_refill(pick, |it, at| it.end_refill(at)),
            Move::AbandonRefill { pick } => self.with_refill(pick, |it, at| it.abandon_refill(at)),
            Move::Survey { lane } => self.survey((
                u32::from(lane) % HOUSES,
                lane / HOUSES as u8 % QUEUES,
                lane / HOUSES as u8 / QUEUES % ACTIONS,
            )),
            Move::Refresh { house } => self.refresh(u32::from(house) % HOUSES),
            Move::Rebuild { house, chunk } => self.rebuild(u32::from(house) % HOUSES, chunk),
            Move::Wreck => self.wreck(),
            Move::Tick { by } => self.now.monotonic += by,
            Move::Step { by } => self.now.wall += by,
        }
        self.reconcile(Expect::default());
    }

    fn with_refill(&mut self, pick: u8, call: impl FnOnce(&mut Self, usize)) {
        if let Some(at) = nth(pick, 0..self.refills.len()) {
            call(self, at);
        }
    }

    fn offer(&mut self, key: Key, late: bool) {
        if late { self.puts.push(key) } else { self.put(key) }
    }

    pub fn catch_up(&mut self, pick: u8) {
        if let Some(at) = nth(pick, 0..self.puts.len()) {
            let key = self.puts.remove(at);
            // A put carries what the row was when its transaction committed.
            if self.rows.contains_key(&key) {
                self.put(key);
            }
        }
        if let Some(at) = nth(pick, 0..self.gones.len()) {
            let key = self.gones.remove(at);
            self.gone(key);
        }
    }

    /// Takes up to `max` of the best tasks; who is `patient` reads from the table what is there only.
    pub fn own(&mut self, holder: u8, queue: u8, actions: Option<u8>, max: u8, length: Option<i64>, patient: bool) {
        let (house, pid) = house_of(holder);
        self.finish_commit(pid);
        let asked: Option<Vec<u8>> =
            actions.map(|mask| (0..ACTIONS).filter(|it| mask >> it & 1 == 1).collect());
        let names: Option<Vec<Vec<u8>>> =
            asked.as_ref().map(|asked| asked.iter().map(|it| action_name(*it)).collect());
        let names: Option<Vec<&[u8]>> =
            names.as_ref().map(|names| names.iter().map(|name| &name[..]).collect());
        let mut taken = 0;
        for _ in 0..u32::from(max) * 4 + 4 {
            if taken >= max {
                break;
            }
            let front = self.board.front_of(house, &queue_name(queue), names.as_deref());
            self.check_front(house, queue, asked.as_deref(), &front);
            match front {
                Front::Task(at) => {
                    let id = self.board.slot_at(at, house).expect("a task of the house").id;
                    self.reserve(pid, at, (house, id), length);
                    taken += 1;
                }
                Front::Dry(dry) => {
                    let action = dry.action.as_bytes();
                    let action = (0..ACTIONS).find(|it| action_name(*it) == action);
                    let lane = (house, queue, action.expect("a known action"));
                    self.dries.push((lane, dry));
                    assert!(self.begin_refill(lane, &dry), "a dry lane is refilled");
                    assert!(!self.board.begin_refill(&dry, 99), "by one at a time");
                    if !patient {
                        break;
                    }
                    self.refill_at_once(self.refills.len() - 1, 1 + max % 5);
                }
                Front::Refilling if patient => {
                    let wanted = |it: &Refill| {
                        it.lane.0 == house
                            && it.lane.1 == queue
                            && asked.as_ref().is_none_or(|asked| asked.contains(&it.lane.2))
                    };
                    let at = self.refills.iter().position(wanted).expect("a refill under way");
                    self.refill_at_once(at, 3);
                }
                Front::Refilling | Front::Empty => break,
            }
        }
    }

    /// The statement that reads the rows of what was reserved, under a snapshot taken then.
    pub fn inspect(&mut self, pid: i32) {
        let Some(transaction) = self.transactions.get_mut(&pid).filter(|it| !it.committed) else {
            return;
        };
        let stray = |act: &Act| matches!(act, Act::Reserve { ready: false, .. });
        let (strays, acts) = transaction.acts.drain(..).partition(stray);
        transaction.acts = acts;
        let strays: Vec<Act> = strays;
        for act in strays {
            if let Act::Reserve { right, .. } = act {
                self.tally.strays += 1;
                self.drop_stray(right);
            }
        }
    }

    fn settle(&mut self, pid: i32, key: Key, seal: &board::Seal, end: End) {
        let Some(right) = self.begin_settling(pid, key, seal) else {
            return;
        };
        // The statement demands that the row is still live, and locks it.
        if self.is_ready(key) && !self.locked().contains(&key) {
            let act = Act::Settle { right, end };
            self.transactions.entry(pid).or_default().acts.push(act);
        } else {
            self.unsettle(right, 0);
        }
    }

    fn due(&mut self, house: u32, max: u8, outcome: Outcome) {
        let pid = clock_of(house);
        self.finish_commit(pid);
        for _ in 0..max {
            let Some(right) = self.take_due(house) else {
                break;
            };
            if self.locked().contains(&right.key) {
                self.unsettle(right, self.now.monotonic + 5);
                continue;
            }
            let outcome = if self.is_ready(right.key) { outcome } else { Outcome::Stray };
            let act = Act::Settle { right, end: End { outcome, expired: true } };
            self.transactions.entry(pid).or_default().acts.push(act);
        }
        match outcome {
            Outcome::Delay => self.roll_back(pid, usize::MAX),
            _ => self.commit(pid, max % 2 == 0),
        }
    }

    pub fn commit(&mut self, pid: i32, late: bool) {
        self.finish_commit(pid);
        self.inspect(pid);
        let Some(transaction) = self.transactions.get_mut(&pid) else {
            return;
        };
        transaction.committed = true;
        for act in &transaction.acts {
            if let Act::Settle { right: Right { key, .. }, end } = act {
                match end.outcome {
                    Outcome::Finish => drop(self.rows.remove(key)),
                    Outcome::Delay => self.rows.get_mut(key).expect("a locked row").ready = false,
                    Outcome::Requeue | Outcome::Stray => {}
                }
            }
        }
        if !late {
            self.finish_commit(pid);
        }
    }

    /// Runs the callbacks of a transaction that has committed.
    pub fn finish_commit(&mut self, pid: i32) {
        if !self.transactions.get(&pid).is_some_and(|it| it.committed) {
            return;
        }
        for act in self.transactions.remove(&pid).expect("a transaction").acts {
            match act {
                Act::Reserve { right, .. } => self.confirm(right),
                Act::Settle { right, end } => match end.outcome {
                    Outcome::Requeue => self.requeue(right, end.expired),
                    _ => self.finish(right),
                },
            }
        }
    }

    /// Undoes the last acts of a transaction, the newest first.
    pub fn roll_back(&mut self, pid: i32, acts: usize) {
        self.finish_commit(pid);
        let Some(transaction) = self.transactions.get_mut(&pid) else {
            return;
        };
        let keep = transaction.acts.len().saturating_sub(acts);
        let undone = transaction.acts.split_off(keep);
        if keep == 0 {
            self.transactions.remove(&pid);
        }
        for act in undone.into_iter().rev() {
            match act {
                Act::Reserve { right, .. } => self.put_back(right),
                Act::Settle { right, .. } => self.unsettle(right, self.now.monotonic + 3),
            }
        }
    }

    fn replay(&mut self, pick: u8, verb: Verb) {
        let Some((right, reserved)) = nth(pick, self.spent.iter().rev().copied()) else {
            return;
        };
        let waits_for = if reserved { State::Reserved } else { State::Settling };
        let card = self.cards.get(&right.key).filter(|card| card.epoch == right.epoch);
        if card.is_some_and(|card| card.state == waits_for) {
            return;
        }
        self.tally.stale += 1;
        let ticket = right.ticket;
        match (verb, reserved) {
            (Verb::Confirm | Verb::Finish, true) => self.board.confirm(ticket),
            (Verb::PutBack | Verb::Requeue, true) => self.board.put_back(ticket),
            (Verb::DropStray | Verb::Unsettle, true) => self.board.drop_stray(ticket),
            (Verb::Finish | Verb::Confirm, false) => self.board.finish(ticket),
            (Verb::Requeue | Verb::PutBack, false) => self.board.requeue(ticket, true),
            (Verb::Unsettle | Verb::DropStray, false) => self.board.unsettle(ticket, 0),
        }
    }

    /// What an administrator's refresh does: nothing is taken for known. In one locked step: the
    /// house is closed meanwhile.
    pub fn refresh(&mut self, house: u32) {
        self.board.house_mut(house).spilled = false;
        self.look.spilled[house as usize] = false;
        self.board.house_mut(house).door = Door::Closed;
        for lane in self.ready_lanes(house) {
            self.survey(lane);
        }
        self.board.house_mut(house).door = Door::Open;
        self.reconcile(Expect::default());
    }

    /// A house is cleared and built from its tables again, leases that were written behind first.
    fn rebuild(&mut self, house: u32, chunk: u32) {
        self.board.house_mut(house).door = Door::Closed;
        let leases: Vec<(Key, Card)> = (self.cards.iter())
            .filter(|(key, card)| key.0 == house && card.persisted && self.is_ready(**key))
            .map(|(key, card)| (*key, card.clone()))
            .collect();
        let mut from = Some(0);
        while let Some(at) = from {
            from = self.board.clear_house(house, at, chunk);
        }
        self.board.vacate_house(house);
        self.cards.retain(|key, _| key.0 != house);
        self.ended[house as usize] = 0;
        self.look = self.look_around();
        assert!(self.look.lanes.keys().all(|lane| lane.0 != house), "a cleared house has no lanes");
        self.void_refills(|refill| refill.lane.0 == house);

        self.enter_house(house);
        self.reconcile(Expect::default());
        for (key, card) in leases {
            self.restore(key, &card);
        }
        self.refresh(house);
    }

    /// Somebody died while changing the board: all of it is built from the tables again.
    fn wreck(&mut self) {
        self.board.clear();
        self.cards.clear();
        self.ended = [0; HOUSES as usize];
        (0..HOUSES).for_each(|house| self.enter_house(house));
        self.look = self.look_around();
        self.void_refills(|_| true);
        self.reconcile(Expect::default());
        (0..HOUSES).for_each(|house| self.refresh(house));
    }
}
