//! Refills, step by step, with other operations in between.

use board::{GroupHash, GroupRead, Micros, NeedsGroups, NeedsRefill, Rank, Wall};

use super::check::Expect;
use super::world::{Card, GROUPS, LaneKey, Refill, Row, World, group_of};

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

    /// Reads the next groups that have no place on the board, of each the first task or two.
    pub fn read_groups(&mut self, head: (u32, u8, u8), wanted: &NeedsGroups, count: usize) {
        let pid = 100 + self.serial() as i32;
        let count = count.min(self.board.begin_groups(wanted, pid).expect("the only reader"));
        let of_group = |group: u8| -> Vec<(Rank, Micros)> {
            let lane = (head.0, head.1, head.2, group);
            let rows = self.rows.values().filter(|row| row.ready && row.lane == lane);
            let mut tasks: Vec<_> = rows.map(|row| (row.rank, row.timeout)).collect();
            tasks.sort();
            tasks
        };
        let known = (1..GROUPS).filter(|group| group_of(*group) >= Some(wanted.from));
        let groups: Vec<_> = known.map(|group| (group, of_group(group))).collect();
        let groups = groups.into_iter().filter(|it| !it.1.is_empty()).take(count);
        let groups: Vec<(u8, Vec<(Rank, Micros)>)> = groups.collect();
        let (mut arrivals, mut left) = (Vec::new(), None);
        let until = groups.last().and_then(|it| group_of(it.0)).unwrap_or(GroupHash::MAX);
        for (group, tasks) in &groups {
            let lane = (head.0, head.1, head.2, *group);
            let is_new = !self.last.lanes.contains_key(&lane);
            let read: Vec<(Rank, Micros)> = tasks.iter().take(count).copied().collect();
            let cursor = tasks.get(count).map_or(Rank::END, |_| tasks[count - 1].0.next());
            let group = group_of(*group).expect("a group");
            let read = [GroupRead { group, tasks: &read, cursor }];
            if self.board.add_groups(head.0, wanted.lane, pid, &read, until) == 0 {
                left = Some(group);
                break;
            }
            for &(rank, timeout) in tasks.iter().take(count).filter(|_| is_new) {
                let key = (head.0, rank.id);
                let epoch = self.serial();
                if self.board.slot_of(head.0, rank.id).is_some() {
                    self.cards.entry(key).or_insert_with(|| {
                        arrivals.push(key);
                        Card::new(&Row { lane, rank, timeout, ready: true }, epoch)
                    });
                }
            }
        }
        let last = groups.last().filter(|_| groups.len() == count);
        let next = left.or(last.map(|it| group_of(it.0).expect("a group") + 1));
        self.board.end_groups(wanted.lane, pid, next);
        self.tally.passes += u64::from(next.is_none());
        self.reconcile(Expect { arrivals, read: true, groups: Some(head), ..Expect::default() });
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
