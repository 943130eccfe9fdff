//! Limits: how many tasks of a queue run, and which a transaction may own.

use board::{Blocked, Bucket, GroupPlace, QueueSettings};

use super::world::{Act, Card, Key, LaneKey, QUEUES, QueueKey, World, queue_name};

impl World<'_> {
    /// Gives the board the limits of a database's queues.
    pub fn limit(&mut self, entry: u32) {
        for queue in 0..QUEUES {
            let limit = self.limits.get(&(entry, queue)).copied();
            let of_groups = self.group_limits.get(&(entry, queue)).copied();
            if limit.is_none() && of_groups.is_none() {
                continue;
            }
            let (version, max_running) = (self.serial(), limit.unwrap_or(0));
            let max_running_per_group = of_groups.unwrap_or(0);
            let settings = QueueSettings {
                version,
                max_running,
                max_running_per_group,
                ..QueueSettings::NONE
            };
            let (name, now) = (queue_name(queue), self.now.monotonic);
            assert!(self.board.configure(entry, &name, &settings, now, Bucket::Full));
            let mut from = Some(0);
            while let Some(at) = from {
                from = self.board.release_lanes(entry, Some(&name), at, 3);
            }
        }
    }

    fn group_limit_of(&self, queue: QueueKey) -> u32 {
        self.group_limits.get(&queue).copied().filter(|most| *most > 0).unwrap_or(u32::MAX)
    }

    /// How many tasks of the group of a lane run.
    fn running_in_group(&self, lane: LaneKey) -> u32 {
        self.in_places((lane.0, lane.1)).filter(|it| it.1.lane.3 == lane.3).count() as u32
    }

    /// Whether as many tasks of the group of a lane run as may.
    pub fn is_group_full(&self, lane: LaneKey) -> bool {
        self.running_in_group(lane) >= self.group_limit_of((lane.0, lane.1))
    }

    /// The places that a transaction makes free in groups; those in one group.
    pub fn freed_in_groups(&self, pid: i32) -> Vec<(GroupPlace, u32)> {
        let acts = self.transactions.get(&pid).map_or(&[][..], |it| &it.acts);
        let mut places: Vec<GroupPlace> = (acts.iter())
            .filter_map(|act| match act {
                Act::Settle { right, .. } => right.place.map(|it| it.group),
                Act::Reserve { .. } => None,
            })
            .collect();
        places.sort();
        places.chunk_by(|one, other| one == other).map(|it| (it[0], it.len() as u32)).collect()
    }

    /// Whether a transaction may own a task of its group, by the task's slot.
    pub fn may_own_of_group(&mut self, pid: i32, at: u32, key: Key) -> bool {
        let (lane, freed) = (self.cards[&key].lane, self.freed_in_groups(pid));
        if self.board.slot_blocked(at, &freed).is_some() {
            assert!(self.is_group_full(lane), "the group has a place: {lane:?}");
            return false;
        }
        if self.is_group_full(lane) {
            self.check_freed(pid, lane);
        }
        true
    }

    /// Checks that a transaction which owns a task of a full group ends one of its leases.
    pub fn check_freed(&mut self, pid: i32, lane: LaneKey) {
        let mut freed = 0;
        for act in &self.transactions[&pid].acts {
            if let Act::Settle { right, .. } = act
                && let Some(card) = self.cards.get(&right.key)
                && (card.lane.0, card.lane.1, card.lane.3) == (lane.0, lane.1, lane.3)
                && card.settling_by == right.serial
            {
                freed += u32::from(card.has_place() && right.place.is_some());
            }
        }
        let most = self.group_limit_of((lane.0, lane.1));
        assert!(self.running_in_group(lane) - freed < most, "no more run than may: {lane:?}");
        self.tally.handed_in_group += 1;
    }

    fn limit_of(&self, queue: QueueKey) -> u32 {
        self.limits.get(&queue).copied().filter(|most| *most > 0).unwrap_or(u32::MAX)
    }

    fn in_places(&self, queue: QueueKey) -> impl Iterator<Item = (&Key, &Card)> {
        let in_place =
            move |it: &(&Key, &Card)| (it.1.lane.0, it.1.lane.1) == queue && it.1.has_place();
        self.cards.iter().filter(in_place)
    }

    /// How many tasks of a queue run, those included whose lease a transaction in flight ends.
    pub fn running(&self, queue: QueueKey) -> u32 {
        self.in_places(queue).count() as u32
    }

    /// Whether a late lease may go on: others of its queue run in fewer places than there are.
    pub fn may_run_on(&self, key: Key) -> bool {
        let Some(card) = self.cards.get(&key) else { return true };
        let queue = (card.lane.0, card.lane.1);
        let others = || self.in_places(queue).filter(|it| *it.0 != key);
        let of_group = others().filter(|it| it.1.lane.3 == card.lane.3).count() as u32;
        (others().count() as u32) < self.limit_of(queue) && of_group < self.group_limit_of(queue)
    }

    /// Whether a transaction may own a task of a queue: one more than run when it commits.
    pub fn may_own(&mut self, pid: i32, queue: QueueKey) -> bool {
        let acts = self.transactions.get(&pid).map_or(&[][..], |it| &it.acts);
        let mut freed = 0;
        for act in acts {
            if let Act::Settle { right, .. } = act
                && let Some(card) = self.cards.get(&right.key)
                && (card.lane.0, card.lane.1) == queue
                && card.settling_by == right.serial
            {
                freed += u32::from(card.has_place() && right.place.is_some());
            }
        }
        let places = acts.iter().filter_map(|act| match act {
            Act::Settle { right, .. } => right.place,
            Act::Reserve { .. } => None,
        });
        let places: Vec<_> = places.collect();

        let at = self.board.find_queue(queue.0, &queue_name(queue.1));
        let now = self.now.monotonic;
        let mut why = self.board.blocked(queue.0, at, now, None);
        let mut handed_on = false;
        if let Some(Blocked::MaxRunning(place)) = why {
            let count = places.iter().filter(|it| it.queue == place).count() as u32;
            why = self.board.blocked(queue.0, at, now, Some((place, count)));
            handed_on = why.is_none();
        }
        let is_full = self.running(queue) - freed >= self.limit_of(queue);
        match why {
            None => assert!(!is_full, "no more run than may: {queue:?}"),
            Some(Blocked::MaxRunning(_)) => {
                assert!(is_full || self.overtaken.contains(&queue), "there is a place: {queue:?}");
            }
            Some(why) => panic!("blocked: {why:?}"),
        }
        self.tally.limited += u64::from(why.is_some());
        self.tally.handed_on += u64::from(handed_on);
        let is_pending = self
            .transactions
            .values()
            .flat_map(|it| &it.acts)
            .any(|act| matches!(act, Act::Settle { right, .. } if right.place.is_some()));
        if !is_pending {
            self.overtaken.clear();
        }
        why.is_none()
    }
}
