//! The end of a game: everything is let go, and the table must come out empty.

use std::collections::BTreeSet;

use board::{Rank, State};

use super::moves::{End, Outcome};
use super::{Act, HOUSES, Key, Move, QUEUES, World};

impl World<'_> {
    /// Ends all that is under way, then owns and finishes one task after the other (I4).
    pub fn drain(&mut self) {
        self.let_go();
        let ready: BTreeSet<Key> =
            self.rows.iter().filter(|(_, row)| row.ready).map(|(key, _)| *key).collect();
        let from = self.handed.len();
        for pass in 0.. {
            assert!(pass < 200, "the board never comes to an end");
            for house in 0..HOUSES {
                for queue in 0..QUEUES {
                    self.drain_queue(house as u8, queue);
                }
            }
            if self.rows.is_empty() {
                break;
            }
            for house in 0..HOUSES {
                let spilled = self.board.house(house).spilled > 0;
                assert!(spilled || self.ready_lanes(house).is_empty(), "stranded");
                self.refresh(house);
            }
        }
        let handed = &self.handed[from..];
        assert_eq!(handed.iter().copied().collect::<BTreeSet<_>>(), ready, "each task once");
        assert_eq!(handed.len(), ready.len(), "no task twice");
        self.tally.handed += handed.len() as u64;
        let usage = self.board.usage();
        assert_eq!((usage.slots_used, usage.lanes_used), (0, 0), "an idle board is empty");
    }

    fn drain_queue(&mut self, house: u8, queue: u8) {
        let mut last = Rank::FIRST;
        loop {
            let before = self.handed.len();
            let spilled = self.board.house(house.into()).spilled > 0;
            self.own(house, queue, None, 1, None, true);
            let pid = 1 + i32::from(house);
            let seal = self.tokens.last().copied();
            let end = End { outcome: Outcome::Finish, expired: false };
            self.commit(pid, false);
            if self.handed.len() == before {
                // A stray was dropped, or a refill found nothing: only an empty queue ends this.
                if self.is_drained(house.into(), queue) {
                    return;
                }
                continue;
            }
            let (key, seal) = seal.expect("a token");
            let rank = self.cards[&key].rank;
            assert!(spilled || last < rank, "the drain goes in order");
            last = rank;
            let right = self.begin_settling(pid, key, &seal).expect("a good token");
            let act = Act::Settle { right, end };
            self.transactions.entry(pid).or_default().acts.push(act);
            self.commit(pid, false);
        }
    }

    fn is_drained(&mut self, house: u32, queue: u8) -> bool {
        let front = self.board.front_of(house, &super::queue_name(queue), None);
        matches!(front, board::Front::Empty)
    }

    fn let_go(&mut self) {
        let pids: Vec<i32> = self.transactions.keys().copied().collect();
        for pid in pids {
            if pid % 2 == 0 { self.roll_back(pid, usize::MAX) } else { self.commit(pid, false) }
        }
        while !self.puts.is_empty() || !self.gones.is_empty() {
            self.catch_up(0);
        }
        while !self.refills.is_empty() {
            self.abandon_refill(0);
        }
        let leased: Vec<Key> =
            self.cards.iter().filter(|it| it.1.state == State::Leased).map(|it| *it.0).collect();
        for (count, key) in leased.into_iter().enumerate() {
            let seal = self.cards[&key].seal.expect("a lease has a token");
            let right = self.begin_settling(50, key, &seal).expect("a good token");
            let outcome = [Outcome::Finish, Outcome::Requeue][count % 2];
            let act = Act::Settle { right, end: End { outcome, expired: false } };
            self.transactions.entry(50).or_default().acts.push(act);
            self.commit(50, false);
        }
        while self.rows.values().any(|row| !row.ready) {
            self.play(&Move::Wake { pick: 0, late: false });
        }
    }
}
