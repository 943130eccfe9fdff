//! Refills, step by step, with other operations in between.

use board::{Micros, NeedsRefill, Rank, Wall};

use super::check::Expect;
use super::world::{LaneKey, Refill, World};

impl World<'_> {
    /// False when another process refills the lane already, or when it has changed since.
    pub fn begin_refill(&mut self, lane: LaneKey, wanted: &NeedsRefill) -> bool {
        let pid = 100 + self.serial() as i32;
        let begun = self.board.begin_refill(wanted, pid);
        if begun {
            let (at, read) = (wanted.lane, wanted.cursor);
            let (rows, left) = (Vec::new(), Rank::END);
            assert_eq!(self.last.lanes[&lane].cursor, read);
            self.refills.push(Refill { pid, at, lane, read, rows, placed: 0, full: false, left });
        }
        self.reconcile(Expect::default());
        begun
    }

    /// Continues to read in the table's order, under a snapshot of now.
    pub fn read_on(&mut self, at: usize, limit: u8) {
        let refill = &self.refills[at];
        if refill.placed < refill.rows.len() || refill.read == Rank::END {
            return;
        }
        let limit = usize::from(limit).max(1);
        let behind = self
            .rows
            .values()
            .filter(|row| row.ready && row.lane == refill.lane && row.rank >= refill.read);
        let mut rows: Vec<(Rank, Micros)> = behind.map(|row| (row.rank, row.timeout)).collect();
        rows.sort();
        rows.truncate(limit);
        let refill = &mut self.refills[at];
        refill.read = if rows.len() < limit { Rank::END } else { rows[limit - 1].0.next() };
        (refill.rows, refill.placed) = (rows, 0);
    }

    pub fn place_some(&mut self, at: usize, count: u8) {
        let Refill { at: place, pid, lane, placed, full, .. } = self.refills[at];
        let rows = &self.refills[at].rows;
        let to = rows.len().min(placed + usize::from(count).max(1));
        let tasks = rows[placed..to].to_vec();
        if full || tasks.is_empty() {
            return;
        }
        self.refills[at].placed = to;
        self.refills[at].full = !self.put_read(place, pid, lane, &tasks);
    }

    pub fn end_refill(&mut self, at: usize) {
        let refill = self.refills.remove(at);
        let cursor = match refill.rows.get(refill.placed) {
            Some(next) if !refill.full => next.0,
            _ => refill.read,
        };
        self.board.end_refill(refill.at, refill.pid, cursor);
        self.tally.refilled += 1;
        let ended = Some((refill.lane, cursor.min(refill.left)));
        self.reconcile(Expect { ended, ..Expect::default() });
    }

    pub fn abandon_refill(&mut self, at: usize) {
        let refill = self.refills.remove(at);
        self.board.abandon_refill(refill.at, refill.pid);
        self.reconcile(Expect::default());
    }

    pub fn refill_at_once(&mut self, at: usize, limit: u8) {
        self.place_some(at, u8::MAX);
        if !self.refills[at].full {
            self.read_on(at, limit);
            self.place_some(at, limit.div_ceil(2));
            self.place_some(at, u8::MAX);
        }
        self.end_refill(at);
    }

    /// The lanes are gone; their refillers do not know this yet and end as usual.
    pub fn forget_refills(&mut self, which: impl Fn(&Refill) -> bool) {
        let (gone, rest) = self.refills.drain(..).partition(which);
        self.refills = rest;
        let gone: Vec<Refill> = gone;
        for refill in gone {
            let rank = Rank { id: 1, created: Wall(0), priority: 9 };
            assert!(!self.board.refill(refill.lane.0, refill.at, refill.pid, &[(rank, Micros(0))]));
            if refill.pid % 2 == 0 {
                self.board.end_refill(refill.at, refill.pid, Rank::END);
            } else {
                self.board.abandon_refill(refill.at, refill.pid);
            }
        }
    }
}
