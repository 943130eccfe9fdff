//! Passes: how groups for which the board has no place get their turns.
//!
//! Such a group is known to the table only. Once each group on the board has had a turn, the next
//! groups in the order of their hashes are read from the table; these come next, before any group
//! has a second turn. Behind the last group the next *pass* begins. So in a pass each group has one
//! turn, however many there are. One that is on the board when the pass begins, and is left to the
//! table before the pass comes to its hash, has two; lanes that were made in place of others give
//! way first, so that these are few.
//!
//! A pass belongs to the head of an action's groups, or, in a queue that keeps the order, to the
//! line of the tasks without a group.

use crate::board::Board;
use crate::board::leases::Next;
use crate::board::queues::lines::LineTask;
use crate::layout::lane::{Lane, Order, Pass, Spot};
use crate::layout::names::{ACTION_MAX, GroupHash, LaneName, Name};
use crate::layout::nodes::NIL;
use crate::layout::rank::Rank;

/// How many groups are read at once.
pub const GROUPS_READ: usize = 64;

/// Groups that are to be read from the table.
#[derive(Clone, Copy, Debug)]
pub struct NeedsGroups {
    /// The index of the lane that the pass belongs to.
    pub lane: u32,
    /// Where in the order of hashes to read on.
    pub from: GroupHash,
    /// The groups' action, unless they are lines.
    pub action: Name<ACTION_MAX>,
    /// The order of the groups' lanes.
    pub order: Order,
    pub(crate) lane_id: u32,
}

/// The first tasks of a group as the table has them.
#[derive(Clone, Copy, Debug)]
pub struct GroupRead<'a> {
    /// The group.
    pub group: GroupHash,
    /// Its first tasks, in order.
    pub tasks: &'a [LineTask<'a>],
    /// What comes behind them; `Rank::END`: nothing.
    pub cursor: Rank,
}

impl Board<'_> {
    /// The lane to which the pass of a lane's group belongs.
    pub(crate) fn base_of(&self, lane: u32) -> Option<u32> {
        if self.is_line(lane) {
            self.base_line(self.lanes[lane].queue)
        } else {
            Some(self.head_of(lane))
        }
    }

    pub(crate) fn base_line(&self, queue: u32) -> Option<u32> {
        self.find_lane(queue, b"", Order::Line, NIL)
    }

    /// The groups to be read before a lane has its turn; `None`: it may have it. Without a lane,
    /// those of a queue that keeps the order, whose tasks may have any action.
    pub(crate) fn groups_before(&self, queue: u32, lane: Option<u32>) -> Option<Next> {
        if self.queues[queue].passes == 0 {
            return None;
        }
        let base = match lane {
            None => self.base_line(queue)?,
            Some(lane) => self.base_of(lane)?,
        };
        let pass = &self.lanes[base].pass;
        let listed = lane.filter(|lane| self.is_listed(*lane));
        let last_turn = self.queues[queue].last_turn;
        let is_time = !pass.is_lower || last_turn.is_multiple_of(GROUPS_READ as u64);
        // One whose next task is not known is refilled first: its priority may be a low one.
        let is_known = |lane| matches!(self.next_in_lane(lane), Next::Task(_));
        let is_next = |lane| self.turns(lane).last > pass.begun && is_time && is_known(lane);
        if !pass.open || !listed.is_none_or(is_next) {
            return None;
        }
        if self.lanes[base].refiller != 0 {
            return Some(Next::Refilling);
        }
        let Lane { lane_id, order, action, .. } = self.lanes[base];
        let from = pass.from;
        Some(Next::NeedsGroups(NeedsGroups { lane: base, from, action, order, lane_id }))
    }

    /// Notes that a group has no lane, and may have tasks that only the table knows. False: no pass
    /// will find them.
    pub(crate) fn leave_group_to_table(&mut self, base: Option<u32>, group: GroupHash) -> bool {
        let Some(base) = base else { return false };
        let queue = self.lanes[base].queue;
        // Where tasks age, groups have no turns.
        if self.ages(queue) || self.is_outdated(base) {
            return false;
        }
        if !self.lanes[base].pass.open {
            let begun = self.queues[queue].last_turn;
            self.set_pass(base, Pass { open: true, begun, ..Pass::NONE });
        }
        let pass = &mut self.lanes[base].pass;
        pass.again = true;
        pass.disturbed |= pass.reading && group >= pass.from;
        true
    }

    fn set_pass(&mut self, base: u32, pass: Pass) {
        self.unlink_front(base);
        let queue = self.lanes[base].queue;
        let before = std::mem::replace(&mut self.lanes[base].pass, pass);
        let passes = &mut self.queues[queue].passes;
        *passes = *passes + u32::from(pass.open) - u32::from(before.open);
        self.link_front(base);
    }

    /// Ends the pass of a lane.
    pub(crate) fn close_pass(&mut self, base: u32) {
        if self.lanes[base].pass.open {
            self.set_pass(base, Pass::NONE);
        }
    }

    /// Whether a lane was made in place of another, and its group has had its turn.
    pub(crate) fn gives_way(&self, lane: u32) -> bool {
        self.lanes[lane].gives_way
            && self.base_of(lane).is_some_and(|base| {
                let pass = &self.lanes[base].pass;
                pass.open && self.turns(lane).last > pass.begun
            })
    }

    /// Makes the caller the only process that reads these groups; false when another one does, or
    /// the pass has come further since.
    pub fn begin_groups(&mut self, wanted: &NeedsGroups, refiller: i32) -> bool {
        if !self.is_refilled_by(wanted.lane, 0) {
            return false;
        }
        let lane = &mut self.lanes[wanted.lane];
        if lane.lane_id != wanted.lane_id || !lane.pass.open || lane.pass.from != wanted.from {
            return false;
        }
        (lane.pass.reading, lane.pass.disturbed) = (true, false);
        self.set_refiller(wanted.lane, refiller);
        true
    }

    /// Makes lanes for groups that were read, in the order of their hashes; one that has a lane
    /// keeps it as it is. False: the board has no place for the rest, or the pass is no longer the
    /// caller's.
    pub fn add_groups(
        &mut self,
        entry: u32,
        base: u32,
        refiller: i32,
        groups: &[GroupRead],
    ) -> bool {
        self.is_refilled_by(base, refiller)
            && !self.is_outdated(base)
            && groups.iter().all(|read| self.add_group(entry, base, read))
    }

    fn add_group(&mut self, entry: u32, base: u32, read: &GroupRead) -> bool {
        let Lane { queue, action, order, .. } = self.lanes[base];
        let known = self.find_group(queue, read.group);
        let has_lane = |group| self.find_lane(queue, action.as_bytes(), order, group).is_some();
        if known.is_some_and(has_lane) {
            return true;
        }
        let gives_way = self.lanes.is_full();
        let name = self.queues[queue].name;
        let name =
            LaneName { queue: name.as_bytes(), action: action.as_bytes(), group: Some(read.group) };
        let lane = match order {
            Order::Line => self.add_line(entry, name),
            _ => self.add_lane_below(entry, base, read.group),
        };
        let Some(lane) = lane else { return false };
        self.lanes[lane].gives_way = gives_way;
        if known.is_none() {
            // It has nothing yet, so it is in no tree.
            self.turns_of(lane).last = self.lanes[base].pass.begun;
        }
        if self.lanes[base].pass.disturbed {
            // A task may have come since the group was read.
            self.leave_to_table(lane, self.first_rank(lane));
            return true;
        }
        // It must not be spilled to make room for the heads of its tasks.
        self.set_refiller(lane, self.lanes[base].refiller);
        self.leave_to_table(lane, read.cursor);
        read.tasks.iter().for_each(|task| self.add_read(entry, lane, task));
        self.set_refiller(lane, 0);
        self.release_lane(lane);
        true
    }

    fn add_read(&mut self, entry: u32, lane: u32, task: &LineTask) {
        if self.is_line(lane) {
            self.refill_task(entry, lane, task);
        } else if self.find_slot(entry, task.rank.id).is_none() {
            let spot = Spot { lane, head: NIL };
            self.insert_slot(entry, spot, task.rank, task.timeout);
        }
    }

    /// Ends the reading of groups, behind which it goes on from a hash; `None`: there are no more,
    /// and the next pass begins, if it is needed.
    pub fn end_groups(&mut self, base: u32, refiller: i32, from: Option<GroupHash>) {
        if !self.is_refilled_by(base, refiller) {
            return;
        }
        let queue = self.lanes[base].queue;
        let last_turn = self.queues[queue].last_turn;
        let pass = &mut self.lanes[base].pass;
        pass.reading = false;
        match from {
            Some(from) => pass.from = from,
            None if pass.again => *pass = Pass { open: true, begun: last_turn, ..Pass::NONE },
            None => self.close_pass(base),
        }
        self.set_refiller(base, 0);
        let best = self.best_head(queue).map(|head| self.next_below(head));
        let pass = &self.lanes[base].pass;
        let is_lower = best.is_some_and(|best| self.turns(best).last > pass.begun);
        self.lanes[base].pass.is_lower = is_lower;
        self.note_ready(base);
        self.forget_outdated(self.queues[queue].entry, base);
        if self.is_lane(base) {
            self.release_lane(base);
        }
    }
}
