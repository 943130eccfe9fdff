//! The end of a sequence: all transactions end, and each task is owned and settled once.

use std::collections::BTreeSet;

use board::{Rank, State};

use super::operations::Operation;
use super::world::{Act, End, GROUPS, Key, MAX_DATABASES, Outcome, QUEUES, World};

impl World<'_> {
    /// Ends all open transactions, then owns and finishes one task after the other (I4).
    pub fn drain(&mut self) {
        self.end_all();
        let ready: BTreeSet<Key> =
            self.rows.iter().filter(|(_, row)| row.ready).map(|(key, _)| *key).collect();
        let from = self.handed.len();
        for pass in 0.. {
            assert!(pass < 200, "the board hands out tasks without end");
            for entry in 0..MAX_DATABASES {
                for queue in 0..QUEUES {
                    self.drain_queue(entry as u8, queue);
                }
            }
            if self.rows.is_empty() {
                break;
            }
            for entry in 0..MAX_DATABASES {
                assert!(self.ready_lanes(entry).is_empty(), "stranded");
                self.refresh(entry);
            }
        }
        let handed = &self.handed[from..];
        assert_eq!(handed.iter().copied().collect::<BTreeSet<_>>(), ready, "each task once");
        assert_eq!(handed.len(), ready.len(), "no task twice");
        self.tally.handed += handed.len() as u64;
        let usage = self.board.usage();
        assert_eq!((usage.slots_used, usage.lanes_used), (0, 0), "an idle board is empty");
    }

    fn drain_queue(&mut self, entry: u8, queue: u8) {
        let mut last = [Rank::FIRST; GROUPS as usize];
        let mut found_none = 0;
        loop {
            assert!(found_none < 500, "the next task is looked for without end");
            assert_eq!(self.running((entry.into(), queue)), 0, "all places are free");
            let before = self.handed.len();
            self.own(entry, queue, None, 1, None, true);
            let pid = 1 + i32::from(entry);
            let token_hash = self.tokens.last().copied();
            let end = End { outcome: Outcome::Finish, expired: false };
            self.commit(pid, false);
            if self.handed.len() == before {
                // A stray was dropped, or a refill found no task: only an empty queue ends this.
                if self.is_drained(entry.into(), queue) {
                    return;
                }
                found_none += 1;
                continue;
            }
            found_none = 0;
            let (key, token_hash) = token_hash.expect("a token");
            let (lane, rank) = (self.cards[&key].lane, self.cards[&key].rank);
            let last = &mut last[usize::from(lane.3)];
            assert!(*last < rank, "each group's tasks come in order");
            *last = rank;
            let right = self.begin_settling(pid, key, &token_hash).expect("a good token");
            let act = Act::Settle { right, end };
            self.transactions.entry(pid).or_default().acts.push(act);
            self.commit(pid, false);
        }
    }

    fn is_drained(&mut self, entry: u32, queue: u8) -> bool {
        let front = self.board.next_task(entry, &super::world::queue_name(queue), None);
        matches!(front, board::Next::Empty)
    }

    fn end_all(&mut self) {
        let pids: Vec<i32> = self.transactions.keys().copied().collect();
        for pid in pids {
            if pid % 2 == 0 { self.roll_back(pid, usize::MAX) } else { self.commit(pid, false) }
        }
        while !self.puts.is_empty() || !self.gones.is_empty() || !self.withheld.is_empty() {
            self.catch_up(0);
        }
        while !self.refills.is_empty() {
            self.abandon_refill(0);
        }
        let leased: Vec<Key> =
            self.cards.iter().filter(|it| it.1.state == State::Leased).map(|it| *it.0).collect();
        for (count, key) in leased.into_iter().enumerate() {
            let token_hash = self.cards[&key].token_hash.expect("a lease has a token");
            let right = self.begin_settling(50, key, &token_hash).expect("a good token");
            let outcome = [Outcome::Finish, Outcome::Requeue][count % 2];
            let act = Act::Settle { right, end: End { outcome, expired: false } };
            self.transactions.entry(50).or_default().acts.push(act);
            self.commit(50, false);
        }
        while self.rows.values().any(|row| !row.ready) {
            self.apply(&Operation::Wake { pick: 0, late: false });
        }
    }
}
