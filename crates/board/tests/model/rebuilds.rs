//! A survey of all lanes, and a board that is built again.

use board::BuildState;

use super::check::Expect;
use super::world::{Card, Key, MAX_DATABASES, World};

impl World<'_> {
    /// The effect of an administrator's refresh: each lane must be read from the table again.
    pub fn refresh(&mut self, entry: u32) {
        for lane in self.ready_lanes(entry) {
            self.survey(lane);
        }
        self.reconcile(Expect::default());
    }

    /// A database is cleared and built from its tables again, persisted leases first.
    pub fn rebuild(&mut self, entry: u32, chunk: u32) {
        self.board.entry_mut(entry).build_state = BuildState::Unbuilt;
        let leases: Vec<(Key, Card)> = (self.cards.iter())
            .filter(|(key, card)| key.0 == entry && card.persisted && self.is_ready(**key))
            .map(|(key, card)| (*key, card.clone()))
            .collect();
        let mut from = Some(0);
        while let Some(at) = from {
            from = self.board.clear_entry(entry, at, chunk);
        }
        self.board.remove(entry);
        self.cards.retain(|key, _| key.0 != entry);
        self.workers.retain(|key, _| key.0 != entry);
        self.signals.retain(|key| key.0 != entry);
        self.draining.retain(|key| key.0 != entry);
        self.ended[entry as usize] = 0;
        self.last = self.take_snapshot();
        assert!(self.last.lanes.keys().all(|lane| lane.0 != entry), "a cleared entry has no lanes");
        self.forget_refills(|refill| refill.lane.0 == entry);

        self.register(entry);
        self.limit(entry);
        self.reconcile(Expect::default());
        for (key, card) in leases {
            self.restore(key, &card);
        }
        self.refresh(entry);
        self.board.entry_mut(entry).build_state = BuildState::Built;
    }

    /// A process died while it changed the board: all of it is built from the tables again.
    pub fn wreck(&mut self) {
        self.board.clear();
        self.cards.clear();
        self.workers.clear();
        self.signals.clear();
        self.draining.clear();
        self.ended = [0; MAX_DATABASES as usize];
        (0..MAX_DATABASES).for_each(|entry| self.register(entry));
        self.last = self.take_snapshot();
        self.forget_refills(|_| true);
        self.reconcile(Expect::default());
        for entry in 0..MAX_DATABASES {
            self.limit(entry);
            self.refresh(entry);
            self.board.entry_mut(entry).build_state = BuildState::Built;
        }
    }
}
