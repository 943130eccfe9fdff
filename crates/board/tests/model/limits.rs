//! Limits: how many tasks of a queue run, and which a transaction may own.

use board::{Blocked, Bucket, Configured, QueueSettings};

use super::world::{Act, Card, Key, QueueKey, World, queue_name};

impl World<'_> {
    /// Gives the board the limits of a database's queues.
    pub fn limit(&mut self, entry: u32) {
        let limits: Vec<(QueueKey, u32)> =
            self.limits.range((entry, 0)..=(entry, u8::MAX)).map(|it| (*it.0, *it.1)).collect();
        for ((_, queue), most) in limits {
            let version = self.serial();
            let settings = QueueSettings { version, max_running: most, ..QueueSettings::NONE };
            let (name, now) = (queue_name(queue), self.now.monotonic);
            let configured = self.board.configure(entry, &name, &settings, now, Bucket::Full);
            assert_eq!(configured, Configured::Yes);
        }
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
        let others = self.in_places(queue).filter(|it| *it.0 != key).count() as u32;
        others < self.limit_of(queue)
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
            let count = places.iter().filter(|it| **it == place).count() as u32;
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
