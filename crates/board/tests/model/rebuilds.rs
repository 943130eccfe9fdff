//! Looking at the table anew: a survey of all lanes, and a board that is built again.

use board::Door;

use super::check::Expect;
use super::{Card, HOUSES, Key, World};

impl World<'_> {
    /// What an administrator's refresh does: nothing is taken for known.
    pub fn refresh(&mut self, house: u32) {
        let before = self.board.house(house).spilled;
        for lane in self.ready_lanes(house) {
            self.survey(lane);
        }
        if self.board.house(house).spilled == before {
            self.board.house_mut(house).spilled = 0;
            self.look.spilled[house as usize] = false;
        }
        self.reconcile(Expect::default());
    }

    /// A house is cleared and built from its tables again, leases that were written behind first.
    pub fn rebuild(&mut self, house: u32, chunk: u32) {
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
        self.board.house_mut(house).door = Door::Open;
    }

    /// Somebody died while changing the board: all of it is built from the tables again.
    pub fn wreck(&mut self) {
        self.board.clear();
        self.cards.clear();
        self.ended = [0; HOUSES as usize];
        (0..HOUSES).for_each(|house| self.enter_house(house));
        self.look = self.look_around();
        self.void_refills(|_| true);
        self.reconcile(Expect::default());
        for house in 0..HOUSES {
            self.refresh(house);
            self.board.house_mut(house).door = Door::Open;
        }
    }
}
