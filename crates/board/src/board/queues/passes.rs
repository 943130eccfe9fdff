//! Passes: how groups for which the board has no place get their turns.
//!
//! Such a group is known to the table only. While there is one, the groups of an action have their
//! turns in the order of their hashes: the next ones are read from the table, have a turn each, and
//! the next ones are read. Behind the last group the next *pass* begins. So in a pass each group has
//! one turn, however many there are and whether it is on the board or not.
//!
//! A pass belongs to the head of the groups' lanes. Lines have none.

use crate::board::Board;
use crate::board::leases::Next;
use crate::board::refill::NeedsGroups;
use crate::layout::lane::{Lane, LaneRef, Order, Pass, Spot};
use crate::layout::names::{GroupHash, LaneName};
use crate::layout::nodes::NIL;
use crate::layout::rank::Rank;
use crate::time::Micros;
use std::cmp::Reverse;
use std::ops::RangeInclusive;

/// How many groups are read at once, at most.
const GROUPS_READ: u32 = 256;

/// How many heads are tried for a task that no pass holds back (I8).
const HEADS_TRIED: u32 = 64;

/// The last turns of groups that the pass has come to and that have not had their turns since: their
/// places in what was read.
const DUE: RangeInclusive<u64> = 0..=GROUPS_READ as u64;

/// No group has had a turn; those that are due come before the first one.
pub const NO_TURN: u64 = *DUE.end();

/// The first tasks of a group as the table has them.
#[derive(Clone, Copy, Debug)]
pub struct GroupRead<'a> {
    /// The group.
    pub group: GroupHash,
    /// Its first tasks, in order, each with its lease length (zero: none of its own).
    pub tasks: &'a [(Rank, Micros)],
    /// What comes behind them; `Rank::END`: nothing.
    pub cursor: Rank,
}

impl Board<'_> {
    /// The groups to be read before a lane has its turn; `None`: it may have it.
    pub(crate) fn groups_before(&self, lane: u32) -> Option<Next> {
        let head = self.head_of(lane);
        let Lane { pass, queue, .. } = self.lanes[head];
        let is_time = self.queues[queue].last_turn >= pass.later;
        // One whose next task is not known is refilled first.
        let is_first =
            self.is_listed(lane) && (self.is_due(lane) || !is_time || !self.is_known(lane));
        if !pass.open || is_first {
            return None;
        }
        if self.lanes[head].refiller != 0 {
            return Some(Next::Refilling);
        }
        let Lane { lane_id, action, .. } = self.lanes[head];
        let head = LaneRef { lane: head, lane_id, queue };
        let (from, pass) = (pass.from, pass.begun);
        Some(Next::NeedsGroups(NeedsGroups { lane: head.lane, from, action, pass, head }))
    }

    /// Whether the pass has come to a lane's group, which has not had its turn since.
    pub(crate) fn is_due(&self, lane: u32) -> bool {
        DUE.contains(&self.turns(lane).last)
    }

    /// Whether the board has a lane's next task; else its priority may be lower than it seems.
    fn is_known(&self, lane: u32) -> bool {
        matches!(self.next_in_lane(lane), Next::Task(_))
    }

    /// The next task of a queue, or the lane to refill for it, whatever passes are open: for a process
    /// that read groups and did not get to their tasks, since readings for other heads took their
    /// lanes.
    pub fn next_beside_passes(&mut self, queue: u32, actions: Option<&[&[u8]]>) -> Option<Next> {
        let Some(actions) = actions else {
            let mut head = self.best_head(queue);
            for _ in 0..HEADS_TRIED {
                let found = self.next_beside_pass(head?);
                if found.is_some() {
                    return found;
                }
                head = self.next_head(queue, head?);
            }
            return None;
        };
        let heads = actions.iter().filter_map(|it| self.find_head(queue, it, Order::Priority));
        heads.into_iter().find_map(|head| self.next_beside_pass(head))
    }

    fn next_beside_pass(&self, head: u32) -> Option<Next> {
        let lane = self.next_below(head);
        let may_run = self.is_listed(lane) && !self.is_group_full(lane);
        let next = may_run.then(|| self.next_in_lane(lane));
        next.filter(|it| matches!(it, Next::Task(_) | Next::NeedsRefill(_)))
    }

    /// Notes that a group has no lane, and may have tasks that only the table knows. False: no pass
    /// will find them.
    pub(crate) fn leave_group_to_table(&mut self, head: u32, group: GroupHash) -> bool {
        let queue = self.lanes[head].queue;
        // Where tasks age, groups have no turns, and lines have no passes.
        let has_passes = matches!(self.lanes[head].order, Order::Priority);
        if !has_passes || self.ages(queue) || self.is_outdated(head) {
            return false;
        }
        if !self.lanes[head].pass.open {
            let begun = self.next_turn(queue);
            self.set_pass(head, Pass { open: true, begun, priority: u32::MAX, ..Pass::NONE });
        }
        let pass = &mut self.lanes[head].pass;
        pass.again = true;
        // What is being read of it may be out of date.
        pass.disturbed |= pass.reading && (pass.from..=pass.until).contains(&group);
        true
    }

    /// Leaves a task to the pass over its action's groups, if there is one and its group has no lane.
    /// Returns the pass's head then.
    pub(crate) fn leave_to_pass(
        &mut self,
        entry: u32,
        name: LaneName,
        priority: u32,
    ) -> Option<u32> {
        let group = name.group?;
        let queue = self.find_queue(entry, name.queue)?;
        if self.queues[queue].passes == 0 || self.find_lane_named(queue, name, priority).is_some() {
            return None;
        }
        let head = self.find_lane_named(queue, LaneName { group: None, ..name }, priority)?;
        let has_pass = self.lanes[head].pass.open && self.leave_group_to_table(head, group);
        has_pass.then_some(head)
    }

    fn set_pass(&mut self, head: u32, pass: Pass) {
        self.unlink_front(head);
        let queue = self.lanes[head].queue;
        let before = std::mem::replace(&mut self.lanes[head].pass, pass);
        let passes = &mut self.queues[queue].passes;
        *passes = *passes + u32::from(pass.open) - u32::from(before.open);
        self.link_front(head);
    }

    /// Ends the pass of a head.
    pub(crate) fn close_pass(&mut self, head: u32) {
        if self.lanes[head].pass.open {
            self.set_pass(head, Pass::NONE);
        }
    }

    /// Whether a group has as many turns in an open pass if its lane goes: it has had its turn, and
    /// the pass does not come to it again, or it has not, and the pass is still to come. `None`: there
    /// is no pass.
    pub(crate) fn keeps_turns_without(&self, lane: u32) -> Option<bool> {
        let group = self.group_of_lane(lane)?;
        let pass = &self.lanes[self.head_of(lane)].pass;
        let is_behind = if pass.reading { group <= pass.until } else { group < pass.from };
        let turns = self.turns(lane);
        let had_turn = turns.last > pass.begun && !pass.over;
        // One that has come since will have it wherever it is.
        let keeps = had_turn == is_behind || had_turn && !turns.had_turn;
        pass.open.then_some(keeps && !self.is_due(lane))
    }

    /// Makes the caller the only process that reads these groups, and tells how many it may read:
    /// so many that none has to give way to another. `None`: another process reads them, or the pass
    /// has come further since.
    pub fn begin_groups(&mut self, wanted: &NeedsGroups, refiller: i32) -> Option<usize> {
        let head = wanted.lane;
        if !self.is_refilled_by(head, 0) {
            return None;
        }
        let Lane { lane_id, mut pass, queue, .. } = self.lanes[head];
        if lane_id != wanted.head.lane_id || !pass.open || pass.from != wanted.from {
            return None;
        }
        if pass.over {
            let begun = self.next_turn(queue);
            pass = Pass { open: true, begun, priority: pass.priority, ..Pass::NONE };
        }
        (pass.reading, pass.until, pass.disturbed) = (true, GroupHash::MAX, false);
        (pass.due, pass.came, pass.came_priority) = (0, false, 0);
        self.set_pass(head, pass);
        if pass.from == 0 && self.turns(head).last <= pass.begun {
            // Tasks without a group come first.
            self.set_turn(head, *DUE.start());
        }
        self.set_refiller(head, refiller);
        let entry = self.queues[queue].entry;
        let own = self.entry(entry).idle_len;
        let most = self.most_idle(entry).map_or(0, |it| self.entry(it).idle_len);
        let free = self.lanes.capacity() - self.lanes.live();
        // Those of another database give way while it has more of them than this one.
        let others = most.saturating_sub(own + free).div_ceil(2);
        let most = GROUPS_READ.min(self.lanes.capacity() / 8);
        Some((free + own + others).min(most).max(1) as usize)
    }

    /// Makes lanes for groups that were read, in the order of their hashes, which have their turns
    /// now; one that has a lane keeps its tasks. `until` is the last hash that was read. Returns how
    /// many there was a place for, none if the pass is no longer the caller's.
    pub fn add_groups(
        &mut self,
        entry: u32,
        head: u32,
        refiller: i32,
        groups: &[GroupRead],
        until: GroupHash,
    ) -> usize {
        let is_reader = self.is_refilled_by(head, refiller) && self.lanes[head].pass.reading;
        if !is_reader || self.is_outdated(head) {
            return 0;
        }
        self.lanes[head].pass.until = until;
        groups.iter().take_while(|read| self.add_group(entry, head, read)).count()
    }

    fn add_group(&mut self, entry: u32, head: u32, read: &GroupRead) -> bool {
        let Lane { queue, action, order, pass, .. } = self.lanes[head];
        let group = self.find_group(queue, read.group);
        let known = group.and_then(|group| self.find_lane(queue, action.as_bytes(), order, group));
        let lane = match known {
            Some(lane) => lane,
            None => match self.add_lane_of_group(entry, head, read.group) {
                Some(lane) => lane,
                None => return false,
            },
        };
        let turns = *self.turns_of(lane);
        // It may have had its turn through another action.
        let is_due = !(turns.had_turn && turns.last > pass.begun);
        if is_due {
            self.lanes[head].pass.due += 1;
            self.set_turn(lane, u64::from(self.lanes[head].pass.due));
        }
        if known.is_none() {
            // A task may have come since the group was read.
            let is_read = !self.lanes[head].pass.disturbed;
            let cursor = if is_read { read.cursor } else { self.first_rank(lane) };
            self.leave_to_table(lane, cursor);
            for &(rank, timeout) in read.tasks.iter().filter(|_| is_read) {
                if self.find_slot(entry, rank.id).is_none() {
                    self.insert_slot(entry, Spot { lane, head: NIL }, rank, timeout);
                }
            }
        }
        if is_due && self.is_listed(lane) {
            let Reverse(priority) = self.lane_key(lane).0;
            let pass = &mut self.lanes[head].pass;
            (pass.came, pass.came_priority) = (true, pass.came_priority.max(priority));
            if known.is_none() {
                self.note_ready(lane);
            }
        }
        self.release_lane(lane);
        true
    }

    /// Makes the lane of a group that was read, in place of one whose group keeps its turns without, or
    /// of any, if nothing else would come of this reading.
    fn add_lane_of_group(&mut self, entry: u32, head: u32, group: GroupHash) -> Option<u32> {
        let pass = self.lanes[head].pass;
        let goes_well = |lane| self.keeps_turns_without(lane) != Some(false);
        if self.lanes.is_full() && pass.came && !self.first_to_go(entry).is_some_and(goes_well) {
            return None;
        }
        let lane = self.add_lane_below(entry, head, group);
        if lane.is_none() && !self.lanes[head].pass.again {
            self.note_spilled(entry);
        }
        lane
    }

    /// Ends the reading of groups, behind which it goes on from a hash, the same one if there was no
    /// place; `None`: there are no more, and the next pass begins, if it is needed.
    pub fn end_groups(&mut self, head: u32, refiller: i32, from: Option<GroupHash>) {
        if !self.is_refilled_by(head, refiller) {
            return;
        }
        let Lane { queue, pass, .. } = self.lanes[head];
        let priority = if pass.came { pass.came_priority } else { u32::MAX };
        let last_turn = self.queues[queue].last_turn;
        let pass = match from {
            _ if !pass.reading => pass,
            Some(from) => {
                let next = self.next_below(head);
                let is_known = pass.came && self.is_listed(next) && self.is_known(next);
                let is_lower = is_known && self.lane_key(next).0.0 > pass.came_priority;
                let turns =
                    if is_lower { GROUPS_READ.into() } else { u64::from(from == pass.from) };
                let later = if turns > 0 { last_turn + turns } else { 0 };
                Pass { from, priority, later, ..pass }
            }
            None if pass.again => {
                // Not two passes without a turn.
                let had_turn = self.queues[queue].last_had > pass.begun;
                let later = if had_turn { 0 } else { last_turn + 1 };
                Pass { from: 0, over: true, priority, later, ..pass }
            }
            None => Pass::NONE,
        };
        self.set_pass(head, pass);
        self.end_reading(head);
    }

    /// Notes that no process reads for a lane any more.
    pub(crate) fn end_reading(&mut self, lane: u32) {
        self.lanes[lane].pass.reading = false;
        self.set_refiller(lane, 0);
        self.forget_outdated(self.queues[self.lanes[lane].queue].entry, lane);
        if self.is_lane(lane) {
            self.release_lane(lane);
        }
    }
}
