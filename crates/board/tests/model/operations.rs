//! The operations, and the part of the table and its transactions in each.

use board::{Id, Micros, Next, Rank, State, Wall};

use super::check::Expect;
use super::workers::worker_name;
use super::world::{
    ACTIONS, End, GROUPS, Key, LaneKey, MAX_DATABASES, Outcome, QUEUES, Refill, Row, World,
    action_name, group_of, queue_name,
};

/// A callback that runs too late.
#[derive(Clone, Copy, Debug)]
pub enum Verb {
    Confirm,
    PutBack,
    DropStray,
    Finish,
    Requeue,
    UndoEnd,
}

/// Numbers are taken modulo the number of choices.
#[derive(Clone, Debug)]
pub enum Operation {
    Submit {
        lane: u8,
        priority: u32,
        created: Wall,
        timeout: Micros,
        delayed: bool,
        late: bool,
    },
    Wake {
        pick: u8,
        late: bool,
    },
    Cancel {
        pick: u8,
        late: bool,
    },
    /// One late put, one late gone, and one withheld task.
    CatchUp {
        pick: u8,
    },
    Own {
        holder: u8,
        queue: u8,
        actions: Option<u8>,
        max: u8,
        length: Option<Micros>,
        patient: bool,
    },
    OwnOne {
        holder: u8,
        pick: u8,
    },
    /// The transaction reads its tasks' rows.
    Inspect {
        holder: u8,
    },
    Settle {
        holder: u8,
        pick: u8,
        outcome: Outcome,
    },
    /// A worker returns a task, and asks for more in the same transaction.
    Exchange {
        holder: u8,
        pick: u8,
        outcome: Outcome,
    },
    /// A transaction is about to end a ready task that no worker owns, or to make it wait.
    Withdraw {
        holder: u8,
        pick: u8,
        outcome: Outcome,
    },
    Commit {
        holder: u8,
        late: bool,
    },
    RollBack {
        holder: u8,
        acts: u8,
    },
    Due {
        entry: u8,
        max: u8,
        outcome: Outcome,
    },
    /// A worker asks for tasks of a queue, and gets none.
    Call {
        holder: u8,
        queue: u8,
    },
    /// An administrator asks a worker to stop, or takes that back.
    Drain {
        holder: u8,
        drains: bool,
    },
    /// A worker asks what it is to be told.
    Listen {
        holder: u8,
    },
    /// An administrator releases a worker.
    Release {
        holder: u8,
        most: u8,
        commits: bool,
    },
    Extend {
        holder: u8,
        pick: u8,
        length: Option<Micros>,
        progress: Option<f64>,
    },
    Persist {
        pick: u8,
    },
    Replay {
        pick: u8,
        verb: Verb,
    },
    /// A process found that a lane needs a refill, and begins the refill late.
    BeginRefill {
        pick: u8,
    },
    Read {
        pick: u8,
        limit: u8,
    },
    Place {
        pick: u8,
        count: u8,
    },
    EndRefill {
        pick: u8,
    },
    AbandonRefill {
        pick: u8,
    },
    Survey {
        lane: u8,
    },
    Refresh {
        entry: u8,
    },
    Rebuild {
        entry: u8,
        chunk: u32,
    },
    Wreck,
    /// So many tasks of a queue may run; 0: any number.
    Limit {
        lane: u8,
        most: u8,
    },
    /// The scheduler quarantines a lease that it could not end.
    Postpone {
        pick: u8,
        by: Micros,
    },
    Tick {
        by: Micros,
    },
    Step {
        by: Micros,
    },
}

pub fn nth<T: Clone>(pick: u8, of: impl IntoIterator<Item = T>) -> Option<T> {
    let all: Vec<T> = of.into_iter().collect();
    (!all.is_empty()).then(|| all[usize::from(pick) % all.len()].clone())
}

fn lane_of(number: u8) -> LaneKey {
    let (entry, rest) = (u32::from(number) % MAX_DATABASES, number / MAX_DATABASES as u8);
    let group = rest / QUEUES / ACTIONS % GROUPS;
    (entry, rest % QUEUES, rest / QUEUES % ACTIONS, group)
}

fn entry_of(holder: u8) -> (u32, i32) {
    (u32::from(holder) % MAX_DATABASES, 1 + i32::from(holder))
}

impl World<'_> {
    pub fn apply(&mut self, it: &Operation) {
        match *it {
            Operation::Submit { lane, priority, created, timeout, delayed, late } => {
                let lane = lane_of(lane);
                let id = Id::from(self.serial().wrapping_mul(0x9e37_79b9_7f4a_7c15));
                let rank = Rank { id, created, priority };
                self.rows.insert((lane.0, id), Row { lane, rank, timeout, ready: !delayed });
                if !delayed {
                    self.offer((lane.0, id), late);
                }
            }
            Operation::Wake { pick, late } => {
                let locked = self.locked();
                let asleep =
                    self.rows.iter().filter(|(key, row)| !row.ready && !locked.contains(key));
                if let Some(key) = nth(pick, asleep.map(|(key, _)| *key)) {
                    self.rows.get_mut(&key).expect("a row").ready = true;
                    self.offer(key, late);
                }
            }
            Operation::Cancel { pick, late } => {
                if let Some(key) = self.task_to_cancel(pick) {
                    self.rows.remove(&key);
                    if late { self.gones.push(key) } else { self.remove_task(key) }
                }
            }
            Operation::CatchUp { pick } => self.catch_up(pick),
            Operation::Own { holder, queue, actions, max, length, patient } => {
                self.own(holder, queue % QUEUES, actions, max, length, patient);
            }
            Operation::OwnOne { holder, pick } => {
                let (entry, pid) = entry_of(holder);
                self.finish_commit(pid);
                let ready = self.rows.iter().filter(|(key, row)| row.ready && key.0 == entry);
                if let Some(key) = nth(pick, ready.map(|(key, _)| *key))
                    && self.may_own(pid, (entry, self.rows[&key].lane.1))
                    && let Some(at) = self.ensure_slot(key)
                    && self.cards[&key].state == State::Queued
                    && self.may_own_of_group(pid, at, key)
                {
                    self.reserve(pid, at, key, None);
                }
            }
            Operation::Inspect { holder } => self.inspect(entry_of(holder).1),
            Operation::Settle { holder, pick, outcome } => {
                let (entry, pid) = entry_of(holder);
                self.finish_commit(pid);
                let of_database = self.tokens.iter().rev().filter(|token| token.0.0 == entry);
                if let Some((key, token_hash)) = nth(pick, of_database.copied()) {
                    self.settle(pid, key, &token_hash, End { outcome, expired: false });
                }
            }
            Operation::Exchange { holder, pick, outcome } => {
                self.apply(&Operation::Settle { holder, pick, outcome });
                (0..QUEUES).for_each(|queue| self.own(holder, queue, None, 2, None, false));
            }
            Operation::Withdraw { holder, pick, outcome } => {
                let (entry, pid) = entry_of(holder);
                self.withdraw_some(entry, pid, pick, outcome);
            }
            Operation::Commit { holder, late } => self.commit(entry_of(holder).1, late),
            Operation::RollBack { holder, acts } => self.roll_back(entry_of(holder).1, acts.into()),
            Operation::Due { entry, max, outcome } => {
                self.due(u32::from(entry) % MAX_DATABASES, max, outcome)
            }
            Operation::Call { holder, queue } => {
                let (entry, pid) = entry_of(holder);
                self.call(entry, queue % QUEUES, pid);
            }
            Operation::Drain { holder, drains } => {
                let (entry, pid) = entry_of(holder);
                self.drain_worker(entry, pid, drains);
            }
            Operation::Listen { holder } => {
                let (entry, pid) = entry_of(holder);
                self.listen(entry, pid);
            }
            Operation::Release { holder, most, commits } => {
                let (entry, pid) = entry_of(holder);
                self.release_worker(entry, &worker_name(pid), most.into(), commits);
            }
            Operation::Extend { holder, pick, length, progress } => {
                let (entry, _) = entry_of(holder);
                if let Some((key, token_hash)) = self.token_to_extend(entry, pick) {
                    self.extend(key, &token_hash, length, progress);
                }
            }
            Operation::Persist { pick } => {
                let held = self.cards.iter_mut().filter(|(_, card)| card.has_lease());
                if let Some((key, _)) = nth(pick, held.map(|(key, card)| (*key, card.persisted))) {
                    let at = self.board.find_slot(key.0, key.1).expect("a slot");
                    let ticket = self.board.slot_at(at, key.0).expect("a slot").ticket(at);
                    let card = self.cards.get_mut(&key).expect("a card");
                    let is_leased = card.state == State::Leased;
                    card.persisted |= is_leased;
                    assert_eq!(self.board.is_leased(ticket), is_leased);
                    assert_eq!(self.board.note_persisted(ticket), is_leased);
                }
            }
            Operation::Replay { pick, verb } => self.replay(pick, verb),
            Operation::BeginRefill { pick } => {
                if let Some((lane, wanted)) = nth(pick, self.wanted.iter().rev().copied()) {
                    self.begin_refill(lane, &wanted);
                }
            }
            Operation::Read { pick, limit } => {
                self.with_refill(pick, |it, at| it.read_on(at, limit))
            }
            Operation::Place { pick, count } => {
                self.with_refill(pick, |it, at| it.place_some(at, count))
            }
            Operation::EndRefill { pick } => self.with_refill(pick, |it, at| it.end_refill(at)),
            Operation::AbandonRefill { pick } => {
                self.with_refill(pick, |it, at| it.abandon_refill(at))
            }
            Operation::Survey { lane } => self.survey(lane_of(lane)),
            Operation::Refresh { entry } => self.refresh(u32::from(entry) % MAX_DATABASES),
            Operation::Rebuild { entry, chunk } => {
                self.rebuild(u32::from(entry) % MAX_DATABASES, chunk)
            }
            Operation::Wreck => self.wreck(),
            Operation::Limit { lane, most } => {
                let (entry, queue, _, group) = lane_of(lane);
                let (limits, most) = match group {
                    0 => (&mut self.limits, most),
                    _ => (&mut self.group_limits, if most > 0 { 2 } else { 0 }),
                };
                limits.insert((entry, queue), most.into());
                self.limit(entry);
            }
            Operation::Postpone { pick, by } => {
                if let Some(key) = nth(pick, self.cards.keys().copied()) {
                    self.postpone(key, self.now.monotonic + by);
                }
            }
            Operation::Tick { by } => self.now.monotonic = self.now.monotonic + by,
            Operation::Step { by } => self.now.wall = self.now.wall + by,
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
            // A put carries the row as it was when its transaction committed.
            if self.rows.contains_key(&key) {
                self.put(key);
            }
        }
        if let Some(at) = nth(pick, 0..self.gones.len()) {
            let key = self.gones.remove(at);
            self.remove_task(key);
        }
        if let Some(at) = nth(pick, 0..self.withheld.len()) {
            let right = self.withheld.remove(at);
            self.publish(right);
        }
    }

    /// Owns up to `max` of the best tasks; a `patient` owner refills lanes from the table.
    pub fn own(
        &mut self,
        holder: u8,
        queue: u8,
        actions: Option<u8>,
        max: u8,
        length: Option<Micros>,
        patient: bool,
    ) {
        let (entry, pid) = entry_of(holder);
        self.finish_commit(pid);
        let asked: Option<Vec<u8>> =
            actions.map(|mask| (0..ACTIONS).filter(|it| mask >> it & 1 == 1).collect());
        let names: Option<Vec<Vec<u8>>> =
            asked.as_ref().map(|asked| asked.iter().map(|it| action_name(*it)).collect());
        let names: Option<Vec<&[u8]>> =
            names.as_ref().map(|names| names.iter().map(|name| &name[..]).collect());
        let mut taken = 0;
        for _ in 0..u32::from(max) * 4 + 12 {
            if taken >= max || !self.may_own(pid, (entry, queue)) {
                break;
            }
            let found = self.board.find_queue(entry, &queue_name(queue));
            let names = names.as_deref();
            let mut front = self.board.next_in_queue(entry, found, names, Wall::MIN);
            self.check_front(entry, queue, asked.as_deref(), &front);
            if matches!(front, Next::Empty) {
                let freed = self.freed_in_groups(pid);
                if let Next::Task(slot) = self.board.next_in_freed(found, names, &freed) {
                    let id = self.board.slot_at(slot, entry).expect("a task").id;
                    self.check_freed(pid, self.cards[&(entry, id)].lane);
                    front = Next::Task(slot);
                }
            }
            match front {
                Next::Task(at) => {
                    let id = self.board.slot_at(at, entry).expect("a task of the entry").id;
                    self.reserve(pid, at, (entry, id), length);
                    taken += 1;
                }
                Next::NeedsRefill(wanted) => {
                    let action = wanted.action.as_bytes();
                    let action = (0..ACTIONS).find(|it| action_name(*it) == action);
                    let group = (0..GROUPS).find(|it| group_of(*it) == wanted.group);
                    let group = group.expect("a known group");
                    let lane = (entry, queue, action.expect("a known action"), group);
                    self.wanted.push((lane, wanted));
                    assert!(self.begin_refill(lane, &wanted), "a lane is refilled");
                    assert!(!self.board.begin_refill(&wanted, 99), "by one at a time");
                    if !patient {
                        break;
                    }
                    self.refill_at_once(self.refills.len() - 1, 1 + max % 5);
                }
                Next::Refilling if patient => {
                    let wanted = |it: &Refill| {
                        it.lane.0 == entry
                            && it.lane.1 == queue
                            && asked.as_ref().is_none_or(|asked| asked.contains(&it.lane.2))
                    };
                    let at = self.refills.iter().position(wanted).expect("a refill under way");
                    self.refill_at_once(at, 3);
                }
                Next::Refilling | Next::Search | Next::Empty => break,
            }
        }
    }
}
