//! Queues: what they are needed for, their settings, and how they are released when these change.

pub mod aging;
pub mod coverage;
pub mod groups;
pub mod limits;
pub mod order;

use crate::board::queues::limits::Bucket;
use crate::board::{Board, MAX_UNNEEDED};
use crate::containers::hash::hash;
use crate::layout::names::Name;
use crate::layout::nodes::{Link, NIL};
use crate::layout::queue::{Coverage, GroupTurns, Permits, Queue, QueueSettings};
use crate::layout::slot::Slot;
use crate::time::Monotonic;

impl Queue {
    /// Whether it has settings, or is about to get some.
    fn is_configured(&self) -> bool {
        self.settings.version > 0 || self.pins > 0
    }
}

impl Board<'_> {
    /// The index of a queue; good as long as the caller holds the lock.
    pub fn find_queue(&self, entry: u32, queue: &[u8]) -> Option<u32> {
        self.queues.find(hash(entry, queue), |it| it.entry == entry && it.name.as_bytes() == queue)
    }

    /// A queue, made if it is new; `None`: no record is left. The caller gives it a reason to be
    /// there, by `change_need`.
    pub(crate) fn find_or_add_queue(&mut self, entry: u32, name: &[u8]) -> Option<u32> {
        if let Some(queue) = self.find_queue(entry, name) {
            return Some(queue);
        }
        let epoch = self.next_generation();
        let added = self.queues.add(
            hash(entry, name),
            Queue {
                entry,
                fronts: NIL,
                lanes: 0,
                groups: 0,
                last_turn: 0,
                next_group: 0,
                turns: GroupTurns { epoch, ..GroupTurns::NONE },
                queued: 0,
                running: 0,
                epoch,
                pins: 0,
                until: 0,
                link: Link::NONE,
                to_announce: false,
                coverage: Coverage::Whole,
                settings: QueueSettings::NONE,
                permits: Permits::NONE,
                name: Name::new(name),
            },
        );
        if let Some(queue) = added
            && self.entry(entry).has_unlisted
        {
            self.set_coverage(queue, Coverage::Partial);
        }
        added
    }

    /// Whether a queue is there for more than being announced.
    pub(crate) fn is_needed(&self, queue: u32) -> bool {
        let it = &self.queues[queue];
        it.lanes > 0 || it.is_configured() || it.coverage != Coverage::Whole
    }

    /// Changes what a queue is needed for, and gives it what it is needed for then.
    pub(crate) fn change_need(&mut self, queue: u32, change: impl FnOnce(&mut Queue)) {
        let it = &self.queues[queue];
        let was_unneeded = !self.is_needed(queue) && it.to_announce;
        let was_configured = it.is_configured();
        let refused = it.settings.max_ready > 0;
        let kept_order = self.keeps_order(queue);
        change(&mut self.queues[queue]);
        let it = &self.queues[queue];
        let is_configured = it.is_configured();
        let refuses = it.settings.max_ready > 0;
        self.globals.refusing -= u32::from(refused);
        self.globals.refusing += u32::from(refuses);
        self.globals.ordering -= u32::from(kept_order);
        self.globals.ordering += u32::from(self.keeps_order(queue));
        self.globals.unneeded -= u32::from(was_unneeded);
        self.globals.configured -= u32::from(was_configured);
        self.globals.configured += u32::from(is_configured);
        if !self.is_needed(queue) {
            self.keep_to_announce(queue);
        }
    }

    /// Keeps a queue that is not needed to be announced, or frees it.
    fn keep_to_announce(&mut self, queue: u32) {
        if self.queues[queue].to_announce && (self.globals.unneeded as usize) < MAX_UNNEEDED {
            self.globals.unneeded += 1;
        } else {
            self.remove_from_announce(queue);
            self.free_queue(queue);
        }
    }

    pub(crate) fn free_queue(&mut self, queue: u32) {
        self.queues[queue].name = Name::EMPTY;
        self.queues.free(queue);
    }

    /// A queue that has settings, or that may get some; `None`: too many queues have settings.
    fn find_or_add_configured(&mut self, entry: u32, name: &[u8]) -> Option<u32> {
        let found = self.find_queue(entry, name);
        let is_configured = found.is_some_and(|queue| self.queues[queue].is_configured());
        let queues = self.queues.capacity() as usize;
        let most = queues - self.lanes.capacity() as usize - MAX_UNNEEDED;
        if !is_configured && self.globals.configured as usize >= most {
            return None;
        }
        found.or_else(|| self.find_or_add_queue(entry, name))
    }

    /// Keeps a queue, made if it is new, for a transaction that is about to change its settings.
    /// False: too many queues have settings.
    pub fn pin_queue(&mut self, entry: u32, name: &[u8]) -> bool {
        let queue = self.find_or_add_configured(entry, name);
        queue.into_iter().for_each(|queue| self.change_need(queue, |it| it.pins += 1));
        queue.is_some()
    }

    /// Ends what `pin_queue` began.
    pub fn unpin_queue(&mut self, entry: u32, name: &[u8]) {
        if let Some(queue) = self.find_queue(entry, name) {
            self.change_need(queue, |it| it.pins = it.pins.saturating_sub(1));
        }
    }

    /// Gives a queue settings, unless it has newer ones. False: too many queues have settings. If
    /// the order of its tasks changes with them, a survey makes the lanes in which they belong.
    pub fn configure(
        &mut self,
        entry: u32,
        name: &[u8],
        settings: &QueueSettings,
        now: Monotonic,
        bucket: Bucket,
    ) -> bool {
        let Some(queue) = self.find_or_add_configured(entry, name) else { return false };
        let before = self.queues[queue].settings;
        if before.version > settings.version {
            return true;
        }
        let order = self.order(queue, 0);
        let kept_order = self.keeps_order(queue);
        self.change_need(queue, |it| it.settings = *settings);
        if self.keeps_order(queue) != kept_order {
            let changes = matches!(bucket, Bucket::Full);
            let it = self.entry_mut(entry);
            it.looks_for_groups = true;
            it.changes_order |= changes;
        }
        self.reset_permits(queue, before.max_per_second, now, bucket);
        if order != self.order(queue, 0) && self.queues[queue].lanes > 0 {
            self.set_coverage(queue, Coverage::Partial);
        }
        true
    }

    /// Takes the settings of a queue back, and forgets their version: the next ones count from the
    /// first on.
    pub fn drop_settings(&mut self, entry: u32, name: &[u8], now: Monotonic) {
        if self.find_queue(entry, name).is_none() {
            return;
        }
        let none = QueueSettings { version: u64::MAX, ..QueueSettings::NONE };
        self.configure(entry, name, &none, now, Bucket::Full);
        if let Some(queue) = self.find_queue(entry, name) {
            self.change_need(queue, |it| it.settings = QueueSettings::NONE);
        }
    }

    /// Forgets the settings of a queue of a cleared database.
    pub(crate) fn forget_settings(&mut self, queue: u32) {
        self.stop_awaiting_permit(queue);
        let entry = self.queues[queue].entry;
        let is_whole = self.queues[queue].coverage == Coverage::Whole;
        self.entry_mut(entry).partial -= u32::from(!is_whole);
        self.change_need(queue, |it| {
            (it.settings, it.pins) = (QueueSettings::NONE, 0);
            it.coverage = Coverage::Whole;
        });
    }

    /// Whether there is a queue of a database at an index.
    pub(crate) fn is_queue(&self, queue: u32, entry: u32) -> bool {
        // A record that `clear` made unused still has the fields that it had.
        queue < self.queues.end()
            && !self.queues[queue].name.as_bytes().is_empty()
            && self.queues[queue].entry == entry
    }

    /// Whether a completed task is deleted as it is returned, by its slot.
    pub fn discards(&self, slot: &Slot) -> bool {
        self.queues[self.lanes[slot.lane].queue].settings.discards
    }

    /// Notes that what blocked a queue, or all of a database, may have ended: announces the queues,
    /// and wakes waiting processes. Goes through the lanes among `count` indexes from `from` on;
    /// returns where to go on, or `None` after the last lane.
    pub fn release_lanes(
        &mut self,
        entry: u32,
        queue: Option<&[u8]>,
        from: u32,
        count: u32,
    ) -> Option<u32> {
        let wanted = queue.map(|queue| self.find_queue(entry, queue));
        let to = self.lanes.end().min(from.saturating_add(count));
        for lane in from..to {
            let queue = self.lanes[lane].queue;
            if self.is_lane(lane)
                && self.queues[queue].entry == entry
                && wanted.is_none_or(|wanted| wanted == Some(queue))
            {
                self.park_or_unpark(queue, self.lanes[lane].turns.group);
                self.note_released(queue, lane);
            }
        }
        (to < self.lanes.end()).then_some(to)
    }

    fn note_released(&mut self, queue: u32, lane: u32) {
        if self.is_limited(queue) {
            // Once for all of its lanes.
            if self.best_head(queue) == Some(lane) {
                self.release(queue, u32::MAX);
            }
        } else if self.is_head(lane) && self.has_next(lane) && self.free_places(queue) > 0 {
            self.wake_for(lane, self.queued_below(lane).max(1));
            self.note_to_announce(queue);
        }
    }
}
