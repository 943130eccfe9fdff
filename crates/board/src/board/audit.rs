//! A walk over a whole board that finds any inconsistency. For tests: it allocates and takes long.

use crate::board::Board;
use crate::board::lanes::{ByFront, ByLength, ByRank, Idle};
use crate::board::leases::timer::{ByDeadline, ByExpiry};
use crate::board::queues::groups::{ByTurn, Siblings};
use crate::board::queues::limits::ByPermit;
use crate::containers::{list, treap};
use crate::layout::entry::BuildState;
use crate::layout::lane::{Order, WakeState};
use crate::layout::names::GroupHash;
use crate::layout::nodes::NIL;
use crate::layout::queue::{Coverage, Group, Queue};
use crate::layout::rank::{Id, Rank};
use crate::layout::slot::{Slot, State};
use crate::layout::waiter::WaiterState;

/// A lane as an audit found it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LaneAudit {
    /// The index of its database's entry.
    pub entry: u32,
    /// Its queue's name.
    pub queue: Vec<u8>,
    /// Its action.
    pub action: Vec<u8>,
    /// From here on tasks may be known to the table only.
    pub cursor: Rank,
    /// The process that refills it; 0: none.
    pub refiller: i32,
    /// Its queued tasks, in order.
    pub queued: Vec<Id>,
    /// How many slots it has, in all states.
    pub slots: u32,
    /// The group of its tasks.
    pub group: Option<GroupHash>,
    /// Whether it is the head of lanes.
    pub is_head: bool,
}

/// What an audit found.
#[derive(Clone, Debug)]
pub struct Audit {
    /// The lanes, in the order of their indexes.
    pub lanes: Vec<LaneAudit>,
    /// The depth of the deepest tree.
    pub depth: usize,
}

impl Board<'_> {
    /// Panics if anything on the board contradicts anything else.
    pub fn audit(&mut self) -> Audit {
        let (slots, lanes, queues) = (self.slots.audit(), self.lanes.audit(), self.queues.audit());
        let mut audit = Audit { lanes: Vec::new(), depth: 0 };
        // How many trees each slot is in; how many slots each lane has, and how many run.
        let mut trees = vec![0; slots.len()];
        let (mut members, mut running_in) = (vec![0; lanes.len()], vec![0; lanes.len()]);
        for (at, live) in (0..).zip(&slots) {
            let state = self.slots[at].state;
            assert_eq!(*live, state != State::Free, "slot {at} is live or free");
            if *live {
                let lane = self.slots[at].lane;
                assert!(lanes[lane as usize], "slot {at} has a lane");
                members[lane as usize] += 1;
                running_in[lane as usize] += u32::from(self.slots[at].has_place());
                let (entry, id) = (self.entry_of_slot(&self.slots[at]), self.slots[at].id);
                assert_eq!(self.find_slot(entry, id), Some(at), "a task has one slot (I3)");
            }
        }

        let lengths = self.globals.lengths;
        let by_length = treap::in_order(&mut ByLength(self), lengths, &mut audit.depth);
        assert_eq!(by_length.len(), lanes.iter().filter(|live| **live).count(), "lanes by length");
        assert!(by_length.iter().all(|lane| lanes[*lane as usize]), "a lane by length is live");

        let mut has_front = vec![false; lanes.len()];
        for (at, _) in (0..).zip(&queues).filter(|(_, live)| **live) {
            let queue = &self.queues[at];
            let (entry, fronts) = (queue.entry, queue.fronts);
            assert_ne!(self.entry(entry).build_state, BuildState::Vacant, "queue {at}'s database");
            let name = queue.name;
            assert_eq!(self.find_queue(entry, name.as_bytes()), Some(at), "queue {at} is found");
            for head in treap::in_order(&mut ByFront(self), fronts, &mut audit.depth) {
                assert!(lanes[head as usize], "a lane by front is live");
                assert_eq!(self.lanes[head].queue, at, "a lane is in its own queue's tree");
                assert!(self.is_head(head), "a head is in its queue's tree");
                has_front[head as usize] = true;
            }
        }

        let mut of_queue = vec![(0, 0, 0); queues.len()];
        for (at, live) in (0..).zip(&lanes) {
            assert_eq!(self.lanes.end() as usize, lanes.len());
            if !live {
                continue;
            }
            let it = self.lanes[at];
            assert!(it.used && queues[it.queue as usize], "lane {at} has a queue");
            let (lanes, queued, running) = &mut of_queue[it.queue as usize];
            (*lanes, *queued) = (*lanes + 1, *queued + it.counts.queued);
            *running += running_in[at as usize];
            assert_eq!(
                self.find_lane(it.queue, it.action(), it.order, it.turns.group),
                Some(at),
                "lane {at} is found"
            );
            let queued = treap::in_order(&mut ByRank(self), it.root, &mut audit.depth);
            assert_eq!(it.first, queued.first().copied().unwrap_or(NIL), "lane {at}'s first");
            assert_eq!(it.counts.queued as usize, queued.len(), "lane {at}'s queued");
            assert_eq!(it.counts.slots, members[at as usize], "lane {at}'s slots");
            let expected = self.is_head(at) && self.has_next(at);
            assert_eq!(has_front[at as usize], expected, "lane {at}'s front");
            let wanted = it.counts.slots > 0 || it.refiller != 0 || it.cursor != Rank::END;
            let wanted = wanted || it.turns.lanes > 0;
            assert!(wanted, "lane {at} is free when nothing refers to it");
            for slot in &queued {
                let Slot { priority, group, .. } = self.slots[*slot];
                let fits = !matches!(it.order, Order::Level(level) if level != priority);
                assert!(fits, "lane {at}'s order");
                let is_own = group == it.turns.group;
                let is_beside = self.queues[it.queue].coverage == Coverage::Partial
                    && self.slots[*slot].has_token();
                assert!(is_own || is_beside, "a queued slot is in its group's lane");
                assert_eq!(self.slots[*slot].lane, at);
                assert_eq!(self.slots[*slot].state, State::Queued);
                trees[*slot as usize] += 1;
            }
            let queue = &self.queues[it.queue];
            audit.lanes.push(LaneAudit {
                entry: queue.entry,
                queue: queue.name.as_bytes().to_vec(),
                action: it.action().to_vec(),
                cursor: it.cursor,
                refiller: it.refiller,
                queued: queued.iter().map(|slot| self.slots[*slot].id).collect(),
                slots: it.counts.slots,
                group: self.group_of_lane(at),
                is_head: it.turns.lanes > 0,
            });
        }
        let (mut configured, mut refusing, mut ordering) = (0, 0, 0);
        for (at, _) in (0..).zip(&queues).filter(|(_, live)| **live) {
            let it = &self.queues[at];
            let counts = (it.lanes, it.queued, it.running);
            assert_eq!(counts, of_queue[at as usize], "queue {at}'s counts");
            let wanted = self.is_needed(at) || it.to_announce;
            assert!(wanted, "queue {at} is needed, or is to be announced");
            configured += u32::from(it.settings.version > 0 || it.pins > 0);
            refusing += u32::from(it.settings.max_ready > 0);
            ordering += u32::from(it.settings.max_running_per_group == 1);
        }
        assert_eq!(configured, self.globals.configured, "queues with settings");
        assert_eq!(refusing, self.globals.refusing, "queues that refuse tasks");
        assert_eq!(ordering, self.globals.ordering, "queues that keep the order");

        self.audit_workers(&slots, &mut trees, &mut audit.depth);
        for (at, trees) in (0..).zip(trees) {
            let expected = match self.slots[at].state {
                State::Queued | State::Reserved | State::Leased => 1,
                State::Free | State::Ending | State::Withheld => 0,
            };
            assert_eq!(trees, expected, "slot {at} is in the tree of its state");
        }
        self.audit_groups(&lanes, &mut audit.depth);
        self.audit_coverage(&queues);
        self.audit_notes();
        self.audit_shares(&lanes);
        self.audit_announcements(&queues);
        self.audit_permits(&queues);
        self.audit_wakes(&lanes);
        self.audit_waiters();
        audit
    }

    /// Checks the workers, and counts the trees that each slot is in.
    fn audit_workers(&mut self, slots: &[bool], trees: &mut [u32], depth: &mut usize) {
        let workers = self.workers.audit();
        let (mut timed, mut idle) = (vec![0; workers.len()], vec![0; workers.len()]);
        for entry in 0..self.entries().len() as u32 {
            let it = *self.entry(entry);
            for worker in treap::in_order(&mut ByExpiry(self), it.timer, depth) {
                assert_eq!(self.workers[worker].entry, entry, "a worker's timer");
                timed[worker as usize] += 1;
            }
            let listed = list::in_order(&mut self.workers, it.idle_workers);
            assert_eq!(listed.len(), it.idle_workers_len as usize, "idle workers");
            for worker in listed {
                assert_eq!(self.workers[worker].entry, entry, "an idle worker's list");
                idle[worker as usize] += 1;
            }
        }
        let mut owned = vec![(0, 0); workers.len()];
        for (at, _) in (0..).zip(slots).filter(|(_, live)| **live) {
            let slot = self.slots[at];
            if slot.has_token() {
                let it = &self.workers[slot.worker];
                let queue = self.queues[self.lanes[slot.lane].queue];
                let is_in = (it.entry, it.queue) == (queue.entry, queue.name);
                assert!(is_in && workers[slot.worker as usize], "slot {at}'s worker");
                let (slots, running) = &mut owned[slot.worker as usize];
                (*slots, *running) = (*slots + 1, *running + u32::from(slot.has_place()));
            }
        }
        for (at, live) in (0..).zip(workers) {
            let it = self.workers[at];
            assert_eq!(live, !it.name.as_bytes().is_empty(), "worker {at} is used or free");
            if !live {
                assert_eq!((timed[at as usize], idle[at as usize]), (0, 0), "worker {at} is free");
                continue;
            }
            let found = self.find_worker(it.entry, it.queue.as_bytes(), it.name.as_bytes());
            assert_eq!(found, Some(at), "worker {at} is found");
            assert_eq!((it.slots, it.running), owned[at as usize], "worker {at}'s slots");
            assert_eq!(idle[at as usize], u32::from(it.slots == 0), "worker {at} is idle");
            let leases = treap::in_order(&mut ByDeadline(self), it.leases, depth);
            assert_eq!(timed[at as usize], u32::from(!leases.is_empty()), "worker {at}'s timer");
            assert_eq!(it.first, leases.first().copied().unwrap_or(NIL), "worker {at}'s first");
            for slot in leases {
                let Slot { worker, state, deadline, .. } = self.slots[slot];
                assert_eq!(worker, at, "a lease is in its own worker's tree");
                assert!(matches!(state, State::Reserved | State::Leased));
                assert!(slot != it.first || it.next_expiry == deadline, "worker {at}'s expiry");
                trees[slot as usize] += 1;
            }
        }
    }

    fn audit_groups(&mut self, lanes: &[bool], depth: &mut usize) {
        let groups = self.groups.audit();
        let live = || (0..lanes.len() as u32).filter(|lane| lanes[*lane as usize]);
        for head in live().filter(|lane| self.is_head(*lane)).collect::<Vec<_>>() {
            let turns = self.lanes[head].turns;
            assert_eq!(turns.head, NIL, "a head has none");
            let below: Vec<u32> = live().filter(|it| self.lanes[*it].turns.head == head).collect();
            assert_eq!(turns.lanes as usize, below.len(), "head {head}'s lanes");
            let queued: u32 = below.iter().map(|lane| self.lanes[*lane].counts.queued).sum();
            assert_eq!(turns.queued, queued, "head {head}'s queued");
            let by_turn = treap::in_order(&mut ByTurn(self), turns.root, depth);
            assert_eq!(turns.first, by_turn.first().copied().unwrap_or(NIL), "head {head}'s first");
            let mut sorted = by_turn.clone();
            sorted.sort();
            let has = |lane: &u32| self.is_listed(*lane);
            let expected: Vec<u32> = below.iter().copied().filter(has).collect();
            assert_eq!(sorted, expected, "head {head}'s tree");
            for lane in below {
                let (it, head) = (&self.lanes[lane], &self.lanes[head]);
                assert_eq!((it.queue, it.order), (head.queue, head.order), "lane {lane}'s head");
                assert_eq!(it.action, head.action, "lane {lane}'s head");
            }
        }
        let slots: Vec<Slot> = (0..self.slots.end())
            .map(|at| self.slots[at])
            .filter(|it| it.state != State::Free)
            .collect();
        for (at, _) in (0..).zip(&groups).filter(|(_, live)| **live) {
            let Group { queue, hash, turns, slots: count, .. } = self.groups[at];
            assert_eq!(self.find_group(queue, hash), Some(at), "group {at} is found");
            let mut listed = list::in_order(&mut Siblings(&mut self.lanes), turns.lanes);
            listed.sort();
            let own: Vec<u32> = live().filter(|it| self.lanes[*it].turns.group == at).collect();
            assert_eq!(listed, own, "group {at}'s lanes");
            assert!(own.iter().all(|lane| self.lanes[*lane].queue == queue), "of one queue");
            let of_group: Vec<&Slot> = slots.iter().filter(|it| it.group == at).collect();
            assert_eq!(count as usize, of_group.len(), "group {at}'s slots");
            let is_own = |it: &&Slot| self.lanes[it.lane].queue == queue;
            assert!(of_group.iter().all(is_own), "of one queue");
            let running = of_group.iter().filter(|it| it.has_place()).count();
            assert_eq!(turns.running as usize, running, "group {at}'s running");
            assert!(!own.is_empty() || count > 0, "group {at} is needed");
            assert!(turns.last <= self.queues[queue].last_turn, "group {at}'s turn");
            self.audit_parked(queue, at);
        }
        let queues = self.queues.audit();
        for (at, _) in (0..).zip(&queues).filter(|(_, live)| **live) {
            let Queue { groups: count, turns, .. } = self.queues[at];
            let own = (0..).zip(&groups).filter(|(_, live)| **live);
            let own = own.filter(|(group, _)| self.groups[*group].queue == at).count();
            assert_eq!(count as usize, own, "queue {at}'s groups");
            let heads = list::in_order(&mut Siblings(&mut self.lanes), turns.lanes);
            let is_own = |lane: &u32| {
                let it = &self.lanes[*lane];
                it.turns.group == NIL && it.queue == at
            };
            assert!(heads.iter().all(is_own), "queue {at}'s heads");
            let of_none = slots
                .iter()
                .filter(|it| it.group == NIL && self.lanes[it.lane].queue == at && it.has_place());
            assert_eq!(
                turns.running as usize,
                of_none.count(),
                "queue {at}'s running without group"
            );
        }
    }

    /// A group that is parked is full, or its limit was raised and no process has looked since.
    fn audit_parked(&self, queue: u32, group: u32) {
        let limit = self.queues[queue].settings.max_running_per_group;
        let turns = self.turns(queue, group);
        assert!(!turns.parked || limit == 0 || turns.running > 0, "a parked group runs something");
    }

    fn audit_coverage(&self, queues: &[bool]) {
        let mut partial = vec![0; self.entries().len()];
        for (at, _) in (0..).zip(queues).filter(|(_, live)| **live) {
            let it = &self.queues[at];
            partial[it.entry as usize] += u32::from(it.coverage != Coverage::Whole);
        }
        for (it, partial) in self.entries().iter().zip(partial) {
            assert_eq!(it.partial, partial, "queues that are searched");
        }
    }

    fn audit_notes(&mut self) {
        let mut listed = 0;
        for entry in 0..self.entries().len() as u32 {
            let notes = self.entry(entry).notes;
            for at in list::in_order(&mut self.notes, notes) {
                assert_eq!(self.notes[at].entry, entry, "a note's entry");
                listed += 1;
            }
        }
        let live = self.notes.audit().into_iter().filter(|live| *live).count();
        assert_eq!(live, listed, "notes");
    }

    fn audit_shares(&mut self, lanes: &[bool]) {
        for entry in 0..self.entries().len() as u32 {
            let is_own = |lane: &u32| self.queues[self.lanes[*lane].queue].entry == entry;
            let live = (0..lanes.len() as u32).filter(|lane| lanes[*lane as usize]);
            let own: Vec<u32> = live.filter(is_own).collect();
            let pinned: u32 = own.iter().map(|lane| self.lanes[*lane].counts.pinned()).sum();
            let is_idle = |lane: &u32| self.lanes[*lane].is_idle();
            let mut idle: Vec<u32> = own.iter().copied().filter(is_idle).collect();
            let it = *self.entry(entry);
            assert_eq!(it.pinned, pinned, "what a database has");
            let mut listed = list::in_order(&mut Idle(&mut self.lanes), it.idle);
            assert_eq!(listed.len(), it.idle_len as usize, "idle lanes");
            idle.sort_unstable();
            listed.sort_unstable();
            assert_eq!(idle, listed, "lanes that are idle are listed");
        }
    }

    fn audit_announcements(&mut self, queues: &[bool]) {
        let (mut listed, mut notices) = (vec![false; queues.len()], 0);
        for entry in 0..self.entries().len() {
            let it = self.globals.entries[entry];
            let announce = list::in_order(&mut self.queues, it.announce);
            assert_eq!(announce.len(), it.announce_len as usize, "queues to be announced");
            for queue in announce {
                assert_eq!(self.queues[queue].entry as usize, entry, "a queue's entry");
                listed[queue as usize] = true;
            }
            notices += list::in_order(&mut self.notices, it.notices).len();
        }
        let live = self.notices.audit().into_iter().filter(|live| *live).count();
        assert_eq!(live, notices, "notices");
        let unneeded = (0..).zip(queues).filter(|(at, live)| {
            let is_listed = listed[*at as usize];
            assert!(!**live || self.queues[*at].to_announce == is_listed, "queue {at} is listed");
            **live && !self.is_needed(*at)
        });
        assert_eq!(unneeded.count(), self.globals.unneeded as usize, "queues kept to be announced");
    }

    fn audit_permits(&mut self, queues: &[bool]) {
        let mut awaited = vec![false; queues.len()];
        for entry in 0..self.entries().len() as u32 {
            let root = self.entry(entry).permits;
            for queue in treap::in_order(&mut ByPermit(self), root, &mut 0) {
                assert_eq!(
                    self.queues[queue].entry, entry,
                    "a queue is in its own database's tree"
                );
                awaited[queue as usize] = true;
            }
        }
        for ((at, live), awaited) in (0..).zip(queues).zip(awaited).filter(|it| *it.0.1 || it.1) {
            let it = &self.queues[at];
            assert!(*live && it.permits.awaited == awaited, "queue {at} awaits a permit");
            assert!(!awaited || it.settings.max_per_second > 0.0, "queue {at} has permits");
        }
    }

    fn audit_wakes(&mut self, lanes: &[bool]) {
        let mut listed = vec![WakeState::Idle; lanes.len()];
        for entry in 0..self.entries().len() {
            let it = self.globals.entries[entry];
            let paced = list::in_order(&mut self.lanes, it.paced);
            assert_eq!(paced.len(), it.paced_len as usize, "paced lanes");
            let owing = list::in_order(&mut self.lanes, it.owing);
            for (state, list) in [(WakeState::Paced, paced), (WakeState::Owing, owing)] {
                for lane in list {
                    let queue = self.lanes[lane].queue;
                    assert_eq!(self.queues[queue].entry as usize, entry, "a lane's entry");
                    listed[lane as usize] = state;
                }
            }
        }
        for ((at, live), listed) in (0..).zip(lanes).zip(listed).filter(|it| *it.0.1) {
            let wakes = &self.lanes[at].wakes;
            assert!(*live && wakes.state == listed, "lane {at} is in the list of its state");
            let owes = wakes.state == WakeState::Owing;
            assert_eq!(wakes.owed > 0, owes, "lane {at} owes wake-ups");
        }
    }

    fn audit_waiters(&mut self) {
        let mut in_wait_lists = vec![0; self.waiters.len()];
        for list_at in 0..self.wait_lists.len() {
            let mut joined = 0;
            for at in list::in_order(self.wait_nodes, self.wait_lists[list_at]) {
                assert_eq!(
                    self.wait_list(self.wait_nodes[at as usize].hash),
                    list_at,
                    "the list of node {at}"
                );
                let process = self.process_at(at) as usize;
                assert!(
                    joined <= self.waiters[process].joined,
                    "a wait list is in the order of joining"
                );
                joined = self.waiters[process].joined;
                in_wait_lists[process] += 1;
            }
        }
        for (waiter, in_wait_lists) in self.waiters.iter().zip(in_wait_lists) {
            let waits = waiter.state == WaiterState::Waiting;
            assert_eq!(
                in_wait_lists,
                if waits { waiter.wait_lists } else { 0 },
                "in all wait lists or none"
            );
        }
        let of_state = |state| self.waiters.iter().filter(|it| it.state == state).count();
        assert_eq!(of_state(WaiterState::Waiting), self.globals.waiting as usize, "waiters");
        let signalled = of_state(WaiterState::Signalled);
        let listed = list::in_order(self.waiters, self.globals.signalled).len();
        assert_eq!(listed, signalled, "signalled waiters are listed");
    }
}
