//! Lines: in a queue of which one task of each group runs at a time, the tasks of a group run in the
//! order of their submission, whatever their actions and priorities.
//!
//! A line is the lane of all tasks of a group that were ready once, also of those that wait for
//! their time again: these keep their place, and the group waits for them. It has no action. Each
//! slot names the *head* of its own action, and the line is in the tree of the head that its first
//! slot names, with that task's priority. So a worker finds the next task among some actions in a
//! step for each, and a group whose first task has another action costs nothing.
//!
//! When the first task is known to the table only, and neither its action nor its priority is known,
//! the line is in a tree of its queue: a worker that asks for a task of that queue, of any action,
//! refills such lines first. A slot that leaves a line otherwise than by being settled has its line
//! read again from there: the task may keep its place.

use crate::board::Board;
use crate::board::leases::Next;
use crate::board::offers::Offered;
use crate::board::queues::groups::ByTurn;
use crate::containers::treap;
use crate::layout::lane::{AtCursor, Lane, Order, Spot, UNREAD};
use crate::layout::names::{ACTION_MAX, LaneName, Name};
use crate::layout::nodes::NIL;
use crate::layout::rank::Rank;
use crate::layout::slot::{Flag, State};
use crate::time::{Micros, Wall};

/// A task of a line as the table has it.
#[derive(Clone, Copy, Debug)]
pub struct LineTask<'a> {
    /// Its rank.
    pub rank: Rank,
    /// Its own lease length; zero: none.
    pub timeout: Micros,
    /// Its action.
    pub action: &'a [u8],
    /// It waits for its time, and keeps its place.
    pub waits: bool,
}

impl Board<'_> {
    /// Whether the tasks of each of a queue's groups run one by one, in their order.
    pub fn keeps_order(&self, queue: u32) -> bool {
        self.queues[queue].settings.max_running_per_group == 1
    }

    pub(crate) fn is_line(&self, lane: u32) -> bool {
        self.lanes[lane].order == Order::Line
    }

    /// Ends the caller's use of a spot.
    pub(crate) fn release_spot(&mut self, spot: Spot) {
        if spot.head != NIL {
            self.release_head(spot.head);
        }
    }

    /// Notes that a slot or a line no longer names a head.
    pub(crate) fn release_head(&mut self, head: u32) {
        self.change_lanes_below(head, -1);
        let entry = self.queues[self.lanes[head].queue].entry;
        self.forget_outdated(entry, head);
        if self.is_lane(head) {
            self.release_lane(head);
        }
    }

    /// Where a line is listed: the head of its first task, or `UNREAD`; `NIL`: it has nothing that
    /// may run.
    pub(crate) fn listing(&self, line: u32) -> u32 {
        let it = &self.lanes[line];
        let first = (it.first != NIL).then(|| &self.slots[it.first]);
        match first.filter(|first| first.rank() < it.cursor) {
            Some(first) if first.waits() => NIL,
            Some(first) => first.head,
            None if it.cursor == Rank::END => NIL,
            None => match it.at_cursor {
                AtCursor::Unread => UNREAD,
                AtCursor::Waits => NIL,
                AtCursor::Ready(head) => head,
            },
        }
    }

    /// The priority with which a line competes: its first task's. The highest, if that is not known.
    pub(crate) fn line_priority(&self, line: u32) -> u32 {
        let it = &self.lanes[line];
        match it.first {
            first if first != NIL && self.slots[first].rank() < it.cursor => {
                self.slots[first].priority
            }
            _ if it.at_cursor == AtCursor::Unread => u32::MAX,
            _ => it.cursor_priority,
        }
    }

    /// Puts a line into the tree where it belongs, if it may hand out something.
    pub(crate) fn link_line(&mut self, line: u32) {
        let place = if self.turns(line).parked { NIL } else { self.listing(line) };
        self.lanes[line].turns.head = place;
        match place {
            NIL => {}
            UNREAD => self.change_unread(line, |by_turn, root| treap::insert(by_turn, root, line)),
            head => {
                self.unlink_head(head);
                self.link_turn(line);
                self.lanes[head].turns.queued += 1;
                self.link_head(head);
            }
        }
    }

    /// Takes a line out of its tree, before its first task or what is known of it changes.
    pub(crate) fn unlink_line(&mut self, line: u32) {
        match self.lanes[line].turns.head {
            NIL => {}
            UNREAD => self.change_unread(line, |by_turn, root| treap::remove(by_turn, root, line)),
            head => {
                self.unlink_head(head);
                self.unlink_turn(line);
                self.lanes[head].turns.queued -= 1;
                self.link_head(head);
            }
        }
        self.lanes[line].turns.head = NIL;
    }

    fn change_unread(&mut self, line: u32, change: impl FnOnce(&mut ByTurn, u32) -> u32) {
        let queue = self.lanes[line].queue;
        let root = self.queues[queue].unread;
        self.queues[queue].unread = change(&mut ByTurn(self), root);
    }

    /// The first of a queue's lines that are to be read.
    pub(crate) fn first_unread(&mut self, queue: u32) -> Option<u32> {
        let root = self.queues[queue].unread;
        if root == NIL { None } else { treap::first(&mut ByTurn(self), root) }
    }

    /// Notes what the task at a line's cursor is.
    pub(crate) fn note_at_cursor(&mut self, line: u32, at_cursor: AtCursor, priority: u32) {
        self.unlink_line(line);
        if let AtCursor::Ready(head) = at_cursor {
            self.change_lanes_below(head, 1);
        }
        let it = &mut self.lanes[line];
        let before = std::mem::replace(&mut it.at_cursor, at_cursor);
        it.cursor_priority = priority;
        self.link_line(line);
        if let AtCursor::Ready(head) = before {
            self.release_head(head);
        }
    }

    /// The action of a slot's task.
    pub(crate) fn action_of(&self, at: u32) -> Name<ACTION_MAX> {
        let slot = &self.slots[at];
        self.lanes[if slot.is_in_line() { slot.head } else { slot.lane }].action
    }

    /// A task that was offered has a slot in a line already: if it has waited for its time, it may
    /// run.
    pub(crate) fn wake_in_line(&mut self, at: u32) {
        let line = self.slots[at].lane;
        if !self.is_line(line) {
            return;
        }
        if self.slots[at].rank() >= self.lanes[line].cursor {
            // A refill under way may have read the row as it was before.
            self.leave_to_table(line, self.slots[at].rank());
        }
        self.set_waits(at, false);
        self.note_ready(line);
    }

    fn set_waits(&mut self, at: u32, waits: bool) {
        let line = self.slots[at].lane;
        if self.slots[at].state == State::Queued && self.slots[at].waits() != waits {
            self.unlink_line(line);
            self.slots[at].flags.set(Flag::Waits, waits);
            self.link_line(line);
        }
    }

    /// As `refill`, of a line.
    pub fn refill_line(
        &mut self,
        entry: u32,
        line: u32,
        refiller: i32,
        tasks: &[LineTask],
    ) -> bool {
        self.is_refilled_by(line, refiller)
            && !self.is_outdated(line)
            && tasks.iter().all(|task| self.refill_task(entry, line, task))
    }

    fn refill_task(&mut self, entry: u32, line: u32, task: &LineTask) -> bool {
        let rank = task.rank.in_line();
        if let Some(at) = self.find_slot(entry, task.rank.id)
            && self.is_outdated(self.slots[at].lane)
        {
            self.change_lane(entry, at);
        }
        if rank >= self.lanes[line].left_to_table {
            // The row may have changed since this refill began: the next one reads it.
            return true;
        }
        if let Some(at) = self.find_slot(entry, task.rank.id) {
            if rank >= self.lanes[line].cursor {
                self.set_waits(at, task.waits);
            }
            return true;
        }
        let Lane { queue, .. } = self.lanes[line];
        let Some(head) = self.find_or_add_head(entry, queue, task.action) else {
            self.leave_to_table(line, rank);
            return false;
        };
        let spot = Spot { lane: line, head };
        let queued = self.insert_slot(entry, spot, task.rank, task.timeout) == Offered::Queued;
        if queued && let Some(at) = self.find_slot(entry, task.rank.id) {
            self.set_waits(at, task.waits);
        }
        self.release_spot(spot);
        queued
    }

    /// The head of an action in a queue that keeps the order, kept until `release_head`; `None`: no
    /// place is left.
    pub(crate) fn find_or_add_head(
        &mut self,
        entry: u32,
        queue: u32,
        action: &[u8],
    ) -> Option<u32> {
        let head = match self.find_lane(queue, action, Order::Head, NIL) {
            Some(head) => head,
            None => {
                let name = self.queues[queue].name;
                if self.lanes.is_full() {
                    self.make_room_for_lane(entry)?;
                }
                // Spilling may have freed the queue.
                let queue = self.find_or_add_queue(entry, name.as_bytes())?;
                self.add_lane(entry, queue, action, Order::Head, NIL, NIL)?
            }
        };
        self.change_lanes_below(head, 1);
        Some(head)
    }

    /// Where a task of a queue that keeps the order belongs.
    pub(crate) fn find_or_add_in_line(
        &mut self,
        entry: u32,
        queue: u32,
        name: LaneName,
    ) -> Option<Spot> {
        let head = self.find_or_add_head(entry, queue, name.action)?;
        // The head keeps the queue from now on.
        let queue = self.lanes[head].queue;
        let lane = self.find_or_add_line(entry, queue, name);
        if lane.is_none() {
            self.release_head(head);
        }
        lane.map(|lane| Spot { lane, head })
    }

    /// The line of a group; a new one, if the table may have more of it, is to be read.
    pub(crate) fn find_or_add_line(
        &mut self,
        entry: u32,
        queue: u32,
        name: LaneName,
    ) -> Option<u32> {
        let group = match name.group {
            None => Some(NIL),
            Some(group) => self.find_group(queue, group),
        };
        let line = group.and_then(|group| self.find_lane(queue, b"", Order::Line, group));
        if line.is_some() {
            return line;
        }
        if self.lanes.is_full() {
            self.make_room_for_lane(entry)?;
        }
        let queue = self.find_or_add_queue(entry, name.queue)?;
        let group = match name.group {
            None => NIL,
            Some(group) => self.find_or_add_group(queue, group)?,
        };
        let line = self.add_lane(entry, queue, b"", Order::Line, group, NIL)?;
        if self.entry(entry).lanes_spilled > 0 {
            self.leave_to_table(line, self.first_rank(line));
        }
        Some(line)
    }

    /// Notes that a task that waits and keeps its place is changed, or goes: its line is read again
    /// from there. An offer that came late may have made it ready here.
    pub fn leave_line(&mut self, entry: u32, name: LaneName, rank: Rank) {
        if let Some(at) = self.find_slot(entry, rank.id)
            && self.slots[at].state == State::Queued
            && self.slots[at].is_in_line()
        {
            self.drop_slot(at);
        }
        self.read_again(entry, name, rank);
    }

    /// Has a line read again from a task on that may have left it.
    pub fn read_again(&mut self, entry: u32, name: LaneName, rank: Rank) {
        if let Some(queue) = self.find_queue(entry, name.queue)
            && self.keeps_order(queue)
            && let Some(line) = self.find_lane_named(queue, name, rank.priority)
        {
            self.leave_to_table(line, rank.in_line());
            self.note_ready(line);
        }
    }

    /// Whether a queued slot is not the next one of its line.
    pub(crate) fn is_behind(&self, at: u32) -> bool {
        let slot = &self.slots[at];
        if !slot.is_in_line() {
            return false;
        }
        let line = &self.lanes[slot.lane];
        line.first != at || slot.waits() || line.cursor <= slot.rank()
    }

    /// Whether a refill is to read what comes first in a slot's line.
    pub fn is_unread(&self, at: u32) -> bool {
        let line = self.slots[at].lane;
        self.is_line(line) && self.listing(line) == UNREAD
    }

    /// What is next in a slot's line, which has something.
    pub fn next_in_line(&self, at: u32) -> Next {
        self.next_in_lane(self.slots[at].lane)
    }

    /// The line that has the next task of a queue, raised by its age.
    pub(crate) fn best_aged_line(
        &mut self,
        queue: u32,
        actions: Option<&[&[u8]]>,
        now: Wall,
    ) -> Option<u32> {
        let mut best = None;
        match actions {
            None => {
                let mut head = self.best_head(queue);
                while let Some(at) = head {
                    best = self.best_aged_below(at, now, best);
                    head = self.next_head(queue, at);
                }
            }
            Some(actions) => {
                for action in actions {
                    if let Some(head) = self.find_head(queue, action, Order::Head) {
                        best = self.best_aged_below(head, now, best);
                    }
                }
            }
        }
        best.map(|it| it.1)
    }

    /// Of each priority the line that has the next turn.
    fn best_aged_below(&mut self, head: u32, now: Wall, best: Option<Aged>) -> Option<Aged> {
        let root = self.lanes[head].turns.root;
        let (mut best, mut next) = (best, treap::first(&mut ByTurn(self), root));
        while let Some(line) = next {
            let rival = (self.aged_key(line, now), line);
            best = best.into_iter().chain([rival]).min();
            let level = self.line_priority(line);
            next =
                treap::seek(&mut ByTurn(self), root, |it, line| it.0.line_priority(line) >= level);
        }
        best
    }

    fn aged_key(&self, line: u32, now: Wall) -> (std::cmp::Reverse<i64>, u64) {
        let raised = self.raised(line, self.line_priority(line), now);
        (std::cmp::Reverse(raised), self.turns(line).last)
    }
}

/// A line as it competes with those of other priorities, and its index.
type Aged = ((std::cmp::Reverse<i64>, u64), u32);
