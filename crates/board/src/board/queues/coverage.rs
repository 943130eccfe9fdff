//! Which queues the board covers. A queue that it covers is served from its lanes. For any other
//! queue callers search the table, which needs nothing on the board, and claim the tasks that they
//! find by id. The scheduler frees the lanes of such queues, and tries from time to time to bring
//! them all back.

use crate::board::Board;
use crate::layout::names::{GroupHash, LaneName, Name, QUEUE_MAX};
use crate::layout::queue::Coverage;
use crate::layout::rank::Rank;

impl Board<'_> {
    /// Changes whether the board covers a queue.
    pub(crate) fn set_coverage(&mut self, queue: u32, coverage: Coverage) {
        let Some(before) = Some(self.queues[queue].coverage).filter(|it| *it != coverage) else {
            return;
        };
        let entry = self.queues[queue].entry;
        let partial = &mut self.entry_mut(entry).partial;
        *partial += u32::from(coverage != Coverage::Whole);
        *partial -= u32::from(before != Coverage::Whole);
        self.change_need(queue, |it| it.coverage = coverage);
    }

    /// Notes that tasks of a queue have no lane.
    pub(crate) fn note_uncovered(&mut self, entry: u32, name: &[u8]) {
        match self.find_or_add_queue(entry, name) {
            Some(queue) => self.set_coverage(queue, Coverage::Partial),
            None => self.entry_mut(entry).has_unlisted = true,
        }
    }

    /// Whether callers search the table for a queue's tasks.
    pub fn is_searched(&self, entry: u32, queue: Option<u32>) -> bool {
        match queue {
            Some(queue) => self.queues[queue].coverage != Coverage::Whole,
            None => self.entry(entry).has_unlisted,
        }
    }

    /// How many queues of a database are searched; those without a record count as one.
    pub fn searched(&self, entry: u32) -> u32 {
        let it = self.entry(entry);
        it.partial + u32::from(it.has_unlisted)
    }

    /// The next queue that the board does not cover, by its index from `from` on.
    pub fn next_searched(&self, entry: u32, from: u32) -> Option<(u32, Name<QUEUE_MAX>)> {
        let is_meant =
            |at: &u32| self.is_queue(*at, entry) && self.queues[*at].coverage != Coverage::Whole;
        (from..self.queues.end()).find(is_meant).map(|at| (at, self.queues[at].name))
    }

    /// How many lanes could be made without another one giving way.
    pub fn free_lanes(&self) -> u32 {
        self.lanes.capacity() - self.lanes.live()
    }

    /// Begins a survey of all tables of a database; the queues without a record are found by it.
    /// Returns what it counts for.
    pub fn begin_survey(&mut self, entry: u32) -> u32 {
        let it = self.entry_mut(entry);
        it.has_unlisted = false;
        it.surveys_asked
    }

    /// Begins to bring the lanes of a queue back: what commits from now on makes its lane. The
    /// caller then takes a snapshot, and calls `survey` for each lane in it. False: it is being
    /// done, or need not be, or tasks are queued in lanes that are still to be shed.
    pub fn begin_coverage(&mut self, entry: u32, name: &[u8]) -> bool {
        let queue = self.find_queue(entry, name);
        let queue = queue.filter(|queue| {
            let it = &self.queues[*queue];
            it.coverage == Coverage::Partial && it.queued == 0
        });
        queue.into_iter().for_each(|queue| self.set_coverage(queue, Coverage::Resuming));
        queue.is_some()
    }

    /// Ends what `begin_coverage` began: `complete` if there was a lane for all that was read.
    /// Whether the board covers the queue now.
    pub fn end_coverage(&mut self, entry: u32, name: &[u8], complete: bool) -> bool {
        let Some(queue) = self.find_queue(entry, name) else { return true };
        if self.queues[queue].coverage == Coverage::Resuming {
            let coverage = if complete { Coverage::Whole } else { Coverage::Partial };
            self.set_coverage(queue, coverage);
        }
        self.find_queue(entry, name).is_none_or(|it| self.queues[it].coverage == Coverage::Whole)
    }

    /// Marks one lane as known to the table only, from a rank on (rebuild, refresh): each ready
    /// task before it has, or had a moment ago, a slot. `level`: the priority of its tasks, in a
    /// queue whose tasks gain priority with time. False when there is no room for the lane.
    pub fn survey(&mut self, entry: u32, name: LaneName, level: Option<u32>, from: Rank) -> bool {
        let queue = self.find_queue(entry, name.queue);
        let (ages, coverage) = queue.map_or((false, Coverage::Whole), |queue| {
            (self.ages(queue), self.queues[queue].coverage)
        });
        if ages != level.is_some() {
            // The caller's snapshot is from before the queue began or ceased to age.
            self.note_uncovered(entry, name.queue);
        }
        if ages != level.is_some() || coverage == Coverage::Partial {
            return false;
        }
        let Some(lane) = self.find_or_add_lane(entry, name, level.unwrap_or(0)) else {
            return false;
        };
        self.park_or_unpark(self.lanes[lane].queue, self.lanes[lane].turns.group);
        self.leave_to_table(lane, from.max(self.first_rank(lane)));
        self.note_ready(lane);
        self.release_lane(lane);
        true
    }

    /// Where a search of a queue begins in the order of its groups' hashes.
    pub fn next_group(&self, queue: Option<u32>) -> GroupHash {
        queue.map_or(0, |queue| self.queues[queue].next_group)
    }

    /// Notes where the next search of a queue begins.
    pub fn set_next_group(&mut self, queue: Option<u32>, group: GroupHash) {
        queue.into_iter().for_each(|queue| self.queues[queue].next_group = group);
    }

    /// Wakes a process for each queue of a database that the board does not cover, since no lane
    /// does.
    pub fn wake_searched(&mut self, entry: u32) {
        let mut from = 0;
        while self.looks > 0
            && let Some((queue, _)) = self.next_searched(entry, from)
        {
            if self.free_places(queue) > 0 {
                self.wake_beside_lanes(queue, None);
            }
            from = queue + 1;
        }
    }
}
