//! Open transactions: their effects on the table, and when the board learns of them.

use board::{Micros, Monotonic, Refusal, State, TokenHash};

use super::operations::{Verb, nth};
use super::world::{Act, Card, End, Key, Outcome, Right, World, scheduler_of};

impl World<'_> {
    /// Reads the rows of the reserved tasks, under a snapshot taken then.
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

    pub fn settle(&mut self, pid: i32, key: Key, token_hash: &TokenHash, end: End) {
        let Some(right) = self.begin_settling(pid, key, token_hash) else {
            return;
        };
        // The statement demands that the row is still live, and locks it.
        if self.is_ready(key) && !self.locked().contains(&key) {
            let act = Act::Settle { right, end };
            self.transactions.entry(pid).or_default().acts.push(act);
        } else {
            self.undo_end(right, Monotonic(0));
        }
    }

    /// A transaction locks the row of a ready task that no worker owns, mostly one whose last
    /// worker is late.
    pub fn withdraw_some(&mut self, entry: u32, pid: i32, pick: u8, outcome: Outcome) {
        self.finish_commit(pid);
        let locked = self.locked();
        let free = self
            .rows
            .iter()
            .filter(|(key, row)| row.ready && key.0 == entry && !locked.contains(key));
        let free: Vec<Key> = free.map(|(key, _)| *key).collect();
        let late = free.iter().copied().filter(|key| {
            let card = self.cards.get(key);
            let is_late = |it: &Card| it.state == State::Queued && it.token_hash.is_some();
            card.is_some_and(|it| is_late(it) && !it.uncommitted)
        });
        let late = nth(pick, late).filter(|_| !pick.is_multiple_of(4));
        if let Some(key) = late.or_else(|| nth(pick, free.iter().copied()))
            && let Some(right) = self.withdraw(pid, key)
        {
            let act = Act::Settle { right, end: End { outcome, expired: false } };
            self.transactions.entry(pid).or_default().acts.push(act);
        }
    }

    /// Withdraws a ready task that no worker owns; the caller has locked its row.
    pub fn withdraw(&mut self, pid: i32, key: Key) -> Option<Right> {
        let serial = self.serial();
        let row = self.rows[&key].clone();
        let withdrawn =
            self.named(row.lane, |it, name| it.withdraw(key.0, name, row.rank, row.timeout, pid));
        let expect = self.admitted(key, withdrawn.is_some());
        let refusal = withdrawn.is_some().then(|| {
            let card = self.card(key);
            match card.state {
                State::Queued | State::Withheld => {
                    (card.state, card.previous_state) = (State::Ending, State::Queued);
                    (card.holder, card.settling_by, card.again) = (pid, serial, false);
                    card.expiring = false;
                    self.tally.withdrawn += 1;
                    None
                }
                State::Ending if card.expiring => Some(Refusal::Busy),
                State::Ending => Some(Refusal::Ending),
                _ => Some(Refusal::Stale),
            }
        });
        self.reconcile(expect);
        assert_eq!(withdrawn.map(Result::err), refusal);
        let ticket = withdrawn?.ok()?;
        Some(Right { key, ticket, serial, epoch: self.cards[&key].epoch, place: None })
    }

    /// Any task whose row is free: mostly one whose end the board has not learnt of, though it has
    /// committed.
    pub fn task_to_cancel(&self, pick: u8) -> Option<Key> {
        let locked = self.locked();
        let free = || self.rows.keys().filter(|key| !locked.contains(key)).copied();
        let late = free().filter(|key| {
            self.cards.get(key).is_some_and(|it| it.state == State::Ending && !it.expiring)
        });
        nth(pick, late).filter(|_| !pick.is_multiple_of(4)).or_else(|| nth(pick, free()))
    }

    /// Any token: mostly one whose lease has expired and whose task is being ended.
    pub fn token_to_extend(&self, entry: u32, pick: u8) -> Option<(Key, TokenHash)> {
        let tokens = || self.tokens.iter().rev().filter(|token| token.0.0 == entry).copied();
        let late = tokens().filter(|(key, token_hash)| {
            let card = self.cards.get(key).filter(|it| it.token_hash == Some(*token_hash));
            card.is_some_and(|it| it.state == State::Ending && it.previous_state == State::Queued)
        });
        let late = nth(pick, late).filter(|_| !pick.is_multiple_of(4));
        late.or_else(|| nth(pick, tokens()))
    }

    pub fn due(&mut self, entry: u32, max: u8, outcome: Outcome) {
        // Where no scheduler runs, a caller ends them as it commits.
        let pid = if max.is_multiple_of(3) { 60 + entry as i32 } else { scheduler_of(entry) };
        self.finish_commit(pid);
        for _ in 0..max {
            let right = match self.take_expired(entry, pid) {
                None => break,
                Some(None) => continue,
                Some(Some(right)) => right,
            };
            if self.locked().contains(&right.key) {
                self.undo_end(right, self.now.monotonic + Micros(5));
                continue;
            }
            let outcome = if self.is_ready(right.key) { outcome } else { Outcome::Stray };
            let act = Act::Settle { right, end: End { outcome, expired: true } };
            self.transactions.entry(pid).or_default().acts.push(act);
        }
        match outcome {
            Outcome::Delay => self.roll_back(pid, usize::MAX),
            _ => self.commit(pid, max.is_multiple_of(2)),
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
                    Outcome::Requeue | Outcome::Revoke | Outcome::Stray => {}
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
                Act::Reserve { right, .. } => self.commit_claim(right),
                Act::Settle { right, end } => match end.outcome {
                    Outcome::Requeue if end.expired && right.serial.is_multiple_of(2) => {
                        self.withhold(right)
                    }
                    Outcome::Requeue => self.requeue(right, end.expired),
                    Outcome::Revoke => self.revoke(right),
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
                Act::Reserve { right, .. } => self.undo_claim(right),
                Act::Settle { right, .. } => self.undo_end(right, self.now.monotonic + Micros(3)),
            }
        }
    }

    pub fn replay(&mut self, pick: u8, verb: Verb) {
        let Some((right, reserved)) = nth(pick, self.spent.iter().rev().copied()) else {
            return;
        };
        let waits_for = if reserved { State::Reserved } else { State::Ending };
        let card = self.cards.get(&right.key).filter(|card| card.epoch == right.epoch);
        if card.is_some_and(|card| card.state == waits_for) {
            return;
        }
        self.tally.stale += 1;
        let ticket = right.ticket;
        match (verb, reserved) {
            (Verb::Confirm | Verb::Finish, true) => self.board.commit_claim(ticket),
            (Verb::PutBack | Verb::Requeue, true) => self.board.undo_claim(ticket),
            (Verb::DropStray | Verb::UndoEnd, true) => self.board.drop_stray(ticket, true),
            (Verb::Finish | Verb::Confirm, false) => self.board.commit_end(ticket),
            (Verb::Requeue | Verb::PutBack, false) => self.board.requeue(ticket, true),
            (Verb::UndoEnd | Verb::DropStray, false) => self.board.undo_end(ticket, Monotonic(0)),
        }
    }
}
