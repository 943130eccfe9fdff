//! What is counted of queues. A record is there as long as it has something that the table of
//! totals does not have. So a queue exists without one, and the first submission writes no shared
//! row.
//!
//! Ready and waiting tasks are counted once, under a snapshot, when a database's board is built.
//! Each commit that the snapshot did not see adds what it changes.

use crate::board::Board;
use crate::containers::hash::hash;
use crate::layout::names::Name;
use crate::layout::stats::{Counted, Counts, Events, Gauges, QueueStats, Recount};
use crate::time::Wall;

/// Whether a transaction's number comes before another's; they go in a circle.
fn precedes(one: u32, other: u32) -> bool {
    (one.wrapping_sub(other) as i32) < 0
}

impl Board<'_> {
    fn find_stats(&self, entry: u32, queue: &[u8]) -> Option<u32> {
        self.stats.find(hash(entry, queue), |it| it.entry == entry && it.name.as_bytes() == queue)
    }

    /// The record of a queue, made if it is new; `None`: no record is left.
    fn find_or_add_stats(&mut self, entry: u32, queue: &[u8], now: Wall) -> Option<u32> {
        let recount = self.entry(entry).recount;
        let found = self.find_stats(entry, queue).or_else(|| {
            self.stats.add(
                hash(entry, queue),
                QueueStats {
                    entry,
                    recount,
                    ready: 0,
                    waiting: 0,
                    announced: 0,
                    since: now,
                    events: Events::NONE,
                    name: Name::new(queue),
                },
            )
        });
        match found {
            Some(at) => {
                let it = &mut self.stats[at];
                if it.recount != recount {
                    (it.recount, it.ready, it.waiting) = (recount, 0, 0);
                }
            }
            None => self.entry_mut(entry).uncounted = true,
        }
        found
    }

    fn free_stats(&mut self, at: u32) {
        self.stats[at].name = Name::EMPTY;
        self.stats.free(at);
    }

    /// Adds what a transaction changed that has committed. `transaction`: its number, which it has
    /// if it changed rows.
    pub fn count(
        &mut self,
        entry: u32,
        queue: &[u8],
        counts: &Counts,
        transaction: u32,
        now: Wall,
    ) {
        let is_counted = self.is_counted(entry, transaction);
        let Some(at) = self.find_or_add_stats(entry, queue, now) else { return };
        let it = &mut self.stats[at];
        it.announced = it.announced.saturating_sub(counts.announced);
        it.events.add(&counts.events);
        if !is_counted {
            it.ready += counts.ready;
            it.waiting += counts.waiting;
        }
    }

    /// Whether the recount under way sees what a transaction did that has committed.
    fn is_counted(&self, entry: u32, transaction: u32) -> bool {
        let it = &self.globals.recount;
        it.counter != 0
            && it.entry == entry
            && it.number == self.entry(entry).recount
            && precedes(transaction, it.end)
            && !self.open[..it.open as usize].contains(&transaction)
    }

    /// Announces that an open transaction submits so many ready tasks to a queue, if the queue has
    /// a limit of them; the end of the transaction takes the announcement back. False: they would
    /// be more than `max_ready`. `None`: there is no limit, or no record for it.
    pub fn announce_ready(
        &mut self,
        entry: u32,
        queue: &[u8],
        count: u32,
        now: Wall,
    ) -> Option<bool> {
        let limited = self.find_queue(entry, queue)?;
        let (most, running) = (self.queues[limited].settings.max_ready, self.running(limited));
        if most == 0 {
            return None;
        }
        let is_known = self.entry(entry).counted == Counted::Yes;
        let at = self.find_or_add_stats(entry, queue, now)?;
        let it = &mut self.stats[at];
        let ready = (it.ready - i64::from(running)).max(0) as u64;
        if is_known && ready + u64::from(it.announced) + u64::from(count) > most {
            return Some(false);
        }
        it.announced = it.announced.saturating_add(count);
        Some(true)
    }

    /// How many tasks of a queue run, those included that a transaction in flight ends.
    fn running(&self, queue: u32) -> u32 {
        self.queues[queue].running
    }

    /// Takes back what `announce_ready` announced, after a rollback.
    pub fn unannounce_ready(&mut self, entry: u32, queue: &[u8], count: u32) {
        if let Some(at) = self.find_stats(entry, queue) {
            let it = &mut self.stats[at];
            it.announced = it.announced.saturating_sub(count);
        }
    }

    /// How many tasks a queue has, by its record, if it has one; `None`: it is not known now.
    pub fn gauges(&self, entry: u32, stats: Option<&QueueStats>) -> Option<Gauges> {
        let it = self.entry(entry);
        if it.counted != Counted::Yes {
            return None;
        }
        match stats {
            Some(stats) if stats.recount == it.recount => {
                Some(Gauges { ready: stats.ready.max(0), waiting: stats.waiting.max(0) })
            }
            _ if it.uncounted => None,
            _ => Some(Gauges::default()),
        }
    }

    /// How many tasks of a queue run, by its record.
    pub fn running_of(&self, stats: &QueueStats) -> u32 {
        self.find_queue(stats.entry, stats.queue()).map_or(0, |queue| self.running(queue))
    }

    /// Whether something is counted of a queue that the table of totals may not have.
    pub fn has_stats(&self, entry: u32, queue: &[u8]) -> bool {
        self.find_stats(entry, queue).is_some()
    }

    /// The record at an index, if it is of a queue of this database.
    pub fn stats_at(&self, at: u32, entry: u32) -> Option<&QueueStats> {
        // A record that `clear` made unused still has the fields that it had.
        let it = (at < self.stats.end()).then(|| &self.stats[at])?;
        (!it.name.as_bytes().is_empty() && it.entry == entry).then_some(it)
    }

    /// The end of the indexes for `stats_at`.
    pub fn stats_end(&self) -> u32 {
        self.stats.end()
    }

    /// Makes a process the one that counts the tasks of a database under a snapshot; returns the
    /// recount's number, or `None` while another process counts. `open`: the transactions before
    /// `end` that had not ended when the snapshot was taken, which must be under this hold of the
    /// lock.
    pub fn begin_recount(
        &mut self,
        entry: u32,
        counter: i32,
        end: u32,
        open: &[u32],
    ) -> Option<u32> {
        if self.globals.recount.counter != 0 || open.len() > self.open.len() {
            return None;
        }
        let number = self.next_generation();
        self.open[..open.len()].copy_from_slice(open);
        self.globals.recount = Recount { entry, counter, number, end, open: open.len() as u32 };
        let it = self.entry_mut(entry);
        (it.recount, it.counted, it.uncounted) = (number, Counted::UnderWay, false);
        Some(number)
    }

    /// Adds how many tasks of a queue the recount found; false when it is not the last one.
    pub fn add_recounted(
        &mut self,
        entry: u32,
        number: u32,
        queue: &[u8],
        found: Gauges,
        now: Wall,
    ) -> bool {
        if self.entry(entry).recount != number {
            return false;
        }
        if let Some(at) = self.find_or_add_stats(entry, queue, now) {
            let it = &mut self.stats[at];
            it.ready += found.ready;
            it.waiting += found.waiting;
        }
        true
    }

    /// Ends the recount of a process, if there is one. `complete`: all tasks were added.
    pub fn end_recount(&mut self, counter: i32, complete: bool) {
        let it = self.globals.recount;
        if it.counter == counter {
            self.globals.recount.counter = 0;
            let entry = self.entry_mut(it.entry);
            if entry.recount == it.number && entry.counted == Counted::UnderWay {
                entry.counted = if complete { Counted::Yes } else { Counted::No };
            }
        }
    }

    /// The process that counts; 0: none.
    pub fn counter(&self) -> i32 {
        self.globals.recount.counter
    }

    /// Whether a database's tasks are to be counted, and a process may begin to.
    pub fn wants_recount(&self, entry: u32) -> bool {
        let it = self.entry(entry);
        let has_room_again = it.uncounted && !self.stats.is_full();
        self.counter() == 0 && (it.counted == Counted::No || has_room_again)
    }

    /// Forgets what happened in a queue.
    pub fn forget_events(&mut self, entry: u32, queue: &[u8], now: Wall) {
        if let Some(at) = self.find_stats(entry, queue) {
            (self.stats[at].events, self.stats[at].since) = (Events::NONE, now);
            self.free_empty_stats(entry, at, 1);
        }
    }

    /// Notes that events of a queue are in the table of totals now.
    pub fn note_written(&mut self, entry: u32, queue: &[u8], events: &Events) {
        if let Some(at) = self.find_stats(entry, queue) {
            self.stats[at].events.subtract(events);
        }
    }

    /// Frees the records among `count` indexes from `from` on that have nothing.
    pub fn free_empty_stats(&mut self, entry: u32, from: u32, count: u32) {
        for at in from..self.stats.end().min(from.saturating_add(count)) {
            let is_empty = |it: &QueueStats| {
                let is_stale = it.recount != self.entry(entry).recount;
                (is_stale || it.ready == 0 && it.waiting == 0)
                    && it.announced == 0
                    && it.events == Events::NONE
            };
            if self.stats_at(at, entry).is_some_and(is_empty) {
                self.free_stats(at);
            }
        }
    }

    /// Frees all records of a database.
    pub(crate) fn forget_stats(&mut self, entry: u32) {
        for at in 0..self.stats.end() {
            if self.stats_at(at, entry).is_some() {
                self.free_stats(at);
            }
        }
    }
}
